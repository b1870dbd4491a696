/* SPDX-License-Identifier: Apache-2.0
 * worker_turns.c: the turn thread. It reports events to the engine, carries out its actions, and
 * sleeps until something happens or is due. It decides nothing.
 */

#include "worker/worker_turns.h"

#include "base/log.h"
#include "recover/masked.h"
#include "worker/ended.h"
#include "worker/life_thread.h"
#include "worker/run_lines.h"
#include "worker/run_thread.h"
#include "worker/spooling.h"
#include "worker/turns.h"
#include "worker/wake.h"
#include "worker/worker_jobs.h"
#include "worker/worker_state.h"

#include <poll.h>

#define SLEEP_MOST_US 1000000 /* in case a wake-up is lost */
#define REOPEN_MS 250
#define AHEAD_MOST 32         /* programs that are claimed ahead */
#define STORED_FIRST_MS 10000 /* how long a start waits for stored jobs to be enqueued */

/* ---- from other threads ---- */

void turn_thread_wake(struct worker *w)
{
	ended_wake(&w->turn_thread.ended);
}

void turn_thread_over(struct worker *w, struct job *j)
{
	ended_push(&w->turn_thread.ended, j);
}

/* ---- events ---- */

static void turn_thread_step(struct worker *w, struct engine_event ev)
{
	ev.chance = chance_draw(&w->turn_thread.chance);
	engine_step(w->engine, &ev, clock_boot_us());
}

static void tell_life(struct worker *w)
{
	struct turn_thread *t = &w->turn_thread;
	int64_t worker = life_thread_worker(w->life);
	enum lease_contact contact = life_thread_contact(w->life);
	if (worker == t->worker && contact == t->contact)
		return;
	t->worker = worker;
	t->contact = contact;
	turn_thread_step(
		w, (struct engine_event){.kind = EVENT_LIFE, .worker = worker, .contact = contact});
}

static void tell_times(struct worker *w, enum engine_event_kind kind, bool yes, int n)
{
	for (; n > 0; n--)
		turn_thread_step(w, (struct engine_event){.kind = kind, .yes = yes});
}

static void tell_resizes(struct worker *w, const struct resize *resizes)
{
	for (int i = 0; i < w->options.npools; i++) {
		if (!resizes[i].wanted)
			continue;
		atomic_store(&w->places[i].most, resizes[i].concurrency);
		turn_thread_step(w, (struct engine_event){.kind = EVENT_RESIZE,
		                                          .pool = i,
		                                          .concurrency = resizes[i].concurrency,
		                                          .poll_ms = resizes[i].poll_ms});
	}
}

static void tell_messages(struct worker *w)
{
	AUTO_ARENA a = ARENA_INIT;
	size_t n = (size_t)w->options.npools;
	struct resize *resizes = ARENA_ARRAY(&a, struct resize, n);
	pthread_mutex_lock(&w->lock);
	struct messages m = w->messages;
	memcpy(resizes, m.resizes, n * sizeof *resizes);
	memset(m.resizes, 0, n * sizeof *resizes);
	w->messages = (struct messages){.resizes = m.resizes};
	pthread_mutex_unlock(&w->lock);
	tell_resizes(w, resizes);
	tell_times(w, EVENT_SERVED, true, m.served > 0);
	tell_times(w, EVENT_SERVED, false, m.unserved);
	tell_times(w, EVENT_LACKS, false, m.able > 0);
	tell_times(w, EVENT_LACKS, true, m.lacking);
	tell_times(w, EVENT_COMPARE, true, m.compare);
	tell_times(w, EVENT_PROGRESS, true, m.progress);
	tell_times(w, EVENT_STOP, true, m.stops);
	if (wake_taken(w->turn_thread.wake, w->turn_thread.session.store) || m.woken)
		turn_thread_step(w, (struct engine_event){.kind = EVENT_WOKEN});
}

/* The watch of a pool; NULL: the built-in queue. */
static const struct watch *watch_of(const struct worker *w, const struct job *j)
{
	for (int i = 1; i < w->options.nwatches; i++)
		if (text_eq(w->options.watches[i]->name, w->sources[j->pool]->name))
			return w->options.watches[i];
	return NULL;
}

