/* settler.c: see settler.h. */
#include "worker/settler.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "worker/side_tick.h"

#include <assert.h>
#include <sys/random.h>

#define BATCH_MAX 1000
#define DRAIN_MS 500        /* how often the spool is looked at while it is not empty */
#define ASIDE_MS 60000      /* how often what is set aside is offered again */
#define SIDE_FIRST_MS 10000 /* how long a start waits for new work to be enqueued */

struct settler {
	struct settler_options options;
	struct session session;
	struct breaker breaker;
	struct spools *spools; /* NULL: none */
	struct side_tick side;
	pthread_t thread;
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t changed;
	struct hand_job *first, *last;
	bool busy, stop;
	int64_t stop_by_ms;
	struct settler_counts counts;
};

static double chance(void)
{
	uint32_t bits = 0;
	if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
		bits = (uint32_t)clock_boot_us();
	return (double)bits / 4294967296.0;
}

static struct timespec after_ms(int64_t ms)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += (ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

static struct source *source_named(const struct settler *s, const char *name)
{
	for (int i = 0; name && i < s->options.nsources; i++)
		if (text_eq(s->options.sources[i]->name, name))
			return s->options.sources[i];
	return NULL;
}

/* Sources that have something in the spool and that no pool of ours serves: their names. */
static void note_unserved(struct settler *s)
{
	struct buf names = BUF_INIT;
	const char *name;
	for (int i = 0; (name = spools_source(s->spools, i)); i++)
		if (!source_named(s, name))
			buf_addf(&names, "%s%s", names.len ? ", " : "", name[0] ? name : "(not readable)");
	snprintf(s->counts.unserved, sizeof s->counts.unserved, "%s", buf_text(&names));
	buf_release(&names);
}

/* How the breaker and the spool are, for others to read; under the lock. */
static void note_state(struct settler *s)
{
	s->counts.breaker = s->breaker.state;
	s->counts.tries = s->breaker.tries;
	s->counts.failed = s->breaker.failed;
	if (s->spools) {
		struct spools_totals t;
		spools_totals(s->spools, &t);
		s->counts.spool_depth = t.waiting;
		s->counts.spool_bytes = t.bytes;
		s->counts.set_aside = t.set_aside;
		snprintf(s->counts.aside_why, sizeof s->counts.aside_why, "%s%s%s",
		         t.why ? t.why_source : "", t.why ? ": " : "", t.why ? t.why : "");
		note_unserved(s);
	}
}

/* ---- ends that a table refuses ---- */

/*
 * A constraint or trigger of the table takes the job, but not this end of it, as it will at each
 * try. So the job failed, with the database's own words. False: there is no other end to try.
 */
static bool end_as_failed(struct settlement *one, struct arena *a, const struct failure *why)
{
	if (one->as != SETTLE_DONE && one->as != SETTLE_TIMED_OUT)
		return false;
	one->error = arena_printf(a, "the database refused to record it as %s: %s",
	                          settle_names[one->as], why->what);
	one->result = NULL;
	one->as = SETTLE_FAILED;
	return true;
}

static void cry_out(const char *source, const struct settlement *one, const char *because,
                    const char *spool)
{
	struct buf line = BUF_INIT;
	buf_addf(&line, "ZOMBIE RECORD ALERT: %s %s stuck: could not record that it is %s", source,
	         one->key, settle_names[one->as]);
	log_event(LOG_CRITICAL, buf_text(&line), LOG_INT("epoch", one->epoch),
	          LOG_STR("because", because), LOG_STR("spool", spool));
	buf_release(&line);
}

/* ---- new work ---- */

/* True when it went well and there is more. */
static bool drain_side(struct settler *s)
{
	if (!side_tick_due(&s->side) || !breaker_allow(&s->breaker, clock_boot_ms()))
		return false;
	defib_err err = side_tick_drain(&s->side, &s->session);
	breaker_tell(&s->breaker, "settling", !store_away(err), chance(), clock_boot_ms());
	return !err && side_queue_waits(&s->side.queue);
}

/* What was left before we came: a worker that ends with the last job is to see it. */
static void drain_side_first(struct settler *s)
{
	int64_t until = clock_boot_ms() + SIDE_FIRST_MS;
	while (drain_side(s) && clock_boot_ms() < until)
		s->side.due_ms = 0;
}

/* ---- jobs that ended ---- */

/* Its end is kept: that the database still says it is ours is no reason to hand it back. */
static bool end_is_kept(const struct settler *s, const struct hand_job *j)
{
	for (int i = 0; s->spools && i < s->options.nsources; i++) {
		const struct source *src = s->options.sources[i];
		bool same = src == j->source ||
		            (src->keys && j->source->keys && text_eq(src->keys, j->source->keys));
		if (same && spools_holds(s->spools, src->name, j->worker, j->claim.key, j->claim.epoch))
			return true;
	}
	return false;
}

/* Nobody here has it, and its end is not kept: a claim's answer was lost. */
static bool is_kept_stray(const struct settler *s, const struct hand_job *j)
{
	if (j->slot >= 0)
		return false;
	bool kept = end_is_kept(s, j);
	if (!kept)
		log_event(LOG_WARN, "a claim's answer was lost: the job is handed back",
		          LOG_STR("source", j->source->name), LOG_STR("job", j->claim.key));
	return kept;
}

/* A batch is of one source and one incarnation. Under the lock. */
static struct hand_job *take_batch(struct settler *s)
{
	struct hand_job *batch = NULL, **tail = &batch;
	struct hand_job **at = &s->first;
	int n = 0;
	while (*at && n < BATCH_MAX) {
		struct hand_job *j = *at;
		if (batch && (j->source != batch->source || j->worker != batch->worker)) {
			at = &j->queued;
			continue;
		}
		*at = j->queued;
		j->queued = NULL;
		if (is_kept_stray(s, j)) {
			hand_remove(s->options.hand, j);
			continue;
		}
		*tail = j;
		tail = &j->queued;
		n++;
	}
	s->last = NULL;
	for (struct hand_job *j = s->first; j; j = j->queued)
		s->last = j;
	return batch;
}

static int batch_size(const struct hand_job *batch)
{
	int n = 0;
	for (; batch; batch = batch->queued)
		n++;
	return n;
}

static struct settlement settlement_of(const struct hand_job *j)
{
	return (struct settlement){.key = j->claim.key,
	                           .epoch = j->claim.epoch,
	                           .as = j->as,
	                           .result = j->result,
	                           .error = j->error,
	                           .delay_ms = j->delay_ms,
	                           .step = j->step_end};
}

/* Whose ends a batch holds, and how patiently it is settled. */
struct batch_of {
	struct source *source;
	int64_t worker;
	int tries;
};

static defib_err settle_once(struct settler *s, const struct batch_of *of, struct settlement *all,
                             int n, struct arena *a, struct failure *f)
{
	defib_err err = session_ready(&s->session, f);
	if (!err)
		err = of->source->ops->settle(of->source, s->session.store, of->worker, all, n, a, f);
	return err;
}

static bool must_hurry(struct settler *s, int64_t *stop_by_ms)
{
	pthread_mutex_lock(&s->lock);
	bool hurry = s->stop;
	*stop_by_ms = s->stop_by_ms;
	pthread_mutex_unlock(&s->lock);
	return hurry;
}

/* Wait, but not beyond what a stop allows. False: there is no time for another try. */
static bool pause_before_try(struct settler *s)
{
	int64_t ms = (int64_t)(chance() * (double)s->options.try_ms), stop_by = 0;
	int64_t open_ms = breaker_wait_ms(&s->breaker, clock_boot_ms());
	ms = open_ms > ms ? open_ms : ms;
	if (must_hurry(s, &stop_by) && clock_boot_ms() + ms > stop_by)
		return false;
	struct timespec until = after_ms(ms);
	pthread_mutex_lock(&s->lock);
	while (!s->stop && pthread_cond_timedwait(&s->changed, &s->lock, &until) == 0)
		;
	pthread_mutex_unlock(&s->lock);
	return true;
}

static defib_err settle_with_tries(struct settler *s, const struct batch_of *of,
                                   struct settlement *all, int n, struct arena *a,
                                   struct failure *f)
{
	defib_err err = DEFIB_CONNECTION;
	for (int try = 1; try <= of->tries; try++) {
		err = fail(f, DEFIB_CONNECTION, "the breaker is open");
		if (breaker_allow(&s->breaker, clock_boot_ms())) {
			fail_clear(f);
			err = settle_once(s, of, all, n, a, f);
			breaker_tell(&s->breaker, "settling", !store_away(err), chance(), clock_boot_ms());
		}
		if (!store_away(err))
			return err;
		pthread_mutex_lock(&s->lock);
		s->counts.failures++;
		note_state(s);
		pthread_mutex_unlock(&s->lock);
		if (try < of->tries && !pause_before_try(s))
			return err;
	}
	return err;
}

/*
 * All of it, or what can be: a row that its own table refuses must not hold up the others, so it
 * is looked for by halves. `why` says of each what went wrong; NULL: nothing.
 */
static void settle_rows(struct settler *s, const struct batch_of *of, struct settlement *all,
                        const struct failure **why, int n, struct arena *a)
{
	struct failure f = {0};
	defib_err err = settle_with_tries(s, of, all, n, a, &f);
	if (err && n > 1 && store_blames_rows(&f)) {
		settle_rows(s, of, all, why, n / 2, a);
		settle_rows(s, of, all + n / 2, why + n / 2, n - n / 2, a);
		return;
	}
	if (err && !store_away(err))
		log_event(LOG_ERROR, f.what, LOG_STR("source", of->source->name),
		          LOG_STR("job", n == 1 ? all->key : NULL));
	if (err && store_blames_rows(&f) && end_as_failed(all, a, &f))
		err = settle_with_tries(s, of, all, n, a, &f);
	if (!err)
		return;
	struct failure *kept = ARENA_NEW(a, struct failure);
	*kept = f;
	for (int i = 0; i < n; i++)
		why[i] = kept;
}

/* ---- the spool ---- */

struct offering {
	struct settler *settler;
	struct source *source;
};

static void settle_spooled(void *ctx, int64_t worker, struct settlement *ends,
                           const struct failure **why, int n, struct arena *a)
{
	const struct offering *o = ctx;
	settle_rows(o->settler, &(struct batch_of){o->source, worker, 1}, ends, why, n, a);
}

static void drain_source(struct settler *s, struct source *src)
{
	struct offering o = {s, src};
	int64_t n = spooling_drain(s->spools, src->name, clock_boot_ms(), settle_spooled, &o);
	pthread_mutex_lock(&s->lock);
	s->counts.drained += n;
	pthread_mutex_unlock(&s->lock);
}

static void drain_spools(struct settler *s)
{
	for (int i = 0; s->spools && i < s->options.nsources; i++)
		drain_source(s, s->options.sources[i]);
}

/* What the database did not take: the spool, or one critical line each. */
static void keep_elsewhere(struct settler *s, const struct hand_job *batch,
                           const struct failure **why, bool *kept, int n, struct arena *a)
{
	struct spool_result *all = ARENA_ARRAY(a, struct spool_result, n);
	struct failure f = {.what = "off"};
	int i = 0;
	for (const struct hand_job *j = batch; j; j = j->queued)
		all[i++] = (struct spool_result){
			.source = j->source->name, .worker = j->worker, .end = settlement_of(j)};
	if (s->spools)
		spooling_keep(s->spools, batch->source->name, all, why, n, kept, &f);
	for (i = 0; i < n; i++)
		if (why[i] && (!kept[i] || store_blames_rows(why[i])))
			cry_out(all[i].source, &all[i].end, why[i]->what, kept[i] ? "set aside" : f.what);
}

static void finish_job(struct settler *s, struct hand_job *j, const struct settlement *one,
                       const struct failure *err, bool kept)
{
	if (!err)
		j->as = one->as;
	pthread_mutex_lock(&s->lock);
	s->counts.spooled += err && kept;
	s->counts.abandoned += err && !kept;
	s->counts.settled += !err && one->accepted;
	s->counts.ends[j->as] += !err && one->accepted;
	s->counts.refused += !err && !one->accepted;
	pthread_mutex_unlock(&s->lock);
	if (!err && !one->accepted)
		log_event(LOG_WARN, "LEASE_LOST: the job is no longer ours, its result was not taken",
		          LOG_STR("source", j->source->name), LOG_STR("job", j->claim.key),
		          LOG_INT("epoch", j->claim.epoch), LOG_STR("as", settle_names[j->as]));
	if (s->options.settled)
		s->options.settled(s->options.ctx, j);
	hand_remove(s->options.hand, j);
}

static void settle_batch(struct settler *s, struct hand_job *batch)
{
	struct arena a = ARENA_INIT;
	static const struct failure waits = {.code = DEFIB_CONNECTION,
	                                     .what = "what ended before it waits in the spool"};
	int n = batch_size(batch), i = 0;
	struct settlement *all = ARENA_ARRAY(&a, struct settlement, n);
	const struct failure **why = ARENA_ARRAY(&a, const struct failure *, n);
	bool *kept = ARENA_ARRAY(&a, bool, n);
	const char *source = batch->source->name;
	for (const struct hand_job *j = batch; j; j = j->queued)
		all[i++] = settlement_of(j);
	/* Order matters: what is in the spool of this source ended before this. */
	if (s->spools && spools_waiting(s->spools, source) > 0)
		drain_source(s, batch->source);
	if (!s->spools || spools_waiting(s->spools, source) == 0)
		settle_rows(s, &(struct batch_of){batch->source, batch->worker, s->options.tries}, all, why,
		            n, &a);
	else
		for (i = 0; i < n; i++)
			why[i] = &waits;
	if (s->spools && !why[0])
		spooling_taken(s->spools, source);
	keep_elsewhere(s, batch, why, kept, n, &a);
	for (i = 0; batch; i++) {
		struct hand_job *j = batch;
		batch = j->queued;
		finish_job(s, j, &all[i], why[i], kept[i]);
	}
	arena_release(&a);
	if (s->options.done)
		s->options.done(s->options.ctx);
}

/* How long it may sleep when nothing ends. */
static int64_t idle_ms(const struct settler *s, bool spooled)
{
	int64_t side_ms = s->side.due_ms - clock_boot_ms();
	int64_t ms = spooled ? DRAIN_MS : 60000;
	if (s->options.side && side_ms < ms)
		ms = side_ms > 0 ? side_ms : 0;
	return ms;
}

static void *settler_main(void *arg)
{
	struct settler *s = arg;
	struct hand_job *batch;
	for (;;) {
		pthread_mutex_lock(&s->lock);
		s->busy = false;
		note_state(s);
		bool spooled = s->counts.spool_depth + s->counts.set_aside > 0;
		struct timespec until = after_ms(idle_ms(s, spooled));
		while (!s->first && !s->stop && pthread_cond_timedwait(&s->changed, &s->lock, &until) == 0)
			;
		if (!s->first && s->stop) {
			pthread_mutex_unlock(&s->lock);
			return NULL;
		}
		batch = take_batch(s);
		s->busy = true;
		pthread_mutex_unlock(&s->lock);
		if (batch)
			settle_batch(s, batch);
		else
			drain_spools(s);
		drain_side(s);
	}
}

static void tell_unserved(struct settler *s)
{
	note_state(s);
	if (s->counts.unserved[0])
		log_event(LOG_WARN, "results in the spool wait for a worker that serves their source",
		          LOG_STR("sources", s->counts.unserved), LOG_STR("spool", s->options.spool));
}

defib_err settler_start(const struct settler_options *o, struct settler **out, struct failure *f)
{
	struct settler *s = mem_alloc(sizeof *s);
	pthread_condattr_t attr;
	s->options = *o;
	s->session = (struct session){.options = o->store, .open = store_open};
	s->side.queue = (struct side_queue){.folder = o->side, .url = o->store.url};
	breaker_init(&s->breaker, &(struct breaker_rules){5, 1000, 30000});
	if (o->spool) {
		defib_err err = spools_open(o->spool, 0, &s->spools, f);
		for (int i = 0; !err && i < o->nsources; i++)
			err = spools_ready(s->spools, o->sources[i]->name, f);
		if (err) {
			spools_close(s->spools);
			free(s);
			return err;
		}
	}
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &attr);
	pthread_condattr_destroy(&attr);
	/* Now, not when a job has failed: by then there may be none left to be had. */
	struct failure unused = {0};
	(void)!session_ready(&s->session, &unused);
	/* What the last worker of this name left, before anybody declares it dead for that. */
	drain_spools(s);
	tell_unserved(s);
	drain_side_first(s);
	if (pthread_create(&s->thread, NULL, settler_main, s) != 0) {
		session_close(&s->session);
		spools_close(s->spools);
		free(s);
		return fail(f, DEFIB_IO, "cannot start a thread for settling");
	}
	*out = s;
	return DEFIB_OK;
}

void settler_add(struct settler *s, struct hand_job *j)
{
	assert(j->queued == NULL);
	pthread_mutex_lock(&s->lock);
	if (s->last)
		s->last->queued = j;
	else
		s->first = j;
	s->last = j;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

bool settler_idle(struct settler *s)
{
	pthread_mutex_lock(&s->lock);
	bool idle = !s->first && !s->busy;
	pthread_mutex_unlock(&s->lock);
	return idle;
}

void settler_counts(struct settler *s, struct settler_counts *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->counts;
	pthread_mutex_unlock(&s->lock);
}

void settler_stop(struct settler *s, int64_t grace_ms)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	s->stop_by_ms = clock_boot_ms() + grace_ms;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	session_close(&s->session);
	spools_close(s->spools);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
