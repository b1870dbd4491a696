/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/sweeper.h"

#include "base/clock.h"
#include "base/log.h"
#include "ledger/overrides.h"
#include "ledger/retention.h"
#include "life/leader.h"
#include "recover/announce.h"
#include "recover/census.h"
#include "recover/evidence.h"
#include "worker/lost_job.h"
#include "worker/queue.h"
#include "worker/wake.h"

#include <assert.h>
#include <pthread.h>

#define REST_MS 8000  /* an unused session is closed after this */
#define LED_MS 60000  /* while a daemon leads, how often to check whether one still does */
#define OWNERS_MAX 64 /* waiting for their turn; beyond that all jobs are scanned */

struct lost_owner {
	int64_t id;
	bool mass;
};

/* One unit of work. */
struct sweep {
	struct lost_owner owner; /* id 0: a sweep */
	bool *which;             /* of the watches */
	bool died, dead_only, upkeep;
};

struct swept {
	const struct watch *watch;
	struct watch *raised; /* with the thresholds in force */
	struct arena arena;   /* of `raised` */
	double factor;
	bool paused;
	struct scan_options scan;
	struct guard *guard;
	struct scanner *scanner; /* NULL: not made yet for this factor */
	struct guard_logged guards_logged;
	bool waits; /* for the pace, and that was logged */
};

struct sweeper {
	struct sweeper_options options;
	struct session session;
	struct swept *swept;      /* options.nwatches */
	struct group_part *parts; /* of a sweep; as many */
	struct absence absence;
	bool server_asked; /* its start time was read */
	int64_t used_ms;   /* when the session was last used */
	struct retention_tick retention;
	pthread_t thread;
	bool running; /* the thread */
	/* shared */
	pthread_mutex_t lock;
	pthread_cond_t asked;
	struct lost_owner owners[OWNERS_MAX];
	int nowners;
	bool *which; /* marked for a sweep */
	bool sweep, died, dead_only, upkeep, away, stop;
	struct lost_jobs logged; /* private to the thread */
};

static void sweeper_log(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct sweeper *s = ctx;
	/*
	 * A job that could not be judged was not found lost: a scan reports it. The same holds for a
	 * job that a guard holds back.
	 */
	if (c->judgement.verdict != VERDICT_NONE && c->outcome != OUTCOME_GUARDED)
		lost_job_log(&s->logged, w, c);
}

static bool sweeper_go_on(void *ctx)
{
	struct sweeper *s = ctx;
	pthread_mutex_lock(&s->lock);
	bool stop = s->stop;
	pthread_mutex_unlock(&s->lock);
	absence_tick(&s->absence, clock_boot_us());
	return !stop;
}

/* Other thresholds mean other statements. */
static void sweeper_set_factor(struct sweeper *s, struct swept *x, double factor)
{
	if (x->scanner && x->factor == factor)
		return;
	scanner_free(x->scanner);
	arena_clear(&x->arena);
	x->factor = factor;
	x->raised = watch_raised(x->watch, factor, &x->arena);
	guard_rules(x->guard, x->raised);
	x->scanner = scanner_new(&s->session, x->raised, &x->scan);
}

static void set_paused(struct swept *x, bool paused)
{
	if (x->paused != paused)
		log_event(LOG_WARN, paused ? "the watch is paused" : "the watch is no longer paused",
		          LOG_STR("watch", x->watch->name));
	x->paused = paused;
}