/* Whose job it is, masked: the first masked column that the watch shows. NULL: there is none. */
static const char *masked_column(const struct watch *w, const char *payload, struct buf *out)
{
	json_auto_t *row = payload ? json_loads(payload, 0, NULL) : NULL;
	for (int i = 0; i < w->show.n; i++) {
		const char *name = w->show.items[i];
		const char *value = json_string_value(json_object_get(row, name));
		if (value && text_list_find(&w->mask, name) >= 0) {
			masked_text(w, NULL, name, value, out);
			return name;
		}
	}
	return NULL;
}

/* An error, or a warning if its time was over: with the cause. */
static void log_failed(const struct worker *w, const struct watch *watch, const struct job *j,
                       int64_t elapsed_ms)
{
	AUTO_BUF owner = BUF_INIT, because = BUF_INIT;
	AUTO_SECRETS secrets = {0};
	const char *column = masked_column(watch, j->claim.payload, &owner);
	if (j->claim.payload)
		secrets_document(&secrets, watch, j->claim.payload);
	masked_free_text(watch, &secrets, j->error ? j->error : "", &because);
	log_event(j->as == SETTLE_TIMED_OUT ? LOG_WARN : LOG_ERROR, "job ended",
	          LOG_STR("source", w->sources[j->pool]->name), LOG_STR("job", j->claim.key),
	          LOG_STR("as", settle_names[j->as]), LOG_INT("elapsed_ms", elapsed_ms),
	          LOG_STR(column ? column : "owner", column ? buf_text(&owner) : NULL),
	          LOG_STR("because", buf_text(&because)));
}

static void log_ended(const struct worker *w, const struct job *j, int64_t elapsed_ms)
{
	const struct watch *watch = w->options.pools[j->pool].noted ? watch_of(w, j) : NULL;
	bool failed = j->as == SETTLE_FAILED || j->as == SETTLE_PERMANENT ||
	              j->as == SETTLE_TIMED_OUT || j->as == SETTLE_CRASHED;
	if (watch && failed) {
		log_failed(w, watch, j, elapsed_ms);
		return;
	}
	log_event(w->options.pools[j->pool].noted ? LOG_INFO : LOG_DEBUG, "job ended",
	          LOG_STR("source", w->sources[j->pool]->name), LOG_STR("job", j->claim.key),
	          LOG_STR("as", settle_names[j->as]), LOG_INT("elapsed_ms", elapsed_ms));
}

static void tell_ended(struct worker *w, struct job *j, int64_t now_ms)
{
	j->queued = NULL;
	turn_thread_step(w, (struct engine_event){.kind = EVENT_ENDED, .job = j});
	int64_t elapsed_ms = now_ms - j->began_ms;
	if (j->as != SETTLE_STOPPED && j->as != SETTLE_RELEASED)
		job_times_add(&w->ran, elapsed_ms);
	log_ended(w, j, elapsed_ms);
}

static void tell_all_ended(struct worker *w)
{
	int64_t now_ms = clock_boot_ms();
	struct job *j = ended_take(&w->turn_thread.ended);
	if (!j)
		return;
	pthread_mutex_lock(&w->lock);
	while (j) {
		struct job *next = j->queued;
		tell_ended(w, j, now_ms);
		j = next;
	}
	pthread_mutex_unlock(&w->lock);
}

static void tell_all(struct worker *w)
{
	tell_life(w);
	tell_messages(w);
	tell_all_ended(w);
	if (w->turn_thread.failed_over)
		turn_thread_step(w, (struct engine_event){.kind = EVENT_TIMELINE});
	w->turn_thread.failed_over = false;
	turn_thread_step(w, (struct engine_event){.kind = EVENT_TICK});
}

/* ---- actions ---- */

