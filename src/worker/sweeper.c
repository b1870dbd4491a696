/* sweeper.c: see sweeper.h. */
#include "worker/sweeper.h"

#include "base/log.h"
#include "ledger/retention.h"
#include "ledger/told.h"
#include "life/leader.h"
#include "recover/census.h"
#include "recover/startup.h"
#include "worker/lost_job.h"
#include "worker/wake.h"

#include <assert.h>
#include <pthread.h>

#define OWNERS_MAX 64 /* that wait for their turn; beyond that all jobs are looked at */

struct lost_owner {
	int64_t id;
	bool mass;
};

struct swept {
	const struct watch *watch;
	struct watch *raised; /* with the thresholds that are in force */
	struct arena arena;   /* of `raised` */
	double factor;
	bool paused;
	struct scanner *scanner; /* NULL: not made yet for this factor */
};

struct sweeper {
	struct sweeper_options options;
	struct session session;
	struct swept *swept; /* options.nwatches */
	struct scan_options scan;
	struct retention_tick retention;
	pthread_t thread;
	bool running; /* the thread */
	/* shared */
	pthread_mutex_t lock;
	pthread_cond_t asked;
	struct lost_owner owners[OWNERS_MAX];
	int nowners;
	bool sweep, dead_only, stop;
	struct lost_jobs told; /* of the thread */
};

static void tell(void *ctx, const struct watch *w, const struct candidate *c)
{
	struct sweeper *s = ctx;
	/* What could not be judged was not found lost: a scan reports it. */
	if (c->judgement.verdict != VERDICT_NONE)
		lost_job_tell(&s->told, w, c);
}

static bool go_on(void *ctx)
{
	struct sweeper *s = ctx;
	pthread_mutex_lock(&s->lock);
	bool stop = s->stop;
	pthread_mutex_unlock(&s->lock);
	return !stop;
}

/* Other thresholds mean other statements. */
static void set_factor(struct sweeper *s, struct swept *x, double factor)
{
	if (x->scanner && x->factor == factor)
		return;
	scanner_free(x->scanner);
	arena_clear(&x->arena);
	x->factor = factor;
	x->raised = watch_raised(x->watch, factor, &x->arena);
	x->scanner = scanner_new(&s->session, x->raised, &s->scan);
}

static void set_paused(struct swept *x, bool paused)
{
	if (x->paused != paused)
		log_event(LOG_WARN, paused ? "the watch is paused" : "the watch is no longer paused",
		          LOG_STR("watch", x->watch->name));
	x->paused = paused;
}

/* What is in force now. Without an answer nothing is recovered: it may be paused. */
static defib_err hear(struct sweeper *s, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct told *words = NULL;
	int n = 0;
	int64_t now_us = 0;
	bool there = false;
	defib_err err = session_ready(&s->session, f);
	if (!err)
		err = told_open(s->session.store, "setting", false, &there, f);
	/* A role that may not read it works without, as a daemon does: somebody must recover. */
	if (err == DEFIB_PERMISSION)
		err = DEFIB_OK;
	if (!err && there)
		err = told_read(s->session.store, &a, &words, &n, f);
	for (int i = 0; i < s->options.nwatches && !err; i++) {
		struct swept *x = &s->swept[i];
		struct told_sum said = told_of(words, n, x->watch->name);
		if (x->watch->raise.n > 0 && !now_us)
			err = census_now(s->session.store, &now_us, f);
		double hour = x->watch->raise.n > 0 && !err ? watch_raise(x->watch, now_us) : 1;
		set_paused(x, said.paused);
		set_factor(s, x, said.factor > hour ? said.factor : hour);
	}
	arena_release(&a);
	return err;
}

/* Jobs of one owner in the built-in queue (0: of all), and of anybody in other tables. */
static void recover(struct sweeper *s, int64_t owner)
{
	char text[32];
	struct failure f = {0};
	bool any = false;
	if (hear(s, &f)) {
		log_event(LOG_WARN, f.what);
		return;
	}
	snprintf(text, sizeof text, "%lld", (long long)owner);
	for (int i = 0; i < s->options.nwatches && go_on(s); i++) {
		struct scan_result result;
		if (s->swept[i].paused)
			continue;
		s->scan.owner = i == 0 && owner ? text : NULL;
		if (scanner_pass(s->swept[i].scanner, &result))
			log_event(LOG_WARN, result.failure.what);
		any = any || result.outcomes[OUTCOME_RECOVERED] > 0;
	}
	if (any && s->session.store) {
		wake_send(s->session.store, s->options.store.url);
		s->options.wake(s->options.ctx);
	}
}