/* Read the overrides in force. Without an answer nothing is recovered: it may be paused. */
static defib_err sweeper_read_overrides(struct sweeper *s, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct override *words = NULL;
	int n = 0;
	int64_t now_us = 0;
	bool there = false;
	defib_err err = session_ready(&s->session, f);
	if (!err)
		err = daemon_table_open(s->session.store, "setting", false, &there, f);
	/* A role that may not read them works without, as a daemon does: jobs must be recovered. */
	if (err == DEFIB_PERMISSION)
		err = DEFIB_OK;
	if (!err && there)
		err = override_read(s->session.store, &a, &words, &n, f);
	for (int i = 0; i < s->options.nwatches && !err; i++) {
		struct swept *x = &s->swept[i];
		struct override_sum sum = override_of(words, n, x->watch->name);
		if (x->watch->raise.n > 0 && !now_us)
			err = census_now(s->session.store, &now_us, f);
		double hour = x->watch->raise.n > 0 && !err ? watch_raise(x->watch, now_us) : 1;
		set_paused(x, sum.paused);
		sweeper_set_factor(s, x, sum.factor > hour ? sum.factor : hour);
	}
	return err;
}

/*
 * Whether a daemon leads this watch (NULL: any): then the daemon recovers it, and maintains the
 * tables.
 */
static bool daemon_leads(struct sweeper *s, const char *watch)
{
	AUTO_ARENA a = ARENA_INIT;
	struct leader_row *rows = NULL;
	struct failure f = {0};
	bool leads = session_ready(&s->session, &f) != DEFIB_OK;
	int n = 0;
	if (!leads && leader_read(s->session.store, &a, &rows, &n, &f))
		leads = !watch; /* not known: jobs must be recovered, but old rows need not be removed */
	for (int i = 0; i < n; i++)
		leads = leads || (rows[i].leads && (!watch || text_eq(rows[i].watch, watch)));
	return leads;
}

/* Waiting for the pace is logged once when it begins and once when it ends. */
static void tell_pace(struct swept *x)
{
	struct guard_report r;
	AUTO_BUF sentence = BUF_INIT;
	guard_report(x->guard, &r);
	bool waits = r.held[GUARD_PACE] > 0;
	if (waits)
		guard_sentence(x->guard, &sentence);
	if (waits != x->waits)
		log_event(LOG_WARN, waits ? "a sweep is held back" : "a sweep continues",
		          LOG_STR("watch", x->watch->name), LOG_STR("because", buf_text(&sentence)));
	x->waits = waits;
}

/* How many jobs were recovered. */
static int64_t sweep_one(struct sweeper *s, struct swept *x)
{
	struct scan_result result;
	/* Between passes we were not stopped: there was nothing to do. */
	s->absence.tick_us = 0;
	if (scanner_pass(x->scanner, &result)) {
		log_event(LOG_WARN, result.failure.what);
	} else if (x->scan.guard) {
		guard_log_changes(&x->guards_logged, x->guard, &s->session, x->watch, &result,
		                  x->scan.actor);
		tell_pace(x);
	}
	return result.outcomes[OUTCOME_RECOVERED];
}

/* If there is a server: when it was started. A worker that could not beat before may do so now. */
static defib_err sweeper_ask_server(struct sweeper *s, struct failure *f)
{
	int64_t start_us = 0;
	if (s->server_asked)
		return DEFIB_OK;
	defib_err err = session_ready(&s->session, f);
	if (!err)
		err = census_server_start(s->session.store, &start_us, f);
	if (!err)
		absence_server_started(&s->absence, start_us);
	s->server_asked = !err;
	return err;
}