static void log_job(enum log_level level, const struct worker *w, const char *what,
                    const struct engine_action *do_)
{
	const struct job *j = do_->job;
	log_event(level, what, LOG_STR("source", w->sources[j->pool]->name),
	          LOG_STR("job", j->claim.key), LOG_INT("epoch", j->claim.epoch),
	          LOG_STR("as", settle_names[j->as]),
	          LOG_STR("because", do_->why ? do_->why->what : NULL));
}

/* The one line that names a job whose end is not recorded. */
static void log_unrecorded(const struct worker *w, const struct job *j, const struct failure *why,
                           const char *spool)
{
	AUTO_BUF line = BUF_INIT;
	const char *given = w->options.pools[j->pool].unrecorded_message;
	buf_addf(&line, "%s: %s %s stuck: could not record that it is %s",
	         given ? given : UNRECORDED_MESSAGE, w->sources[j->pool]->name, j->claim.key,
	         settle_names[j->as]);
	log_event(LOG_CRITICAL, buf_text(&line), LOG_INT("epoch", j->claim.epoch),
	          LOG_STR("because", why ? why->what : NULL), LOG_STR("spool", spool));
}

static void turn_thread_tell_breaker(const struct engine_action *do_)
{
	if (do_->yes)
		log_event(LOG_WARN, "breaker opened", LOG_STR("pauses", do_->what),
		          LOG_INT("failures", do_->count));
	else
		log_event(LOG_INFO, "breaker closed", LOG_STR("resumes", do_->what));
}

static void turn_thread_no_beat(const struct worker *w, const struct engine_action *do_)
{
	bool again = do_->yes;
	log_event(again ? LOG_WARN : LOG_ERROR,
	          again ? "heartbeat failed; will retry" : "heartbeat failed",
	          LOG_STR("source", w->sources[do_->pool]->name), LOG_STR("because", do_->why->what),
	          LOG_INT("failed", do_->count));
}

static void spool(struct worker *w, const struct engine_action *do_)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	struct job *j = do_->job;
	int n = 0;
	for (const struct job *at = j; at; at = at->queued)
		n++;
	bool *kept = ARENA_ARRAY(&a, bool, n);
	turns_spool_keep(w, j, do_->why, kept, &f);
	for (int i = 0; i < n; i++) {
		struct job *next = j->queued;
		j->queued = NULL;
		if (!kept[i] || (do_->why && store_blames_rows(do_->why)))
			log_unrecorded(w, j, do_->why, kept[i] ? "set aside" : f.code ? f.what : "off");
		turn_thread_step(w, (struct engine_event){.kind = EVENT_SPOOLED, .job = j, .yes = kept[i]});
		j = next;
	}
	turns_spool_tell(w, clock_boot_us());
}

/* Wake the caller's thread once, when all is done. */
static void ask_to_stop(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->stop_asked = true;
	pthread_mutex_unlock(&w->lock);
	w->turn_thread.nudge = true;
}

static void do_one(struct worker *w, const struct engine_action *do_, struct turn **turn)
{
	switch (do_->kind) {
	case ACTION_START:
		jobs_start(w, do_->job);
		break;
	case ACTION_STOP:
		ask_to_stop(w);
		break;
	case ACTION_RETURN:
		jobs_return(w, do_->pool);
		break;
	case ACTION_TURN:
		*turn = do_->turn;
		break;
	case ACTION_SPOOL:
		spool(w, do_);
		break;
	case ACTION_REFUSED:
		log_job(LOG_WARN, w,
		        "LEASE_LOST: the job no longer belongs to this worker; its result was refused",
		        do_);
		if (w->options.pools[do_->job->pool].lines)
			lines_refused(w->lines, do_->job);
		break;
	case ACTION_SETTLED:
	case ACTION_FORGOTTEN:
	case ACTION_GIVEN_UP: /* logged where it could not be stored */
		break;
	case ACTION_STRAY:
		log_job(LOG_WARN, w, "the answer to a claim was lost: the job is released", do_);
		break;
	case ACTION_FAILED:
		log_event(LOG_WARN, "nothing was claimed or settled",
		          LOG_STR("source", w->sources[do_->pool]->name),
		          LOG_STR("because", do_->why->what));
		break;
	case ACTION_NO_BEAT:
		turn_thread_no_beat(w, do_);
		break;
	case ACTION_BREAKER:
		turn_thread_tell_breaker(do_);
		break;
	}
}