/* Whether a daemon looks after this database: then the tables are his to keep small. */
static bool daemon_leads(struct sweeper *s)
{
	struct arena a = ARENA_INIT;
	struct leader_row *rows = NULL;
	struct failure f = {0};
	bool leads = session_ready(&s->session, &f) != DEFIB_OK;
	int n = 0;
	if (!leads && leader_read(s->session.store, &a, &rows, &n, &f))
		leads = true; /* not known */
	for (int i = 0; i < n; i++)
		leads = leads || rows[i].leads;
	arena_release(&a);
	return leads;
}

static void retain(struct sweeper *s)
{
	const struct retention *p = s->options.retention;
	if (p && retention_due(&s->retention, p) && !daemon_leads(s))
		retention_turn(&s->retention, &s->session, p, "worker");
}

/* What to do next; false: stop. The dead come before a sweep. */
static bool next(struct sweeper *s, struct lost_owner *owner)
{
	pthread_mutex_lock(&s->lock);
	while (!s->stop && s->nowners == 0 && !s->sweep)
		pthread_cond_wait(&s->asked, &s->lock);
	bool go = !s->stop;
	*owner = (struct lost_owner){0};
	s->scan.dead_only = s->dead_only;
	if (s->nowners > 0) {
		*owner = s->owners[0];
		s->nowners--;
		for (int i = 0; i < s->nowners; i++)
			s->owners[i] = s->owners[i + 1];
	} else {
		s->sweep = false;
	}
	pthread_mutex_unlock(&s->lock);
	s->scan.mass = owner->mass;
	return go;
}

static void *sweeper_main(void *arg)
{
	struct sweeper *s = arg;
	struct lost_owner owner;
	while (next(s, &owner)) {
		recover(s, owner.id);
		if (!owner.id)
			retain(s);
	}
	return NULL;
}

struct sweeper *sweeper_new(const struct sweeper_options *o)
{
	struct sweeper *s = mem_alloc(sizeof *s);
	assert(o->nwatches >= 1);
	s->options = *o;
	s->session = (struct session){.options = o->store, .open = store_open};
	s->scan = (struct scan_options){
		.fix = true,
		.actor = "worker",
		.go_on = go_on,
		.observer = {tell, NULL, s},
	};
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->asked, NULL);
	s->swept = mem_alloc(sizeof *s->swept * (size_t)o->nwatches);
	for (int i = 0; i < o->nwatches; i++)
		s->swept[i].watch = o->watches[i];
	return s;
}

void sweeper_start_up(struct sweeper *s, int64_t self)
{
	struct startup_options o = {.self = self, .go_on = go_on, .ctx = s};
	struct failure heard = {0};
	assert(!s->running);
	if (hear(s, &heard)) {
		log_event(LOG_ERROR, "cleanup after dead instances is incomplete",
		          LOG_STR("because", heard.what));
		return;
	}
	for (int i = 1; i < s->options.nwatches; i++) {
		struct startup_result result;
		struct failure f = {0};
		if (s->swept[i].paused)
			continue;
		if (startup_reconcile(&s->session, s->swept[i].raised, &o, &result, &f))
			log_event(LOG_ERROR, "cleanup after dead instances is incomplete",
			          LOG_STR("watch", s->options.watches[i]->name), LOG_STR("because", f.what));
	}
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
		s->sweep = true;
	pthread_cond_signal(&s->asked);
	pthread_mutex_unlock(&s->lock);
}

void sweeper_sweep(struct sweeper *s, bool dead_only)
{
	pthread_mutex_lock(&s->lock);
	s->dead_only = dead_only;
	s->sweep = true;
	pthread_cond_signal(&s->asked);
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

static void swept_release(struct swept *x)
{
	scanner_free(x->scanner);
	arena_release(&x->arena);
}

void sweeper_free(struct sweeper *s)
{
	if (!s)
		return;
	assert(!s->running);
	for (int i = 0; i < s->options.nwatches; i++)
		swept_release(&s->swept[i]);
	free(s->swept);
	session_close(&s->session);
	pthread_cond_destroy(&s->asked);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