/* Jobs of a dead owner in the built-in queue, and all stuck jobs in other tables; or a sweep. */
static void recover(struct sweeper *s, const struct sweep *t)
{
	char text[32];
	struct failure f = {0};
	bool any = false;
	int n = 0;
	if ((s->options.nwatches > 1 && sweeper_ask_server(s, &f)) || sweeper_read_overrides(s, &f)) {
		log_event(LOG_WARN, f.what);
		return;
	}
	snprintf(text, sizeof text, "%lld", (long long)t->owner.id);
	for (int i = 0; i < s->options.nwatches && sweeper_go_on(s); i++) {
		struct swept *x = &s->swept[i];
		bool led = !t->owner.id && daemon_leads(s, x->watch->name);
		if (x->paused || (led && !t->died) || (!t->owner.id && !t->which[i]))
			continue;
		/* No guard holds the jobs of a dead worker, so no time is lost. */
		bool dead = i == 0 && t->owner.id;
		x->scan.owner = dead ? text : NULL;
		x->scan.guard = dead ? NULL : x->guard;
		x->scan.absence = dead ? NULL : &s->absence;
		x->scan.mass = t->owner.mass;
		/* There, a silent worker is declared dead first: if it comes back, it must not continue. */
		x->scan.dead_only = i == 0 || led || t->dead_only;
		s->parts[n] = (struct group_part){x->watch, sweep_one(s, x)};
		any = s->parts[n++].recovered > 0 || any;
	}
	groups_tell(s->parts, n);
	/* Where a dead worker's row is ready again by itself, nothing was recovered: it is claimed. */
	any = any || t->owner.id || t->died;
	if (any && s->session.store) {
		wake_send(s->session.store, s->options.store.url);
		s->options.wake(s->options.ctx);
	}
}

static bool retains(const struct sweeper *s)
{
	return s->options.retention && retention_due(&s->retention, s->options.retention);
}

static void sweeper_retain(struct sweeper *s)
{
	if (daemon_leads(s, NULL))
		s->retention.due_ms = clock_boot_ms() + LED_MS;
	else
		retention_turn(&s->retention, &s->session, s->options.retention, "worker");
}

static bool sweeper_nothing(const struct sweeper *s, const struct sweep *t)
{
	bool any = t->owner.id != 0;
	for (int i = 0; i < s->options.nwatches; i++)
		any = any || t->which[i];
	return !any;
}

/* What to do next; false: stop. Dead workers come before a sweep. */
static bool sweeper_next(struct sweeper *s, struct sweep *t)
{
	pthread_mutex_lock(&s->lock);
	while (!s->stop && s->nowners == 0 && !s->sweep)
		pthread_cond_wait(&s->asked, &s->lock);
	bool go = !s->stop;
	t->owner = (struct lost_owner){0};
	t->dead_only = s->dead_only;
	t->upkeep = t->died = false;
	if (s->away)
		absence_begins(&s->absence, "the worker was away from the database");
	s->away = false;
	if (s->nowners > 0) {
		t->owner = s->owners[0];
		s->nowners--;
		for (int i = 0; i < s->nowners; i++)
			s->owners[i] = s->owners[i + 1];
	} else {
		t->upkeep = s->upkeep;
		t->died = s->died;
		s->died = false;
		for (int i = 0; i < s->options.nwatches; i++) {
			t->which[i] = s->which[i];
			s->which[i] = false;
		}
		s->sweep = false;
	}
	pthread_mutex_unlock(&s->lock);
	return go;
}

static void *sweeper_main(void *arg)
{
	struct sweeper *s = arg;
	struct sweep t = {.which = mem_alloc((size_t)s->options.nwatches)};
	while (sweeper_next(s, &t)) {
		bool upkeep = t.upkeep && retains(s), idle = sweeper_nothing(s, &t) && !upkeep;
		if (!sweeper_nothing(s, &t))
			recover(s, &t);
		if (upkeep)
			sweeper_retain(s);
		if (!idle)
			s->used_ms = clock_boot_ms();
		else if (clock_boot_ms() - s->used_ms >= REST_MS)
			session_rest(&s->session);
	}
	free(t.which);
	return NULL;
}

struct sweeper *sweeper_new(const struct sweeper_options *o)
{
	struct sweeper *s = mem_alloc(sizeof *s);
	assert(o->nwatches >= 1);
	s->options = *o;
	s->session = (struct session){.options = o->store, .open = store_open};
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->asked, NULL);
	s->which = mem_alloc((size_t)o->nwatches);
	s->swept = mem_alloc(sizeof *s->swept * (size_t)o->nwatches);
	s->parts = mem_alloc(sizeof *s->parts * (size_t)o->nwatches);
	for (int i = 0; i < o->nwatches; i++) {
		struct swept *x = &s->swept[i];
		x->watch = o->watches[i];
		x->guard = guard_new(x->watch);
		x->scan = (struct scan_options){
			.fix = true,
			.actor = "worker",
			.go_on = sweeper_go_on,
			.guard = x->guard,
			.absence = &s->absence,
			.observer = {sweeper_log, NULL, s},
		};
	}
	return s;
}