static void note_counts(struct worker *w)
{
	struct spool_news news = {0};
	turns_spool_news(w, &news);
	pthread_mutex_lock(&w->lock);
	engine_counts(w->engine, &w->counts);
	w->spooled = news;
	pthread_mutex_unlock(&w->lock);
}

/* All actions of the engine; a turn last, so that jobs start while it runs. */
static bool do_all(struct worker *w)
{
	struct engine_action next;
	struct turn *turn = NULL;
	while (engine_next(w->engine, &next))
		do_one(w, &next, &turn);
	if (w->threads)
		threads_go(w->threads);
	if (w->lines)
		lines_go(w->lines);
	if (w->turn_thread.nudge)
		worker_wake(w);
	w->turn_thread.nudge = false;
	if (!turn)
		return false;
	turns_do(w, turn);
	/* Whether we were declared dead meanwhile decides about the claimed jobs. */
	tell_life(w);
	turn_thread_step(w, (struct engine_event){.kind = EVENT_TURN, .turn = turn});
	return true;
}

/* ---- sleeping ---- */

/* A lost session is reopened soon, used or not: notifications of new jobs come through it. */
static void keep_session(struct worker *w)
{
	struct turn_thread *t = &w->turn_thread;
	struct failure f = {0};
	int64_t now = clock_boot_ms();
	if (!t->session.store || !t->session.store->lost || now < t->reopen_ms)
		return;
	t->reopen_ms = now + REOPEN_MS;
	(void)!turns_ready(w, &f);
}

static int64_t wait_us(const struct worker *w)
{
	const struct turn_thread *t = &w->turn_thread;
	int64_t us = engine_wait_us(w->engine, clock_boot_us());
	us = us > SLEEP_MOST_US ? SLEEP_MOST_US : us < 0 ? 0 : us;
	int64_t stored_us = w->options.stored_jobs ? (t->stored.due_ms - clock_boot_ms()) * 1000 : us;
	if (stored_us < us)
		us = stored_us > 0 ? stored_us : 0;
	if (t->session.store && t->session.store->lost && us > REOPEN_MS * 1000)
		us = REOPEN_MS * 1000;
	return us;
}

static void rest(struct worker *w)
{
	struct turn_thread *t = &w->turn_thread;
	bool lost = t->session.store && t->session.store->lost;
	int64_t us = wait_us(w);
	struct timespec time = {us / 1000000, us % 1000000 * 1000};
	struct pollfd fds[] = {
		{.fd = t->ended.event, .events = POLLIN},
		{.fd = lost ? -1 : wake_fd(t->wake, t->session.store), .events = POLLIN},
	};
	if (ended_may_sleep(&t->ended, engine_enough(w->engine)) && us > 0)
		(void)ppoll(fds, 2, &time, NULL);
	ended_awake(&t->ended);
}

/* ---- new jobs that programs of this host stored ---- */

/* True if it succeeded and there is more. */
static bool drain_side(struct worker *w)
{
	struct turn_thread *t = &w->turn_thread;
	if (!stored_jobs_due(&t->stored))
		return false;
	defib_err err = stored_jobs_tick(&t->stored, &t->session);
	return !err && stored_jobs_waits(&t->stored.queue);
}

/* Jobs stored before we started: a worker that drains must see them. */
static void enqueue_stored_first(struct worker *w)
{
	int64_t until = clock_boot_ms() + STORED_FIRST_MS;
	while (drain_side(w) && clock_boot_ms() < until)
		w->turn_thread.stored.due_ms = 0;
}

/* Results set aside wait only for their time, which the engine does not know. */
static void offer_aside(struct worker *w)
{
	for (int i = 0; i < w->options.npools; i++)
		if (turns_spool_due(w, i))
			(void)turns_spool_drain(w, i);
}

/* ---- the thread ---- */

