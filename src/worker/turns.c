/* SPDX-License-Identifier: Apache-2.0
 * turns.c: a turn as database calls, one per part. A row that its own table refuses is searched for
 * by halves, so that it does not affect others.
 */

#include "worker/turns.h"

#include "base/log.h"
#include "life/registry.h"
#include "worker/spooling.h"
#include "worker/wake.h"
#include "worker/worker_state.h"

#include <limits.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Besides the life session: our lock is gone only when both are, as when the process ends. */
static void hold_lock(struct turn_thread *t)
{
	struct failure unused = {0};
	bool held;
	if (t->locked == t->worker || !t->worker)
		return;
	t->locked = t->worker;
	(void)!registry_hold_lock(t->session.store, t->worker, &held, &unused);
}

/*
 * Asked once per session and incarnation: the tables may be new ones since, and then their worker
 * is too.
 */
static defib_err know_database(struct turn_thread *t, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	const char *id = "";
	if (t->known && t->known_for == t->worker)
		return DEFIB_OK;
	defib_err err = registry_database(t->session.store, &a, &id, f);
	if (err)
		return err;
	t->known = true;
	t->known_for = t->worker;
	snprintf(t->database, sizeof t->database, "%s", id);
	return DEFIB_OK;
}

defib_err turns_ready(struct worker *w, struct failure *f)
{
	struct turn_thread *t = &w->turn_thread;
	defib_err err = session_ready(&t->session, f);
	if (err)
		return err;
	/* A standby that is being promoted would grant claims without a timeline. */
	if (t->session.store->only_reads)
		return fail(f, DEFIB_READ_ONLY, "the server accepts no writes: it is a standby");
	if (t->opened != t->session.opened) {
		t->opened = t->session.opened;
		t->failed_over = t->failed_over || t->states != t->session.states;
		t->states = t->session.states;
		wake_listen(t->wake, t->session.store);
		t->locked = 0;
		t->known = false;
	}
	err = know_database(t, f);
	if (err)
		return err;
	hold_lock(t);
	/* Nothing is claimed or recorded there before the engine knows: epochs may repeat. */
	if (t->failed_over)
		return fail(f, DEFIB_CONNECTION,
		            "the server failed over, or its file was replaced: checking its claims first");
	return DEFIB_OK;
}

/* ---- ends that a table refuses ---- */

/*
 * A constraint or trigger of the table accepts the job, but not this end of it, and will refuse it
 * at each try. So the job fails, with the database's message. False: there is no other end to try.
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

/* Only the ends, without claims or queries. */
static defib_err settle_ends(struct worker *w, const struct turn_part *p, int from, int n,
                             struct arena *a, struct failure *f)
{
	struct source *src = w->sources[p->pool];
	defib_err err = turns_ready(w, f);
	if (!err)
		err =
			src->ops->settle(src, w->turn_thread.session.store, p->worker, p->ends + from, n, a, f);
	return err;
}

/* `why` has the failure of each end. An error that no row caused ends the search. */
static defib_err settle_halves(struct worker *w, struct turn_part *p, int from, int n,
                               struct arena *a, struct failure *f)
{
	fail_clear(f);
	defib_err err = settle_ends(w, p, from, n, a, f);
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
		err = settle_ends(w, p, from, 1, a, f);
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

/* Earlier ends wait in the spool; so must these. */
static void keep_behind(struct turn_part *p)
{
	static const struct failure waits = {
		.code = DEFIB_CONNECTION, .what = "earlier results of the same source wait in the spool"};
	for (int i = 0; i < p->nends; i++)
		p->why[i] = &waits;
}

/*
 * The whole part, or as much as possible: a row that its own table refuses must not block the
 * others.
 */
static defib_err turns_call(struct worker *w, struct turn_part *p, struct arena *a)
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

/* A job whose end is stored in a spool is not lost: the engine need not know about it. */
static void leave_out_spooled(struct worker *w, struct turn_part *p)
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
		err = turns_call(w, p, a);
	for (int i = 0; !err && i < p->nclaims; i++)
		p->claims[i].database = w->turn_thread.database;
	p->nends = nends;
	p->err = err;
	p->away = err && store_unavailable(err);
	if (!err && nends > 0)
		turns_spool_taken(w, p->pool);
	if (!err && p->timeline && !p->gone)
		turns_spool_forget(w, p);
	if (!err)
		leave_out_spooled(w, p);
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
	struct job_progress *progress = job_take_progress(p->job);
	if (progress && turns_ready(w, &f) == DEFIB_OK)
		p->lost = src->ops->progress(src, w->turn_thread.session.store, j->worker, j->claim.key,
		                             j->claim.epoch, progress->step[0] ? progress->step : NULL,
		                             progress->text, &f) == DEFIB_LEASE_LOST;
	free(progress);
}

void turns_do(struct worker *w, struct turn *t)
{
	for (int i = 0; i < t->nparts; i++)
		do_part(w, &t->parts[i], &t->arena);
	for (int i = 0; i < t->nprogress; i++)
		tell_progress(w, &t->progress[i]);
}
