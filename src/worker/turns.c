/* SPDX-License-Identifier: Apache-2.0
 * turns.c: a turn, as calls of the database: one a part. What a row of its own table
 * refuses is looked for by halves, so that it costs nobody else anything.
 */
#include "worker/worker_inside.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "life/registry.h"
#include "worker/spooling.h"

/* Beside the session of our life: our lock is gone when both are, as when the process is. */
static void hold_lock(struct turn_thread *t)
{
	struct failure unused = {0};
	bool held;
	if (t->locked == t->worker || !t->worker)
		return;
	t->locked = t->worker;
	(void)!registry_hold_lock(t->session.store, t->worker, &held, &unused);
}

defib_err turns_ready(struct worker *w, struct failure *f)
{
	struct turn_thread *t = &w->turn_thread;
	defib_err err = session_ready(&t->session, f);
	if (err)
		return err;
	if (t->opened != t->session.opened) {
		int64_t before = t->timeline;
		t->opened = t->session.opened;
		t->timeline = t->session.store->timeline.number;
		t->failed_over = t->failed_over || (before && before != t->timeline);
		wake_listen(t->wake, t->session.store);
		t->locked = 0;
	}
	hold_lock(t);
	/* Nothing is claimed or recorded there before the engine knows: epochs may come again. */
	if (t->failed_over)
		return fail(f, DEFIB_CONNECTION, "the server failed over: checking its claims first");
	return DEFIB_OK;
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

/* Ends alone, without anything that is claimed or asked. */
static defib_err settle(struct worker *w, const struct turn_part *p, int from, int n,
                        struct arena *a, struct failure *f)
{
	struct source *src = w->sources[p->pool];
	defib_err err = turns_ready(w, f);
	if (!err)
		err =
			src->ops->settle(src, w->turn_thread.session.store, p->worker, p->ends + from, n, a, f);
	return err;
}

/* `why` says of each end what went wrong. An error that is no row's fault ends the search. */
static defib_err settle_halves(struct worker *w, struct turn_part *p, int from, int n,
                               struct arena *a, struct failure *f)
{
	fail_clear(f);
	defib_err err = settle(w, p, from, n, a, f);
	if (!err || !store_blames_rows(f))
		return err;
	if (n > 1) {
		err = settle_halves(w, p, from, n / 2, a, f);
		return err ? err : settle_halves(w, p, from + n / 2, n - n / 2, a, f);
	}
	log_event(LOG_ERROR, f->what, LOG_STR("source", w->sources[p->pool]->name),
	          LOG_STR("job", p->ends[from].key));
	struct failure first = *f;
	if (end_as_failed(&p->ends[from], a, &first)) {
		fail_clear(f);
		err = settle(w, p, from, 1, a, f);
		if (!err || !store_blames_rows(f))
			return err;
	}
	struct failure *kept = ARENA_NEW(a, struct failure);
	*kept = first;
	p->why[from] = kept;
	return DEFIB_OK;
}

defib_err turns_settle(struct worker *w, struct turn_part *p, struct arena *a, struct failure *f)
{
	return settle_halves(w, p, 0, p->nends, a, f);
}

/* ---- a part ---- */

/* What ended before these waits in the spool; so must they. */
static void keep_behind(struct turn_part *p)
{
	static const struct failure waits = {
		.code = DEFIB_CONNECTION, .what = "earlier results of the same source wait in the spool"};
	for (int i = 0; i < p->nends; i++)
		p->why[i] = &waits;
}

/* All of it, or what can be: a row that its own table refuses must not hold up the others. */
static defib_err call(struct worker *w, struct turn_part *p, struct arena *a)
{
	struct source *src = w->sources[p->pool];
	struct failure f = {0};
	defib_err err = source_turn(src, w->turn_thread.session.store, p, a);
	if (!err || p->nends == 0 || !store_blames_rows(&p->f))
		return err;
	err = settle_halves(w, p, 0, p->nends, a, &f);
	p->f = f;
	p->nends = 0;
	return err ? err : source_turn(src, w->turn_thread.session.store, p, a);
}

/* A job whose end is kept in a spool is not forgotten: the engine need not hear of it. */
static void leave_out_kept(struct worker *w, struct turn_part *p)
{
	int n = 0;
	for (int i = 0; i < p->nhas; i++)
		if (!turns_spool_holds(w, p->pool, p->claimer, p->has[i].key, p->has[i].epoch))
			p->has[n++] = p->has[i];
	p->nhas = n;
}

static void do_part(struct worker *w, struct turn_part *p, struct arena *a)
{
	int nends = p->nends;
	p->why = ARENA_ARRAY(a, const struct failure *, nends > 0 ? nends : 1);
	defib_err err = turns_ready(w, &p->f);
	if (!err && p->drain)
		p->spooled = turns_spool_drain(w, p->pool);
	if (!err && p->drain && p->spooled > 0) {
		keep_behind(p);
		p->nends = 0;
	}
	if (!err)
		err = call(w, p, a);
	p->nends = nends;
	p->err = err;
	p->away = err && store_away(err);
	if (!err && nends > 0)
		turns_spool_taken(w, p->pool);
	if (!err)
		leave_out_kept(w, p);
	if (err) {
		p->beat_err = err;
		p->beat_f = p->f;
	}
	if (!err && p->room > 0)
		log_event(p->nclaims > 0 && w->options.pools[p->pool].noted ? LOG_INFO : LOG_DEBUG, "tick",
		          LOG_STR("source", w->sources[p->pool]->name), LOG_INT("claimed", p->nclaims));
}

/* ---- progress ---- */

static void tell_progress(struct worker *w, struct turn_progress *p)
{
	const struct job *j = p->job;
	struct source *src = w->sources[j->pool];
	struct failure f = {0};
	struct job_said *said = job_take_said(p->job);
	if (said && turns_ready(w, &f) == DEFIB_OK)
		p->lost = src->ops->progress(src, w->turn_thread.session.store, j->worker, j->claim.key,
		                             j->claim.epoch, said->step[0] ? said->step : NULL, said->text,
		                             &f) == DEFIB_LEASE_LOST;
	free(said);
}

void turns_do(struct worker *w, struct turn *t)
{
	for (int i = 0; i < t->nparts; i++)
		do_part(w, &t->parts[i], &t->arena);
	for (int i = 0; i < t->nprogress; i++)
		tell_progress(w, &t->progress[i]);
}

/* ---- results that the database could not take ---- */

/* The folder is ours now: what was seen of servers is kept in it too. */
static defib_err keep_timelines(const char *folder, struct failure *f)
{
	struct buf path = BUF_INIT;
	buf_addf(&path, "%s/timelines", folder);
	defib_err err = timeline_keep(buf_text(&path), f);
	buf_release(&path);
	return err;
}

defib_err turns_spool_open(struct worker *w, struct failure *f)
{
	struct turn_thread *t = &w->turn_thread;
	if (!w->options.spool)
		return DEFIB_OK;
	defib_err err = spools_open(w->options.spool, 0, &t->spools, f);
	if (!err)
		err = keep_timelines(w->options.spool, f);
	for (int i = 0; !err && i < w->options.npools; i++)
		err = spools_ready(t->spools, w->sources[i]->name, f);
	if (err)
		return err;
	struct spool_news news = {0};
	turns_spool_news(w, &news);
	if (news.unserved[0])
		log_event(LOG_WARN, "results in the spool wait for a worker of their source",
		          LOG_STR("sources", news.unserved), LOG_STR("spool", w->options.spool));
	return DEFIB_OK;
}

static bool served(const struct worker *w, const char *source)
{
	for (int i = 0; i < w->options.npools; i++)
		if (text_eq(w->sources[i]->name, source))
			return true;
	return false;
}

void turns_spool_news(const struct worker *w, struct spool_news *out)
{
	const struct spools *s = w->turn_thread.spools;
	struct spools_totals t;
	struct buf names = BUF_INIT;
	const char *name;
	if (!s)
		return;
	spools_totals(s, &t);
	out->waiting = t.waiting;
	out->bytes = t.bytes;
	out->set_aside = t.set_aside;
	if (t.why)
		snprintf(out->why, sizeof out->why, "%s: %s", t.why_source, t.why);
	for (int i = 0; (name = spools_source(s, i)); i++)
		if (!served(w, name))
			buf_addf(&names, "%s%s", names.len ? ", " : "", name[0] ? name : "(not readable)");
	utf8_copy(out->unserved, sizeof out->unserved, buf_text(&names));
	buf_release(&names);
}

bool turns_spool_holds(const struct worker *w, int pool, int64_t worker, const char *key,
                       int64_t epoch)
{
	const struct spools *s = w->turn_thread.spools;
	for (int i = 0; s && i < w->options.npools; i++)
		if (w->same_jobs[i] == w->same_jobs[pool] &&
		    spools_holds(s, w->sources[i]->name, worker, key, epoch))
			return true;
	return false;
}

static int64_t waiting(const struct worker *w, int first)
{
	int64_t n = 0;
	for (int i = first; i < w->options.npools; i++)
		if (w->same_jobs[i] == first)
			n += spools_waiting(w->turn_thread.spools, w->sources[i]->name);
	return n;
}

void turns_spool_tell(struct worker *w, int64_t now_us)
{
	for (int i = 0; w->turn_thread.spools && i < w->options.npools; i++) {
		struct engine_event ev = {.kind = EVENT_WAITING, .pool = i};
		if (w->same_jobs[i] != i)
			continue;
		ev.count = waiting(w, i);
		engine_step(w->engine, &ev, now_us);
	}
}

struct offering {
	struct worker *w;
	int pool;
};

static void offer(void *ctx, int64_t worker, struct settlement *ends, const struct failure **why,
                  int n, struct arena *a)
{
	const struct offering *o = ctx;
	struct failure f = {0};
	struct turn_part p = {.pool = o->pool, .worker = worker, .ends = ends, .nends = n, .why = why};
	if (turns_settle(o->w, &p, a, &f) == DEFIB_OK)
		return;
	struct failure *kept = ARENA_NEW(a, struct failure);
	*kept = f;
	for (int i = 0; i < n; i++)
		why[i] = why[i] ? why[i] : kept;
}

/* What ended waits under the name of the first pool with the same jobs. */
static const char *spool_of(const struct worker *w, int pool)
{
	return w->sources[w->same_jobs[pool]]->name;
}

int64_t turns_spool_drain(struct worker *w, int pool)
{
	struct spools *s = w->turn_thread.spools;
	for (int i = 0; s && i < w->options.npools; i++) {
		struct offering o = {w, i};
		if (w->same_jobs[i] != w->same_jobs[pool])
			continue;
		spooling_drain(s, w->sources[i]->name, clock_boot_ms(), offer, &o);
	}
	return s ? waiting(w, w->same_jobs[pool]) : 0;
}

void turns_spool_taken(struct worker *w, int pool)
{
	if (w->turn_thread.spools)
		spooling_taken(w->turn_thread.spools, spool_of(w, pool));
}

bool turns_spool_due(const struct worker *w, int pool)
{
	const struct spools *s = w->turn_thread.spools;
	const char *source = w->sources[pool]->name;
	if (!s || spools_aside(s, source) == 0)
		return false;
	return clock_boot_ms() >= spools_retry(s, source)->at_ms;
}

void turns_spool_keep(struct worker *w, struct job *first, const struct failure *why, bool *kept,
                      struct failure *f)
{
	struct arena a = ARENA_INIT;
	int n = 0, i = 0;
	if (!w->turn_thread.spools)
		return;
	for (const struct job *j = first; j; j = j->queued)
		n++;
	const char *source = spool_of(w, first->pool);
	struct spool_result *all = ARENA_ARRAY(&a, struct spool_result, n);
	const struct failure **whys = ARENA_ARRAY(&a, const struct failure *, n);
	for (const struct job *j = first; j; j = j->queued, i++) {
		char *token = arena_alloc(&a, TOKEN_SIZE);
		token_of(&j->claim, j->worker, token);
		all[i] = (struct spool_result){
			.source = source, .worker = j->worker, .token = token, .end = job_end(j)};
		whys[i] = why;
	}
	spooling_keep(w->turn_thread.spools, source, all, whys, n, kept, f);
	arena_release(&a);
}