static void *turn_thread_main(void *arg)
{
	struct worker *w = arg;
	while (!engine_finished(w->engine)) {
		tell_all(w);
		bool turned = do_all(w);
		note_counts(w);
		keep_session(w);
		drain_side(w);
		offer_aside(w);
		if (!turned)
			rest(w);
	}
	atomic_store(&w->finished, true);
	worker_wake(w);
	return NULL;
}

/* ---- creation and end ---- */

static struct engine_pool engine_pool_of(const struct worker *w, int i)
{
	const struct worker_pool *p = &w->options.pools[i];
	const struct source *src = w->sources[i];
	bool plain = !p->batch && !p->stagger_ms && !p->burst_limit;
	struct engine_pool e = {.concurrency = p->concurrency,
	                        .poll_ms = p->poll_ms,
	                        .batch = p->batch,
	                        .stagger_ms = p->stagger_ms,
	                        .burst_limit = p->burst_limit,
	                        .burst_ms = p->burst_ms,
	                        .grace_ms = p->grace_ms,
	                        .own_grace = p->own_grace,
	                        .exclusive = p->exclusive,
	                        .wait_first = p->wait_first,
	                        .announced = src->announced && w->turn_thread.session.store &&
	                                     !w->turn_thread.session.store->pooled,
	                        .beat_ms = src->beat_ms,
	                        .ahead = plain && !p->handler && !p->lines ? AHEAD_MOST : 0,
	                        .same_jobs = w->same_jobs[i]};
	return e;
}

static void make_engine(struct worker *w)
{
	AUTO_ARENA a = ARENA_INIT;
	const struct worker_options *o = &w->options;
	struct engine_pool *pools = ARENA_ARRAY(&a, struct engine_pool, o->npools);
	for (int i = 0; i < o->npools; i++)
		pools[i] = engine_pool_of(w, i);
	struct engine_options eo = {.pools = pools,
	                            .npools = o->npools,
	                            .grace_ms = o->grace_ms,
	                            .drain = o->drain,
	                            .beat_tries = o->beat_tries,
	                            .beat_retry_ms = o->beat_retry_ms};
	struct engine *e = engine_new(&eo, clock_boot_us());
	pthread_mutex_lock(&w->lock);
	w->engine = e;
	pthread_mutex_unlock(&w->lock);
}

defib_err turn_thread_open(struct worker *w, struct failure *f)
{
	struct turn_thread *t = &w->turn_thread;
	struct failure unused = {0};
	t->session = (struct session){.options = w->options.store, .open = store_open};
	t->stored.queue =
		(struct stored_jobs){.folder = w->options.stored_jobs, .url = w->options.store.url};
	chance_seed(&t->chance);
	t->wake = wake_open(w->options.store.url);
	defib_err err = turns_spool_open(w, f);
	if (err)
		return err;
	/* Now, not when a job has failed: by then no descriptors may be left. */
	(void)!turns_ready(w, &unused);
	/*
	 * Results of the last worker of this name go first, before it is declared dead and its jobs
	 * recovered.
	 */
	for (int i = 0; i < w->options.npools; i++)
		(void)turns_spool_drain(w, i);
	enqueue_stored_first(w);
	return DEFIB_OK;
}

/* The slots' start times count from when the cleanup after others is done. */
defib_err turn_thread_start(struct worker *w, struct failure *f)
{
	make_engine(w);
	w->turn_thread.contact = CONTACT_TAKEN; /* because nothing was reported to it yet */
	turns_spool_tell(w, clock_boot_us());
	if (pthread_create(&w->turn_thread.thread, NULL, turn_thread_main, w) != 0)
		return fail(f, DEFIB_IO, "cannot start a thread for a worker");
	w->turn_thread.started = true;
	return DEFIB_OK;
}

void turn_thread_join(struct worker *w)
{
	if (w->turn_thread.started)
		pthread_join(w->turn_thread.thread, NULL);
}

void turn_thread_release(struct worker *w)
{
	struct turn_thread *t = &w->turn_thread;
	session_close(&t->session);
	spools_close(t->spools);
	wake_close(t->wake);
	if (w->engine)
		engine_free(w->engine);
}
