/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/engine_inside.h"

#include <assert.h>

const char *const about_turns = "claims and results";
const char *const about_sessions = "claims: jobs cannot get a session";
const char *const about_host = "claims: this host cannot start programs";

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

struct engine_action *act(struct engine *e, enum engine_action_kind kind, struct job *j)
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

void tell_breaker(struct engine *e, struct breaker *b, const char *what, bool success)
{
	bool before = b->state == BREAKER_CLOSED;
	breaker_report(b, success, e->chance, ms(e->now_us));
	if (before == (b->state == BREAKER_CLOSED))
		return;
	struct engine_action *a = act(e, ACTION_BREAKER, NULL);
	a->what = what;
	a->yes = before;
	a->count = b->failures;
}

/* ---- jobs ---- */

struct pool_state *first_state(const struct engine *e, int pool)
{
	return &e->states[e->states[pool].rules.same_jobs];
}

void list_add(struct job_list *l, struct job *j)
{
	j->queued = NULL;
	if (l->last)
		l->last->queued = j;
	else
		l->first = j;
	l->last = j;
	l->n++;
}

struct job *job_in(struct engine *e, int pool, int64_t worker, const struct claimed *c)
{
	struct job *j = job_new(pool, worker, c);
	struct pool_state *state = &e->states[pool], *first = first_state(e, pool);
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

void job_out(struct engine *e, struct job *j, enum engine_action_kind how,
             const struct failure *why)
{
	struct pool_state *state = &e->states[j->pool];
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
	act(e, how, j)->why = why;
}

/* The database may have been asked for our jobs before this one was settled or spooled. */
void forget_job(struct engine *e, struct job *j, const struct failure *why)
{
	if (e->comparing)
		list_add(&e->over, j);
	else
		job_out(e, j, ACTION_FORGOTTEN, why);
}

/* Recording a step makes its job ready for the next one; so does releasing it. */
void note_ready(struct pool_state *state, const struct job *j)
{
	if (j->step_end.side != STEP_SIDE_NONE)
		state->more = true;
	if (j->step_end.side != STEP_SIDE_NONE || j->as == SETTLE_RELEASED)
		state->empty = false;
}

void job_over(struct engine *e, struct job *j)
{
	struct pool_state *state = &e->states[j->pool];
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
	list_add(&state->ends, j);
}

void stop_job(struct engine *e, struct job *j, bool lost)
{
	if (lost)
		j->lost = true;
	if (atomic_exchange(&j->stop, true))
		return;
	if (j->place == JOB_RUNS)
		act(e, ACTION_STOP, j);
}

/* Jobs of the pool, or of all (-1), that have not ended. */
static void stop_pool(struct engine *e, int pool, bool lost)
{
	for (struct job *j = e->hand; j; j = j->next)
		if ((pool < 0 || j->pool == pool) && j->place <= JOB_RUNS)
			stop_job(e, j, lost);
}

/* ---- starts ---- */

static void start(struct engine *e, struct job *j)
{
	j->place = JOB_RUNS;
	j->began_ms = ms(e->now_us);
	/* The first check whether it must stop is due after it has run for a while. */
	if (e->running++ == 0 && e->cancel_us < e->now_us + CANCEL_US)
		e->cancel_us = e->now_us + CANCEL_US;
	e->alone_runs = e->alone_runs || j->claim.alone;
	act(e, ACTION_START, j);
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
		start(e, j);
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
				list_add(&e->held, j);
		}
	}
}

/* ---- life and stops ---- */

void lose_worker(struct engine *e, int64_t now)
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

static int64_t grace_over_us(const struct engine *e, const struct pool_state *state)
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

static void resize(struct pool_state *state, const struct engine_event *ev)
{
	slots_resize(&state->slots, ev->concurrency);
	state->poll_us = ev->poll_ms * 1000;
}

static void take_waiting(struct engine *e, const struct engine_event *ev)
{
	struct pool_state *first = first_state(e, ev->pool);
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
		tell_breaker(e, &e->serving, about_sessions, ev->yes);
		break;
	case EVENT_LACKS:
		e->counts.lacking += ev->yes;
		tell_breaker(e, &e->host, about_host, !ev->yes);
		break;
	case EVENT_PROGRESS:
		e->progress = true;
		break;
	case EVENT_STOP:
		if (e->stops++ == 0)
			e->stopped_us = e->now_us;
		break;
	case EVENT_RESIZE:
		resize(&e->states[ev->pool], ev);
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
static void look(struct engine *e)
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
		look(e);
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
		const struct pool_state *state = &e->states[i];
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