static void add_cleaned(struct startup_result *to, const struct startup_result *r)
{
	to->live = r->live > to->live ? r->live : to->live;
	to->all = to->all || r->all;
	to->found += r->found;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		to->outcomes[i] += r->outcomes[i];
}

defib_err sweeper_start_up(struct sweeper *s, int64_t self, struct startup_result *cleaned,
                           struct failure *f)
{
	struct startup_options o = {.self = self, .go_on = sweeper_go_on, .ctx = s};
	int n = 0;
	assert(!s->running);
	defib_err err = sweeper_read_overrides(s, f);
	if (err) {
		log_event(LOG_ERROR, "cleanup after dead instances is incomplete",
		          LOG_STR("because", f->what));
		return err;
	}
	for (int i = 1; i < s->options.nwatches; i++) {
		struct startup_result result;
		struct failure why = {0};
		if (s->swept[i].paused)
			continue;
		if (startup_reconcile(&s->session, s->swept[i].raised, &o, &result, &why)) {
			log_event(LOG_ERROR, "cleanup after dead instances is incomplete",
			          LOG_STR("watch", s->options.watches[i]->name), LOG_STR("because", why.what));
			*f = why;
			err = why.code;
		}
		s->parts[n++] =
			(struct group_part){s->options.watches[i], result.outcomes[OUTCOME_RECOVERED]};
		if (cleaned)
			add_cleaned(cleaned, &result);
	}
	groups_tell(s->parts, n);
	return err;
}

defib_err sweeper_run(struct sweeper *s, struct failure *f)
{
	if (pthread_create(&s->thread, NULL, sweeper_main, s) != 0)
		return fail(f, DEFIB_IO, "cannot start a thread for recovery");
	s->running = true;
	return DEFIB_OK;
}

void sweeper_recover(struct sweeper *s, int64_t owner, bool mass)
{
	pthread_mutex_lock(&s->lock);
	if (s->nowners < OWNERS_MAX)
		s->owners[s->nowners++] = (struct lost_owner){owner, mass};
	else
		s->sweep = s->which[0] = true;
	pthread_cond_signal(&s->asked);
	pthread_mutex_unlock(&s->lock);
}

void sweeper_sweep(struct sweeper *s, const struct sweep_order *order)
{
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < s->options.nwatches; i++)
		s->which[i] = s->which[i] || order->which[i];
	s->died = s->died || order->died;
	s->dead_only = order->dead_only;
	s->upkeep = order->upkeep;
	s->sweep = true;
	pthread_cond_signal(&s->asked);
	pthread_mutex_unlock(&s->lock);
}

void sweeper_doubt(struct sweeper *s)
{
	pthread_mutex_lock(&s->lock);
	s->away = true;
	pthread_mutex_unlock(&s->lock);
}

void sweeper_stop(struct sweeper *s)
{
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->asked);
	pthread_mutex_unlock(&s->lock);
	if (s->running)
		pthread_join(s->thread, NULL);
	s->running = false;
}

void sweeper_free(struct sweeper *s)
{
	if (!s)
		return;
	assert(!s->running);
	for (int i = 0; i < s->options.nwatches; i++) {
		scanner_free(s->swept[i].scanner);
		guard_free(s->swept[i].guard);
		arena_release(&s->swept[i].arena);
	}
	free(s->swept);
	free(s->parts);
	free(s->which);
	session_close(&s->session);
	pthread_cond_destroy(&s->asked);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
