/* SPDX-License-Identifier: Apache-2.0
 * engine.c: see engine.h. In order: the engine's state, jobs from claim to end, results for the
 * spool, the next turn, the results of a turn, events.
 *
 * Time is in microseconds; slots and breakers count milliseconds of the same clock.
 */

#include "worker/engine.h"

#include "base/hash.h"
#include "base/text.h"

#include <assert.h>

#define ENDS_MAX 1000     /* of one part of a turn */
#define IDLE_FACTOR 4     /* poll intervals between two polls of an announced pool that is empty */
#define TRY_US 1000000    /* the longest pause between two tries */
#define LINGER_US 5000    /* the longest wait for other ends to join */
#define DRAIN_US 500000   /* how often a spool is drained while it is not empty */
#define CANCEL_US 1000000 /* how often cancelled jobs are checked for … */
#define CANCEL_LEAST_US 20000 /* … and the shortest interval, however often we are woken */
#define PROGRESS_US 500000
/*
 * How long a job waits for a slot that a resize removed, and how long claims stop for a job that
 * must run alone …
 */
#define HELD_US 30000000
#define HELD_DELAY_MS 1000        /* … when it may be claimed again, if that failed … */
#define SINGLE_AGAIN_US 300000000 /* … and when claims stop again for a job that must run alone */
/*
 * How soon the life thread should learn that we were declared dead: if it has not by then, we were
 * not.
 */
#define GONE_US 15000000
#define NEVER INT64_MAX

static int64_t ms(int64_t us)
{
	return us / 1000;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t engine_later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* In order of arrival; linked by `queued`. */
struct job_list {
	struct job *first, *last;
	int64_t n;
};

/* A pool and its current state. */
struct engine_pool_state {
	struct engine_pool rules;
	struct slots slots;
	int64_t jobs;         /* in hand */
	struct job_list ends; /* to be recorded */
	int64_t poll_us, next_poll_us;
	int64_t tick_us, taken; /* end of the current poll interval; jobs claimed in it */
	bool woken;             /* there may be new jobs, and no claim was made since */
	bool full;              /* the last claim filled all slots */
	bool more;           /* there are probably more jobs: it was full, or another claim is needed */
	bool claimed, empty; /* it has claimed before; the last claim found nothing, and there is no
	                        reason to doubt that */
	bool failing;        /* the last turn could not record its ends */
	struct failure why;  /* the reason */
	int64_t retry_us;    /* when its ends are retried */
	bool compare, timeline; /* compare with the database; and stop jobs that are missing there */
	bool asked_timeline;    /* in the turn under way */
	bool compared;          /* the comparison was answered */
	int64_t compare_us;     /* the earliest time to compare */
	bool graced;            /* a stop has already asked its jobs to stop */
	int64_t short_runs;     /* consecutive jobs that ended soon */
	int64_t short_ms;       /* approximately how long the last SHORT_RUNS of them took together */
	int64_t slotless;       /* jobs in hand that have no slot yet; strays do not count */
	int64_t stirred_us;     /* when a job last arrived or ended */
	bool returned;          /* jobs that had not begun were released since then */
	/* for all pools with the same jobs, kept by the first of them */
	int64_t family;              /* jobs in hand */
	int64_t beat_us, beat_fails; /* when the next is due */
	int64_t spooled,
		spooled_new; /* results waiting in the spool; of these, added since the turn was made */
	int64_t drain_us;
	struct job_list spool; /* to be handed to the spool, all for the same reason */
};

struct engine {
	struct engine_options options;
	struct engine_pool_state *states;
	int64_t now_us;
	double chance;
	int64_t worker;        /* our incarnation; 0: none alive */
	int64_t life_worker;   /* our incarnation, as last reported */
	int64_t gone, gone_us; /* the one that the database declared dead, and when; 0: none */
	enum lease_contact contact;
	struct breaker breaker; /* turns */
	struct breaker serving; /* whether jobs get the sessions they need */
	struct breaker host;    /* whether programs can be started here */
	struct job *hand;       /* all jobs in hand */
	atomic_llong holding;   /* how many */
	int64_t running;
	struct job_list held; /* claimed, and not started yet */
	int64_t alone;        /* jobs that must run alone, waiting or running */
	bool alone_runs;
	/*
	 * The next claim is of one job of pool `single - 1`, made with nothing in hand; 0: not so. How
	 * long to wait for that, and when to try again if it failed.
	 */
	int single;
	int64_t single_us, single_again_us;
	/*
	 * The turn whose jobs may end together, how many are still running, how long ends wait for
	 * them.
	 */
	int64_t young_turn, young, linger_us;
	int64_t cancel_us, cancelled_us; /* when to check next; when it was last done */
	bool progress;
	int64_t progress_us;
	int stops;
	int64_t stopped_us;
	struct turn turns[2]; /* the one under way and the previous one: actions point into it */
	int64_t nturns, made_us;
	int64_t took_us; /* of the last turn that was answered */
	bool turning, comparing;
	struct job_list over;       /* settled by their handlers or spooled during a comparison */
	bool probing, probing_host; /* the turn under way claims one job as a probe */
	struct engine_action *actions;
	int64_t nactions, cap_actions, taken;
	struct job *free_next; /* of the last action */
	bool stepped;          /* since the last check of what is due */
	struct engine_counts counts;
};

static const char *const about_turns = "claims and results";
static const char *const about_sessions = "claims: jobs cannot get a session";
static const char *const about_host = "claims: this host cannot start programs";

/* ---- creation and end ---- */

/*
 * Slots start one by one, across pools too: the first of a pool follows the last of the previous
 * one.
 */
struct engine *engine_new(const struct engine_options *o, int64_t now_us)
{
	static const struct breaker_rules patient = {5, 1000, 30000}, strict = {1, 1000, 30000};
	struct engine *e = mem_alloc(sizeof *e);
	int64_t starts = ms(now_us);
	e->options = *o;
	e->options.pools = NULL;
	e->options.keep_trying_ms = o->keep_trying_ms ? o->keep_trying_ms : 3000;
	e->options.beat_tries = o->beat_tries ? o->beat_tries : 3;
	e->options.beat_retry_ms = o->beat_retry_ms ? o->beat_retry_ms : 5000;
	e->now_us = now_us;
	e->contact = CONTACT_LOST;
	e->young_turn = -1;
	breaker_init(&e->breaker, &patient);
	breaker_init(&e->serving, &patient);
	breaker_init(&e->host, &strict);
	e->states = mem_alloc(sizeof *e->states * (size_t)o->npools);
	for (int i = 0; i < o->npools; i++) {
		const struct engine_pool *p = &o->pools[i];
		struct slots_rules rules = {p->concurrency, p->stagger_ms, p->burst_limit, p->burst_ms};
		assert(p->same_jobs >= 0 && p->same_jobs <= i);
		slots_init(&e->states[i].slots, &rules, starts);
		starts += p->concurrency * p->stagger_ms;
		e->states[i].rules = *p;
		e->states[i].poll_us = p->poll_ms * 1000;
		e->states[i].next_poll_us = p->wait_first ? now_us + p->poll_ms * 1000 : now_us;
	}
	return e;
}

void engine_free(struct engine *e)
{
	if (e->free_next)
		job_free(e->free_next);
	for (; e->taken < e->nactions; e->taken++) {
		enum engine_action_kind kind = e->actions[e->taken].kind;
		if (kind >= ACTION_SETTLED && kind <= ACTION_GIVEN_UP)
			job_free(e->actions[e->taken].job);
	}
	while (e->hand) {
		struct job *j = e->hand;
		e->hand = j->next;
		job_free(j);
	}
	for (int i = 0; i < e->options.npools; i++)
		slots_release(&e->states[i].slots);
	arena_release(&e->turns[0].arena);
	arena_release(&e->turns[1].arena);
	free(e->actions);
	free(e->states);
	free(e);
}

/* ---- actions ---- */

static struct engine_action *engine_act(struct engine *e, enum engine_action_kind kind,
                                        struct job *j)
{
	if (e->taken == e->nactions)
		e->taken = e->nactions = 0;
	if (e->nactions == e->cap_actions) {
		e->cap_actions = e->cap_actions ? e->cap_actions * 2 : 64;
		e->actions = mem_grow(e->actions, sizeof *e->actions * (size_t)e->cap_actions);
	}
	struct engine_action *a = &e->actions[e->nactions++];
	*a = (struct engine_action){.kind = kind, .job = j, .pool = j ? j->pool : 0};
	return a;
}

static void engine_tell_breaker(struct engine *e, struct breaker *b, const char *what, bool success)
{
	bool before = b->state == BREAKER_CLOSED;
	breaker_report(b, success, e->chance, ms(e->now_us));
	if (before == (b->state == BREAKER_CLOSED))
		return;
	struct engine_action *a = engine_act(e, ACTION_BREAKER, NULL);
	a->what = what;
	a->yes = before;
	a->count = b->failures;
}

/*
 * ---- jobs that are claimed before a slot is free for them ----
 *
 * A program that takes a millisecond ends before the previous end is recorded. So a pool whose jobs
 * have been short for a while has more jobs in hand than slots, as many as are expected to begin
 * within AHEAD_US: the runner begins the next one when one has ended, and meanwhile ends are
 * recorded and more jobs claimed. If nothing ends for a while, jobs that have not begun are
 * released for other workers, and nothing is claimed ahead until jobs are short again.
 */

#define SHORT_MS 100    /* the longest run time of a short job */
#define SHORT_RUNS 8    /* consecutive ones */
#define AHEAD_US 20000  /* a job that was claimed ahead is expected to begin within this time */
#define STILL_US 100000 /* how long nothing may end while such jobs wait */

static void ahead_note_end(struct engine *e, struct engine_pool_state *state, const struct job *j)
{
	bool is_short = j->as == SETTLE_DONE && j->ran_ms >= 0 && j->ran_ms <= SHORT_MS;
	if (is_short && state->short_runs >= SHORT_RUNS)
		state->short_ms -= state->short_ms / SHORT_RUNS;
	state->short_ms = is_short ? state->short_ms + j->ran_ms : 0;
	state->short_runs = is_short ? state->short_runs + 1 : 0;
	state->stirred_us = e->now_us;
}

/* How many jobs of the pool begin within this time. */
static int64_t begin_within(const struct engine_pool_state *state, int64_t us)
{
	int64_t run_us = engine_later(state->short_ms * 1000 / SHORT_RUNS, 1000);
	return state->slots.rules.count * us / run_us;
}

static int64_t ahead_most(const struct engine_pool_state *state)
{
	int64_t most = sooner(begin_within(state, AHEAD_US), state->rules.ahead);
	return state->short_runs >= SHORT_RUNS ? most : 0;
}

/*
 * Half of what is claimed ahead may end while the other half begins, but enough must be left to
 * begin until a turn is complete, even one that takes twice as long as the last.
 */
static int64_t ends_wanted(const struct engine *e, const struct engine_pool_state *state)
{
	int64_t most = ahead_most(state), left = begin_within(state, 2 * e->took_us);
	return engine_later(sooner((most + 1) / 2, most - left), 1);
}

static int64_t ahead_company_us(const struct engine *e, const struct engine_pool_state *state)
{
	bool alone = state->jobs == state->ends.n;
	if (alone || state->ends.n >= ends_wanted(e, state))
		return 0;
	return state->ends.first->ended_ms * 1000 + LINGER_US;
}

static int64_t ahead_enough(const struct engine *e, const struct engine_pool_state *state)
{
	return state->ends.n > 0 ? ends_wanted(e, state) - state->ends.n : 1;
}

static void ahead_take_slots(struct engine *e)
{
	int64_t now_ms = ms(e->now_us);
	for (struct job *j = e->hand; j; j = j->next) {
		struct engine_pool_state *state = &e->states[j->pool];
		if (j->slot >= 0 || j->stray || slots_free(&state->slots, now_ms) == 0)
			continue;
		j->slot = slots_take(&state->slots, now_ms);
		state->slotless--;
	}
}

static int64_t ahead_over_us(const struct engine_pool_state *state)
{
	return state->slotless > 0 && state->rules.ahead > 0 && !state->returned
	           ? state->stirred_us + STILL_US
	           : NEVER;
}

static void ahead_return(struct engine *e)
{
	for (int i = 0; i < e->options.npools; i++) {
		struct engine_pool_state *state = &e->states[i];
		if (ahead_over_us(state) > e->now_us)
			continue;
		state->returned = true;
		state->short_runs = 0;
		engine_act(e, ACTION_RETURN, NULL)->pool = i;
	}
}

/* ---- jobs ---- */

static struct engine_pool_state *first_state(const struct engine *e, int pool)
{
	return &e->states[e->states[pool].rules.same_jobs];
}

static void engine_list_add(struct job_list *l, struct job *j)
{
	j->queued = NULL;
	if (l->last)
		l->last->queued = j;
	else
		l->first = j;
	l->last = j;
	l->n++;
}

static struct job *job_in(struct engine *e, int pool, int64_t worker, const struct claimed *c)
{
	struct job *j = job_new(pool, worker, c);
	struct engine_pool_state *state = &e->states[pool], *first = first_state(e, pool);
	/* Its claim counts as a beat. */
	if (first->family == 0)
		first->beat_us = e->now_us + first->rules.beat_ms * 1000;
	first->family++;
	state->jobs++;
	j->next = e->hand;
	if (e->hand)
		e->hand->prev = j;
	e->hand = j;
	atomic_fetch_add(&e->holding, 1);
	return j;
}

static void job_out(struct engine *e, struct job *j, enum engine_action_kind how,
                    const struct failure *why)
{
	struct engine_pool_state *state = &e->states[j->pool];
	if (j->slot >= 0)
		slots_give(&state->slots, j->slot);
	else if (!j->stray)
		state->slotless--;
	state->jobs--;
	first_state(e, j->pool)->family--;
	if (j->prev)
		j->prev->next = j->next;
	else
		e->hand = j->next;
	if (j->next)
		j->next->prev = j->prev;
	atomic_fetch_sub(&e->holding, 1);
	engine_act(e, how, j)->why = why;
}

/* The database may have been asked for our jobs before this one was settled or spooled. */
static void forget_job(struct engine *e, struct job *j, const struct failure *why)
{
	if (e->comparing)
		engine_list_add(&e->over, j);
	else
		job_out(e, j, ACTION_FORGOTTEN, why);
}

/* Recording a step makes its job ready for the next one; so does releasing it. */
static void note_ready(struct engine_pool_state *state, const struct job *j)
{
	if (j->step_end.side != STEP_SIDE_NONE)
		state->more = true;
	if (j->step_end.side != STEP_SIDE_NONE || j->as == SETTLE_RELEASED)
		state->empty = false;
}

static void job_over(struct engine *e, struct job *j)
{
	struct engine_pool_state *state = &e->states[j->pool];
	if (j->place == JOB_RUNS) {
		e->running--;
		e->alone_runs = e->alone_runs && !j->claim.alone;
		/* The wait for the next one begins now, however long this one ran. */
		if (j->claim.alone)
			e->single_us = e->now_us + HELD_US;
	}
	e->alone -= j->claim.alone;
	e->young -= j->came == e->young_turn;
	ahead_note_end(e, state, j);
	j->place = JOB_ENDED;
	j->ended_ms = ms(e->now_us);
	if (j->settled) {
		e->counts.settled++;
		note_ready(state, j);
		forget_job(e, j, NULL);
		return;
	}
	/* Stopped by a shutdown means released; the database knows if it was cancelled. */
	if (j->stop && j->as != SETTLE_DONE)
		j->as = SETTLE_STOPPED;
	engine_list_add(&state->ends, j);
}

static void stop_job(struct engine *e, struct job *j, bool lost)
{
	if (lost)
		j->lost = true;
	if (atomic_exchange(&j->stop, true))
		return;
	if (j->place == JOB_RUNS)
		engine_act(e, ACTION_STOP, j);
}

/* Jobs of the pool, or of all (-1), that have not ended. */
static void stop_pool(struct engine *e, int pool, bool lost)
{
	for (struct job *j = e->hand; j; j = j->next)
		if ((pool < 0 || j->pool == pool) && j->place <= JOB_RUNS)
			stop_job(e, j, lost);
}

/* ---- starts ---- */

static void engine_start(struct engine *e, struct job *j)
{
	j->place = JOB_RUNS;
	j->began_ms = ms(e->now_us);
	/* The first check whether it must stop is due after it has run for a while. */
	if (e->running++ == 0 && e->cancel_us < e->now_us + CANCEL_US)
		e->cancel_us = e->now_us + CANCEL_US;
	e->alone_runs = e->alone_runs || j->claim.alone;
	engine_act(e, ACTION_START, j);
}

static void give_back(struct engine *e, struct job *j, int64_t delay_ms)
{
	j->as = SETTLE_RELEASED;
	j->delay_ms = delay_ms;
	job_over(e, j);
}

/*
 * A job that must run alone is not even in hand together with others: if the worker were lost with
 * them, it would be blamed for what they did. It is claimed again alone, when nothing else is in
 * hand. If others take too long for that, it is released for a while.
 */
static void give_back_for_single(struct engine *e, struct job *j)
{
	bool wait = e->running == 0 || e->now_us >= e->single_again_us;
	if (wait) {
		e->single = j->pool + 1;
		e->single_us = e->now_us + HELD_US;
		e->states[j->pool].more = true;
	}
	give_back(e, j, wait ? -1 : HELD_DELAY_MS);
}

/* Decide about a job that was claimed and not started; true: it is no longer held. */
static bool held_done(struct engine *e, struct job *j, bool company)
{
	static const struct failure dead = {
		.code = DEFIB_LEASE_LOST, .what = "this worker was declared dead before the job started"};
	struct slots *slots = &e->states[j->pool].slots;
	bool expired = e->contact >= CONTACT_EXPIRED && e->states[j->pool].rules.exclusive;
	if (j->worker != e->worker) {
		e->alone -= j->claim.alone;
		e->young -= j->came == e->young_turn;
		job_out(e, j, ACTION_FORGOTTEN, &dead);
		return true;
	}
	if (j->stop || e->stops > 0 || expired) {
		give_back(e, j, -1);
		return true;
	}
	if (j->slot < 0 && slots_free(slots, ms(e->now_us)) > 0) {
		j->slot = slots_take(slots, ms(e->now_us));
		e->states[j->pool].slotless--;
	}
	bool waited = e->now_us - j->began_ms * 1000 >= HELD_US;
	bool placed = j->slot >= 0 || (e->states[j->pool].rules.ahead > 0 && !j->claim.alone);
	if (j->claim.alone && company)
		give_back_for_single(e, j);
	else if (placed && !e->alone_runs)
		engine_start(e, j);
	else if (waited)
		give_back(e, j, HELD_DELAY_MS);
	else
		return false;
	return true;
}

/* First those that may run beside others. */
static void start_held(struct engine *e)
{
	for (int alone = 0; alone < 2; alone++) {
		struct job_list held = e->held;
		bool company = e->running > 0 || held.n > 1;
		e->held = (struct job_list){0};
		while (held.first) {
			struct job *j = held.first;
			held.first = j->queued;
			j->queued = NULL;
			if (j->claim.alone != (bool)alone || !held_done(e, j, company))
				engine_list_add(&e->held, j);
		}
	}
}

/* ---- life and stops ---- */

static void lose_worker(struct engine *e, int64_t now)
{
	if (e->worker == now)
		return;
	e->worker = now;
	for (struct job *j = e->hand; j; j = j->next)
		if (j->worker != now && j->place <= JOB_RUNS)
			stop_job(e, j, true);
}

static void take_life(struct engine *e, const struct engine_event *ev)
{
	e->contact = ev->contact;
	e->life_worker = ev->worker;
	if (e->life_worker != e->gone)
		e->gone = 0;
	lose_worker(e, e->gone ? 0 : e->life_worker);
	if (e->contact < CONTACT_EXPIRED)
		return;
	for (int i = 0; i < e->options.npools; i++)
		if (e->states[i].rules.exclusive)
			stop_pool(e, i, true);
}

/*
 * The database said that we are dead, but the life thread still finds us alive: then the answer
 * came from a server that has failed over since. If not, it will say so again.
 */
static int64_t gone_over_us(const struct engine *e)
{
	return e->gone ? e->gone_us + GONE_US : NEVER;
}

static int64_t grace_over_us(const struct engine *e, const struct engine_pool_state *state)
{
	int64_t grace_ms = state->rules.own_grace ? state->rules.grace_ms : e->options.grace_ms;
	return e->stops == 0 || state->graced || state->jobs == 0 ? NEVER
	       : e->stops > 1                                     ? e->stopped_us
	                                                          : e->stopped_us + grace_ms * 1000;
}

/* A second stop, or the end of the grace, releases at once. */
static void enforce_grace(struct engine *e)
{
	for (int i = 0; i < e->options.npools; i++) {
		if (e->now_us < grace_over_us(e, &e->states[i]))
			continue;
		stop_pool(e, i, false);
		e->states[i].graced = true;
	}
}

/* ---- the contents of the spool ---- */

static void flush_spool(struct engine *e, struct engine_pool_state *first)
{
	if (!first->spool.first)
		return;
	struct engine_action *a = engine_act(e, ACTION_SPOOL, first->spool.first);
	a->why = first->spool.first->why;
	a->count = first->spool.n;
	first->spool = (struct job_list){0};
}

static void spool_job(struct engine *e, struct job *j, const struct failure *why)
{
	struct engine_pool_state *first = first_state(e, j->pool);
	const struct job *last = first->spool.last;
	j->place = JOB_SPOOLED;
	free(j->why);
	j->why = mem_alloc(sizeof *j->why);
	*j->why = *why;
	if (last && (last->why->code != why->code || strcmp(last->why->what, why->what) != 0))
		flush_spool(e, first);
	engine_list_add(&first->spool, j);
	first->spooled++;
	first->spooled_new++;
	first->drain_us = engine_later(first->drain_us, e->now_us + DRAIN_US);
}

/* They were retried for long enough. A stray is released or found again, never stored. */
static void spool_old(struct engine *e, struct engine_pool_state *state)
{
	static const struct failure paused = {.code = DEFIB_CONNECTION,
	                                      .what = "the database has not answered for a while"};
	const struct failure *why = state->failing ? &state->why : &paused;
	int64_t since = ms(e->now_us) - e->options.keep_trying_ms;
	if (e->turning || (!state->failing && e->breaker.state == BREAKER_CLOSED))
		return;
	while (state->ends.first && state->ends.first->ended_ms <= since) {
		struct job *j = state->ends.first;
		state->ends.first = j->queued;
		state->ends.n--;
		if (!state->ends.first)
			state->ends.last = NULL;
		if (j->stray || j->unclaimed)
			job_out(e, j, ACTION_FORGOTTEN, NULL);
		else
			spool_job(e, j, why);
	}
}

static void take_spooled(struct engine *e, struct job *j, bool kept)
{
	struct engine_pool_state *first = first_state(e, j->pool);
	while (j) {
		struct job *next = j->queued;
		assert(j->place == JOB_SPOOLED);
		e->counts.spooled += kept;
		e->counts.given_up += !kept;
		first->spooled -= !kept && first->spooled > 0;
		first->spooled_new -= !kept && first->spooled_new > 0;
		if (kept)
			forget_job(e, j, j->why);
		else
			job_out(e, j, ACTION_GIVEN_UP, j->why);
		j = next;
	}
}

/*
 * ---- the next turn: when it is due, and what it asks for ----
 *
 * A turn is made only when the caller asks for the next action (engine_next()), so that all events
 * reported before join it.
 */

static bool claims_stop(const struct engine *e)
{
	return e->worker == 0 || e->contact != CONTACT_GOOD || e->stops > 0 || e->alone > 0;
}

/* Whether claims wait until nothing else is in hand, for a job that must run alone. */
static bool waits_to_be_single(const struct engine *e, int pool)
{
	bool turn = pool == e->single - 1 && e->running == 0 && e->held.n == 0;
	return e->single && !turn && e->now_us < e->single_us;
}

/* When the breakers that pause claims, but not turns, allow one. */
static int64_t gates_us(const struct engine *e)
{
	int64_t now_ms = ms(e->now_us);
	int64_t wait =
		engine_later(breaker_wait_ms(&e->serving, now_ms), breaker_wait_ms(&e->host, now_ms));
	return wait == 0 ? 0 : (now_ms + wait) * 1000;
}

/* `batch` limits the claims of a poll interval, however fast the jobs are. */
static int64_t batch_room(const struct engine *e, const struct engine_pool_state *state)
{
	if (!state->rules.batch)
		return INT64_MAX;
	return e->now_us >= state->tick_us ? state->rules.batch : state->rules.batch - state->taken;
}

static bool polls(const struct engine *e, const struct engine_pool_state *state)
{
	return e->now_us >= state->next_poll_us;
}

/* Without a free slot there is nothing to wait for: a slot that becomes free makes a turn due. */
static int64_t claim_due_us(const struct engine *e, const struct engine_pool_state *state)
{
	int64_t now_ms = ms(e->now_us), at = 0;
	if (claims_stop(e) || state->timeline)
		return NEVER;
	if (waits_to_be_single(e, (int)(state - e->states)))
		return e->single_us;
	if (slots_free(&state->slots, now_ms) - state->slotless + ahead_most(state) <= 0) {
		int64_t wait = slots_wait_ms(&state->slots, now_ms);
		if (wait < 0)
			return NEVER;
		at = (now_ms + wait) * 1000;
	}
	if (batch_room(e, state) <= 0)
		at = engine_later(at, state->tick_us);
	if (!state->woken && !state->more)
		at = engine_later(at, state->next_poll_us);
	return engine_later(at, gates_us(e));
}

/* While jobs get no sessions, one at a time tests whether they do again. */
static int64_t probe_room(struct breaker *b, int64_t room, int64_t now_ms, bool *probing)
{
	if (b->state == BREAKER_CLOSED)
		return room;
	*probing = breaker_allow(b, now_ms);
	return *probing ? 1 : 0;
}

/* ---- the next turn: when ---- */

static int64_t ends_due_us(const struct engine *e, const struct engine_pool_state *state)
{
	if (state->ends.n == 0)
		return NEVER;
	int64_t company_us = ahead_most(state) > 0 ? ahead_company_us(e, state)
	                     : e->young > 0        ? e->linger_us
	                                           : 0;
	return engine_later(state->retry_us, company_us);
}

static int64_t beats_due_us(const struct engine *e, const struct engine_pool_state *state)
{
	return e->worker && state->family > 0 && state->rules.beat_ms > 0 ? state->beat_us : NEVER;
}

static int64_t compare_due_us(const struct engine *e, const struct engine_pool_state *state)
{
	return e->worker && state->compare ? state->compare_us : NEVER;
}

static int64_t drain_due_us(const struct engine_pool_state *state)
{
	return state->spooled > 0 ? state->drain_us : NEVER;
}

static int64_t cancels_due_us(const struct engine *e)
{
	return e->worker && e->running > 0 ? e->cancel_us : NEVER;
}

static int64_t progress_due_us(const struct engine *e)
{
	return e->progress && e->breaker.state == BREAKER_CLOSED ? e->progress_us : NEVER;
}

static int64_t turn_due_us(const struct engine *e)
{
	int64_t due = sooner(cancels_due_us(e), progress_due_us(e));
	for (int i = 0; i < e->options.npools; i++) {
		const struct engine_pool_state *state = &e->states[i];
		due = sooner(due, ends_due_us(e, state));
		due = sooner(due, claim_due_us(e, state));
		due = sooner(due, beats_due_us(e, state));
		due = sooner(due, compare_due_us(e, state));
		due = sooner(due, drain_due_us(state));
	}
	int64_t wait = breaker_wait_ms(&e->breaker, ms(e->now_us));
	return due == NEVER || wait == 0 ? due : engine_later(due, (ms(e->now_us) + wait) * 1000);
}

/* ---- the next turn: what ---- */

static struct turn_part *new_part(struct turn *t, int pool, int64_t worker)
{
	struct turn_part *p = &t->parts[t->nparts++];
	p->pool = pool;
	p->worker = worker;
	return p;
}

/* Everything for the current incarnation is in one part of its pool. */
static struct turn_part *find_present(const struct engine *e, struct turn *t, int pool)
{
	for (int i = t->nparts - 1; i >= 0 && t->parts[i].pool == pool; i--)
		if (t->parts[i].worker == e->worker)
			return &t->parts[i];
	return NULL;
}

static struct turn_part *present(const struct engine *e, struct turn *t, int pool)
{
	struct turn_part *p = find_present(e, t, pool);
	return p ? p : new_part(t, pool, e->worker);
}

static struct turn_part *asks(const struct engine *e, struct turn *t, int pool)
{
	struct turn_part *p = present(e, t, pool);
	p->claimer = e->worker;
	return p;
}

static void add_end(struct turn *t, struct turn_part *p, struct job *j, int64_t most)
{
	if (!p->ends) {
		p->ends = ARENA_ARRAY(&t->arena, struct settlement, most);
		p->jobs = ARENA_ARRAY(&t->arena, struct job *, most);
	}
	p->jobs[p->nends] = j;
	p->ends[p->nends++] = job_end(j);
	j->place = JOB_ASKED;
}

/* The ends of the current incarnation and of one earlier one. The rest joins the next turn. */
static void ask_ends(struct engine *e, struct turn *t, int pool)
{
	struct engine_pool_state *state = &e->states[pool];
	struct job_list all = state->ends;
	struct turn_part *old = NULL, *now = NULL;
	int64_t most = sooner(all.n, ENDS_MAX);
	if (all.n == 0 || state->retry_us > e->now_us)
		return;
	state->ends = (struct job_list){0};
	while (all.first) {
		struct job *j = all.first;
		struct turn_part **p = j->worker == e->worker ? &now : &old;
		all.first = j->queued;
		/* The new primary would take it for the end of a later claim with the same epoch. */
		if (j->unclaimed) {
			job_out(e, j, ACTION_FORGOTTEN, NULL);
			continue;
		}
		if (!*p)
			*p = new_part(t, pool, j->worker);
		if ((*p)->worker == j->worker && (*p)->nends < most)
			add_end(t, *p, j, most);
		else
			engine_list_add(&state->ends, j);
	}
	/* Order matters: what is in the spool ended before this. */
	bool drain = first_state(e, pool)->spooled > 0;
	if (old)
		old->drain = drain;
	if (now)
		now->drain = drain;
}

static void ask_drain(struct engine *e, struct turn *t, int pool)
{
	struct engine_pool_state *state = &e->states[pool];
	state->spooled_new = 0;
	if (drain_due_us(state) > e->now_us)
		return;
	present(e, t, pool)->drain = true;
	state->drain_us = e->now_us + DRAIN_US;
}

/*
 * Slots of ends that are recorded in the same call are free by then; jobs without a slot come
 * first. `p` may be NULL.
 */
static int64_t free_slots(const struct engine *e, const struct turn_part *p, int pool)
{
	const struct engine_pool_state *state = &e->states[pool];
	int64_t given = 0, again = 0, slotless = state->slotless, now_ms = ms(e->now_us);
	for (int i = 0; p && i < p->nends; i++) {
		int64_t slot = p->jobs[i]->slot;
		given += slot >= 0;
		again += slot >= 0 && slots_again(&state->slots, slot, now_ms);
		slotless -= slot < 0 && !p->jobs[i]->stray;
	}
	return slots_free_with(&state->slots, given, again, now_ms) - slotless + ahead_most(state);
}

static void single_is_over(struct engine *e)
{
	if (e->single && e->now_us >= e->single_us) {
		e->single = 0;
		e->single_again_us = e->now_us + SINGLE_AGAIN_US;
	}
}

static void ask_claim(struct engine *e, struct turn *t, int pool)
{
	struct engine_pool_state *state = &e->states[pool];
	int64_t now_ms = ms(e->now_us);
	single_is_over(e);
	/*
	 * After a failover the same jobs come with the same epochs: jobs that already run must stop
	 * first.
	 */
	if (claims_stop(e) || state->timeline || waits_to_be_single(e, pool) ||
	    gates_us(e) > e->now_us || e->probing || e->probing_host ||
	    (!state->woken && !state->more && !polls(e, state)))
		return;
	int64_t room = sooner(free_slots(e, find_present(e, t, pool), pool), batch_room(e, state));
	if (room <= 0)
		return;
	room = e->single ? 1 : room;
	room = probe_room(&e->serving, room, now_ms, &e->probing);
	room = probe_room(&e->host, room, now_ms, &e->probing_host);
	if (e->now_us >= state->tick_us) {
		state->tick_us = e->now_us + state->poll_us;
		state->taken = 0;
	}
	struct turn_part *p = asks(e, t, pool);
	p->room = room;
	/* Due jobs are made ready one page at a time; a drain needs all of them. */
	p->promote = polls(e, state) || (e->options.drain && !state->full);
	state->woken = false;
}

static void ask_compare(struct engine *e, struct turn *t, int pool)
{
	struct engine_pool_state *state = &e->states[pool];
	if (compare_due_us(e, state) > e->now_us)
		return;
	struct turn_part *p = asks(e, t, pool);
	p->compares = true;
	p->timeline = state->timeline;
	/* Ends of claims that the server lost must not meet later claims with the same epochs. */
	p->drain = p->drain || (state->timeline && first_state(e, pool)->spooled > 0);
	state->asked_timeline = state->timeline;
	state->compare = state->timeline = false;
}

/* Several pools may have the same jobs: the first of them beats for all. */
static void ask_beats(struct engine *e, struct turn *t, int pool)
{
	struct engine_pool_state *state = &e->states[pool];
	char step[JOB_STEP_MAX];
	int n = 0;
	if (beats_due_us(e, state) > e->now_us)
		return;
	struct beat *all = ARENA_ARRAY(&t->arena, struct beat, state->family);
	for (const struct job *j = e->hand; j; j = j->next) {
		if (j->lost || j->stray || j->worker != e->worker || first_state(e, j->pool) != state)
			continue;
		const char *at = job_step(j, step);
		all[n++] = (struct beat){.key = arena_strdup(&t->arena, j->claim.key),
		                         .epoch = j->claim.epoch,
		                         .attempt = j->claim.attempt,
		                         .step = at ? arena_strdup(&t->arena, at) : NULL};
	}
	state->beat_us = e->now_us + state->rules.beat_ms * 1000;
	if (n == 0)
		return;
	struct turn_part *p = asks(e, t, pool);
	p->beats = all;
	p->nbeats = n;
}

static void ask_progress(struct engine *e, struct turn *t)
{
	if (progress_due_us(e) > e->now_us)
		return;
	t->progress = ARENA_ARRAY(&t->arena, struct turn_progress, e->running + 1);
	for (struct job *j = e->hand; j; j = j->next)
		if (j->place == JOB_RUNS && atomic_load(&j->progress))
			t->progress[t->nprogress++].job = j;
	e->progress = false;
	e->progress_us = e->now_us + PROGRESS_US;
}

static void ask_pool(struct engine *e, struct turn *t, int pool, bool comparing, bool cancels)
{
	ask_ends(e, t, pool);
	ask_drain(e, t, pool);
	/* A job that is just being claimed would look as if no worker had it. */
	if (comparing)
		ask_compare(e, t, pool);
	else
		ask_claim(e, t, pool);
	if (cancels && e->states[pool].jobs > 0)
		asks(e, t, pool)->cancels = true;
	ask_beats(e, t, pool);
}

static void make_turn(struct engine *e)
{
	struct turn *t = &e->turns[e->nturns % 2];
	bool comparing = false, claims = false;
	bool cancels = cancels_due_us(e) <= e->now_us;
	arena_clear(&t->arena);
	*t = (struct turn){.arena = t->arena};
	t->parts = ARENA_ARRAY(&t->arena, struct turn_part, 2 * e->options.npools);
	for (int i = 0; i < e->options.npools; i++)
		comparing = comparing || compare_due_us(e, &e->states[i]) <= e->now_us;
	for (int i = 0; i < e->options.npools; i++)
		ask_pool(e, t, i, comparing, cancels);
	ask_progress(e, t);
	if (cancels) {
		e->cancelled_us = e->now_us;
		e->cancel_us = e->now_us + CANCEL_US;
	}
	if (t->nparts == 0 && t->nprogress == 0)
		return;
	bool allowed = breaker_allow(&e->breaker, ms(e->now_us));
	assert(allowed);
	(void)allowed;
	for (int i = 0; i < t->nparts; i++)
		claims = claims || t->parts[i].room > 0;
	e->counts.turns += claims;
	e->nturns++;
	e->made_us = e->now_us;
	e->turning = true;
	e->comparing = comparing;
	engine_act(e, ACTION_TURN, NULL)->turn = t;
}

/* ---- the results of a turn: jobs in hand, by name ---- */

/* Built only if a result names jobs, which is rare. */
struct jobs_by_name {
	struct job **jobs; /* NULL: not made yet */
	uint64_t mask;
};

static uint64_t hash(const char *key, int64_t epoch)
{
	uint64_t h = fnv1a(FNV_START ^ (uint64_t)epoch, key, strlen(key));
	return h ^ (h >> 29);
}

/* Where it is, or where it would be. Pools that have the same jobs differ by kind. */
static struct job **engine_place_of(const struct engine *e, struct jobs_by_name *all, int pool,
                                    const char *key, int64_t epoch)
{
	uint64_t i = hash(key, epoch) & all->mask;
	for (; all->jobs[i]; i = (i + 1) & all->mask) {
		const struct job *j = all->jobs[i];
		if (j->claim.epoch == epoch && text_eq(j->claim.key, key) &&
		    first_state(e, j->pool) == first_state(e, pool))
			break;
	}
	return &all->jobs[i];
}

static struct job **engine_find(struct engine *e, struct turn *t, struct jobs_by_name *all,
                                int pool, const struct settlement *one)
{
	if (!all->jobs) {
		int64_t most = engine_holding(e), size = 16;
		for (int i = 0; i < t->nparts; i++)
			most += t->parts[i].nhas;
		while (size < most * 2)
			size *= 2;
		all->jobs = ARENA_ARRAY(&t->arena, struct job *, size);
		all->mask = (uint64_t)size - 1;
		for (struct job *j = e->hand; j; j = j->next)
			*engine_place_of(e, all, j->pool, j->claim.key, j->claim.epoch) = j;
	}
	return engine_place_of(e, all, pool, one->key, one->epoch);
}

/* ---- the results of a turn: ends ---- */

static void put_back(struct engine_pool_state *state, struct job *j)
{
	j->place = JOB_ENDED;
	j->queued = state->ends.first;
	state->ends.first = j;
	if (!state->ends.last)
		state->ends.last = j;
	state->ends.n++;
}

/* A stray is dropped: the next comparison finds it again. */
static void not_recorded(struct engine *e, struct job *j, const struct failure *why)
{
	if (j->stray)
		job_out(e, j, ACTION_FORGOTTEN, why);
	else
		spool_job(e, j, why);
}

static void recorded(struct engine *e, struct job *j, const struct settlement *end)
{
	j->as = end->as;
	e->counts.settled += end->accepted;
	e->counts.ends[j->as] += end->accepted;
	e->counts.refused += !end->accepted;
	if (end->accepted)
		note_ready(&e->states[j->pool], j);
	job_out(e, j, end->accepted ? ACTION_SETTLED : ACTION_REFUSED, NULL);
}

static int64_t try_again_us(const struct engine *e)
{
	return e->now_us + 1000 + (int64_t)(e->chance * (TRY_US - 1000));
}

static void take_ends(struct engine *e, struct turn_part *p)
{
	struct engine_pool_state *state = &e->states[p->pool];
	bool again = p->err && (p->away || p->err == DEFIB_LEASE_LOST);
	state->failing = again;
	state->retry_us = again ? try_again_us(e) : 0;
	if (again)
		state->why = p->f;
	for (int i = p->nends - 1; again && i >= 0; i--) {
		struct job *j = p->jobs[i];
		if (!j->stray) {
			put_back(state, j);
			continue;
		}
		job_out(e, j, ACTION_FORGOTTEN, &p->f);
		state->compare = true;
		state->compare_us = state->retry_us;
	}
	for (int i = 0; !again && i < p->nends; i++) {
		const struct failure *why = p->err ? &p->f : p->why ? p->why[i] : NULL;
		if (why)
			not_recorded(e, p->jobs[i], why);
		else
			recorded(e, p->jobs[i], &p->ends[i]);
	}
}

/* ---- the results of a turn: claims ---- */

static void take_claims(struct engine *e, struct turn_part *p)
{
	struct engine_pool_state *state = &e->states[p->pool];
	int64_t got = p->nclaims, now_ms = ms(e->now_us);
	bool nothing = !p->err && !p->gone && got == 0;
	/* When draining, an empty result counts only if due jobs were made ready first. */
	bool sure = p->promote || !e->options.drain;
	state->claimed = true;
	state->taken += got;
	/* A worker that drains claims again at once, without waiting for a poll. */
	state->full = got >= p->room;
	state->more = !p->err && (state->full || (e->options.drain && (got > 0 || !sure)));
	state->empty = nothing && sure;
	state->next_poll_us =
		e->made_us + state->poll_us * (nothing && state->rules.announced ? IDLE_FACTOR : 1);
	e->counts.claimed += got;
	if (got > 0) {
		state->stirred_us = e->now_us;
		state->returned = false;
	}
	for (int i = 0; i < got; i++) {
		struct job *j = job_in(e, p->pool, p->claimer, &p->claims[i]);
		j->came = e->nturns;
		j->began_ms = now_ms; /* until it is started: when it began to wait */
		if (slots_free(&state->slots, now_ms) > 0)
			j->slot = slots_take(&state->slots, now_ms);
		else
			state->slotless++;
		e->alone += j->claim.alone;
		engine_list_add(&e->held, j);
	}
	/* It was claimed, and another one may follow; or another worker has it. */
	if (e->single == p->pool + 1 && p->room > 0 && !p->err && e->alone == 0)
		e->single = 0;
	/* Its reply may have been lost: jobs that the database gave us then must not stay ours. */
	if (p->err == DEFIB_UNKNOWN_OUTCOME || p->err == DEFIB_TIMEOUT || p->err == DEFIB_CONNECTION) {
		state->compare = true;
		state->compare_us = try_again_us(e);
	}
}

/*
 * It is unknown how long a job runs that tests whether jobs get sessions: until it ends, it counts
 * as a failure, and the next probe is due after twice the pause.
 */
static void take_probe(struct engine *e, struct breaker *b, bool *probing, bool got)
{
	bool was = *probing;
	*probing = false;
	if (!was || b->state != BREAKER_PROBING)
		return;
	if (got)
		breaker_report(b, false, e->chance, ms(e->now_us));
	else
		breaker_return(b);
}

/* Jobs that were claimed together get a moment to end together. */
static void wait_for_company(struct engine *e, int64_t got)
{
	if (got < 2)
		return;
	e->young_turn = e->nturns;
	e->young = got;
	e->linger_us = e->now_us + sooner(LINGER_US, e->took_us);
}

/* ---- the results of a turn: other queries ---- */

static void stray(struct engine *e, struct turn_part *p, const struct settlement *one,
                  struct job **place)
{
	struct claimed c = {.key = one->key, .epoch = one->epoch};
	struct job *j = job_in(e, p->pool, p->claimer, &c);
	*place = j;
	j->seen = e->nturns;
	j->stray = true;
	j->as = SETTLE_RELEASED;
	engine_act(e, ACTION_STRAY, j);
	job_over(e, j);
}

static void take_has(struct engine *e, struct turn *t, struct turn_part *p,
                     struct jobs_by_name *names)
{
	struct engine_pool_state *state = &e->states[p->pool];
	state->compared = !p->err && p->claimer == e->worker;
	if (!state->compared) {
		state->compare = true;
		state->timeline = state->timeline || state->asked_timeline;
		state->compare_us = e->now_us + TRY_US;
	}
	for (int i = 0; state->compared && i < p->nhas; i++) {
		struct job **place = engine_find(e, t, names, p->pool, &p->has[i]);
		if (*place)
			(*place)->seen = e->nturns;
		else
			stray(e, p, &p->has[i], place);
	}
}

/* The server lost these claims in its failover: another worker may have the jobs. */
static void stop_unseen(struct engine *e)
{
	for (struct job *j = e->hand; j; j = j->next) {
		const struct engine_pool_state *state = &e->states[j->pool];
		if (!state->compared || !state->asked_timeline || j->place > JOB_ENDED ||
		    j->worker != e->worker || j->seen == e->nturns)
			continue;
		j->unclaimed = true; /* if it has ended, it is forgotten when ends are next recorded */
		if (j->place <= JOB_RUNS)
			stop_job(e, j, true);
	}
}

/* The server has the claim of a stray, and may refuse each try to release it. */
static bool has_ends(const struct engine_pool_state *state)
{
	for (const struct job *j = state->ends.first; j; j = j->queued)
		if (!j->stray)
			return true;
	return false;
}

/* Ends of lost claims must not meet later claims: they go first. */
static void await_ends(struct engine *e, struct engine_pool_state *state)
{
	if (!state->compared || !state->asked_timeline ||
	    (!has_ends(state) && first_state(e, (int)(state - e->states))->spooled == 0))
		return;
	state->compare = state->timeline = true;
	state->compare_us = e->now_us + TRY_US;
}

static void end_compare(struct engine *e)
{
	if (!e->comparing)
		return;
	e->comparing = false;
	stop_unseen(e);
	for (int i = 0; i < e->options.npools; i++) {
		await_ends(e, &e->states[i]);
		e->states[i].compared = e->states[i].asked_timeline = false;
	}
	for (struct job *j = e->over.first, *next; j; j = next) {
		next = j->queued;
		job_out(e, j, ACTION_FORGOTTEN, j->why);
	}
	e->over = (struct job_list){0};
}

static void stop_named(struct engine *e, struct turn *t, struct turn_part *p,
                       struct jobs_by_name *names, const char *key, int64_t epoch, bool lost)
{
	struct settlement one = {.key = key, .epoch = epoch};
	struct job *j = *engine_find(e, t, names, p->pool, &one);
	if (j && j->worker == p->claimer && j->place <= JOB_RUNS)
		stop_job(e, j, lost);
}

/* A job never ends because of a failed beat: others may then declare it dead. */
static void engine_no_beat(struct engine *e, struct turn_part *p)
{
	struct engine_pool_state *state = &e->states[p->pool];
	int64_t retry_ms = e->options.beat_retry_ms, beat_ms = state->rules.beat_ms;
	bool again = state->beat_fails < e->options.beat_tries;
	struct engine_action *a = engine_act(e, ACTION_NO_BEAT, NULL);
	a->yes = again;
	a->count = ++state->beat_fails;
	if (!again)
		state->beat_fails = 0;
	state->beat_us = e->now_us + sooner(again ? retry_ms : beat_ms, beat_ms) * 1000;
	a->pool = p->pool;
	a->why = &p->beat_f;
}

static void take_beats(struct engine *e, struct turn *t, struct turn_part *p,
                       struct jobs_by_name *names)
{
	if (p->beat_err) {
		engine_no_beat(e, p);
		return;
	}
	e->states[p->pool].beat_fails = 0;
	for (int i = 0; i < p->nbeats; i++)
		if (p->beats[i].lost)
			stop_named(e, t, p, names, p->beats[i].key, p->beats[i].epoch, true);
}

/* ---- the results of a turn, all of them ---- */

static void take_part(struct engine *e, struct turn *t, struct turn_part *p,
                      struct jobs_by_name *names)
{
	struct engine_pool_state *first = first_state(e, p->pool);
	if (p->err) {
		struct engine_action *a = engine_act(e, ACTION_FAILED, NULL);
		a->pool = p->pool;
		a->why = &p->f;
	}
	if (e->worker && p->claimer == e->worker && (p->gone || p->err == DEFIB_LEASE_LOST)) {
		e->gone = e->worker;
		e->gone_us = e->now_us;
		lose_worker(e, 0);
	}
	if (p->drain && !p->err)
		first->spooled = p->spooled + first->spooled_new;
	take_ends(e, p);
	if (e->states[p->pool].slotless > 0)
		ahead_take_slots(e);
	if (p->room > 0)
		take_claims(e, p);
	if (p->compares)
		take_has(e, t, p, names);
	for (int i = 0; !p->err && i < p->ncancelling; i++)
		stop_named(e, t, p, names, p->cancelling[i].key, p->cancelling[i].epoch, false);
	if (p->nbeats > 0)
		take_beats(e, t, p, names);
}

static void take_turn(struct engine *e, struct turn *t)
{
	struct jobs_by_name names = {0};
	int64_t got = 0, together = 0;
	bool answered = false;
	assert(e->turning && t == &e->turns[(e->nturns - 1) % 2]);
	e->turning = false;
	e->took_us = e->now_us - e->made_us;
	for (int i = 0; i < t->nprogress; i++)
		if (t->progress[i].lost && t->progress[i].job->place == JOB_RUNS)
			stop_job(e, t->progress[i].job, true);
	for (int i = 0; i < t->nparts; i++) {
		take_part(e, t, &t->parts[i], &names);
		got += t->parts[i].nclaims;
		together += ahead_most(&e->states[t->parts[i].pool]) > 0 ? 0 : t->parts[i].nclaims;
		answered = answered || !t->parts[i].err || t->parts[i].err == DEFIB_LEASE_LOST;
	}
	end_compare(e);
	wait_for_company(e, together);
	/* If one source fails while others answer, the others are not paused. */
	if (t->nparts > 0)
		engine_tell_breaker(e, &e->breaker, about_turns, answered);
	take_probe(e, &e->serving, &e->probing, got > 0);
	take_probe(e, &e->host, &e->probing_host, got > 0);
}

/* ---- events ---- */

static void wake(struct engine *e)
{
	for (int i = 0; i < e->options.npools; i++) {
		e->states[i].woken = true;
		e->states[i].empty = false;
	}
	int64_t soonest = e->cancelled_us + CANCEL_LEAST_US;
	if (soonest < e->cancel_us)
		e->cancel_us = soonest;
}

static void compare_all(struct engine *e, bool timeline)
{
	for (int i = 0; i < e->options.npools; i++) {
		e->states[i].compare = true;
		e->states[i].timeline = e->states[i].timeline || timeline;
		if (timeline)
			e->states[i].compare_us = e->now_us;
	}
}

static void take_waiting(struct engine *e, const struct engine_event *ev)
{
	struct engine_pool_state *first = first_state(e, ev->pool);
	first->spooled = ev->count;
	first->spooled_new = 0;
}

void engine_step(struct engine *e, const struct engine_event *ev, int64_t now_us)
{
	e->now_us = now_us > e->now_us ? now_us : e->now_us;
	e->chance = ev->chance;
	e->stepped = true;
	switch (ev->kind) {
	case EVENT_TICK:
		break;
	case EVENT_WOKEN:
		wake(e);
		break;
	case EVENT_ENDED:
		for (struct job *j = ev->job, *next; j; j = next) {
			next = j->queued;
			assert(j->place == JOB_RUNS);
			job_over(e, j);
		}
		break;
	case EVENT_LIFE:
		take_life(e, ev);
		break;
	case EVENT_COMPARE:
	case EVENT_TIMELINE:
		compare_all(e, ev->kind == EVENT_TIMELINE);
		break;
	case EVENT_SERVED:
		e->counts.unserved += !ev->yes;
		engine_tell_breaker(e, &e->serving, about_sessions, ev->yes);
		break;
	case EVENT_LACKS:
		e->counts.lacking += ev->yes;
		engine_tell_breaker(e, &e->host, about_host, !ev->yes);
		break;
	case EVENT_PROGRESS:
		e->progress = true;
		break;
	case EVENT_STOP:
		if (e->stops++ == 0)
			e->stopped_us = e->now_us;
		break;
	case EVENT_RESIZE:
		slots_resize(&e->states[ev->pool].slots, ev->concurrency);
		e->states[ev->pool].poll_us = ev->poll_ms * 1000;
		break;
	case EVENT_TURN:
		take_turn(e, ev->turn);
		break;
	case EVENT_SPOOLED:
		take_spooled(e, ev->job, ev->yes);
		break;
	case EVENT_WAITING:
		take_waiting(e, ev);
		break;
	}
}

static bool all_empty(const struct engine *e)
{
	for (int i = 0; i < e->options.npools; i++)
		if (!e->states[i].claimed || !e->states[i].empty)
			return false;
	return true;
}

/* What waits in a spool is left to the next worker of this name. */
static bool nothing_left(const struct engine *e)
{
	return !e->hand && (e->stops > 0 || (e->options.drain && all_empty(e)));
}

/* What follows from the events since the last call, and from the time. */
static void engine_look(struct engine *e)
{
	e->stepped = false;
	if (e->now_us >= gone_over_us(e)) {
		e->gone = 0;
		lose_worker(e, e->life_worker);
	}
	if (e->stops > 0)
		enforce_grace(e);
	if (e->held.first)
		start_held(e);
	ahead_return(e);
	for (int i = 0; i < e->options.npools; i++)
		spool_old(e, &e->states[i]);
	for (int i = 0; i < e->options.npools; i++)
		flush_spool(e, &e->states[i]);
	if (!e->turning && !nothing_left(e) && turn_due_us(e) <= e->now_us)
		make_turn(e);
}

bool engine_next(struct engine *e, struct engine_action *out)
{
	if (e->free_next)
		job_free(e->free_next);
	e->free_next = NULL;
	if (e->taken == e->nactions && e->stepped)
		engine_look(e);
	if (e->taken == e->nactions)
		return false;
	*out = e->actions[e->taken++];
	if (out->kind >= ACTION_SETTLED && out->kind <= ACTION_GIVEN_UP)
		e->free_next = out->job;
	return true;
}

/* ---- reports to others ---- */

int64_t engine_wait_us(const struct engine *e, int64_t now_us)
{
	int64_t due = e->stepped || e->taken < e->nactions ? now_us : NEVER;
	if (!e->turning)
		due = sooner(due, turn_due_us(e));
	due = sooner(due, gone_over_us(e));
	/* A thread that slept until enough had ended must be woken by the first one from then on. */
	if (e->now_us < e->linger_us && e->young > 0)
		due = sooner(due, e->linger_us);
	for (int i = 0; i < e->options.npools; i++) {
		const struct engine_pool_state *state = &e->states[i];
		bool failing = state->failing || e->breaker.state != BREAKER_CLOSED;
		due = sooner(due, grace_over_us(e, state));
		due = sooner(due, ahead_over_us(state));
		if (!e->turning && failing && state->ends.first)
			due = sooner(due, (state->ends.first->ended_ms + e->options.keep_trying_ms) * 1000);
	}
	for (const struct job *j = e->held.first; j; j = j->queued)
		due = sooner(due, j->began_ms * 1000 + HELD_US);
	return due == NEVER ? NEVER : due > now_us ? due - now_us : 0;
}

/* With one pool, the ends of it that a turn needs; with more, any may be needed. */
int64_t engine_enough(const struct engine *e)
{
	if (e->now_us < e->linger_us && e->young > 0)
		return e->young;
	return e->options.npools == 1 && ahead_most(e->states) > 0 ? ahead_enough(e, e->states) : 0;
}

bool engine_finished(const struct engine *e)
{
	return nothing_left(e) && !e->turning && e->taken == e->nactions && !e->stepped;
}

int64_t engine_holding(const struct engine *e)
{
	return atomic_load(&e->holding);
}

void engine_counts(const struct engine *e, struct engine_counts *out)
{
	*out = e->counts;
	out->tries = e->breaker.tries;
	out->failed = e->breaker.failed;
	out->breaker = e->breaker.state;
	out->paused = e->breaker.state != BREAKER_CLOSED || e->serving.state != BREAKER_CLOSED ||
	              e->host.state != BREAKER_CLOSED;
}
