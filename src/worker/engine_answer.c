/* SPDX-License-Identifier: Apache-2.0 */
/* engine_answer.c: the results of a turn, and what follows from them. */
#include "worker/engine_inside.h"

#include "base/hash.h"
#include "base/text.h"

#include <assert.h>

/* ---- jobs in hand, by name ---- */

/* Built only if a result names jobs, which is rare. */
struct names {
	struct job **jobs; /* NULL: not made yet */
	uint64_t mask;
};

static uint64_t hash(const char *key, int64_t epoch)
{
	uint64_t h = fnv1a(FNV_START ^ (uint64_t)epoch, key, strlen(key));
	return h ^ (h >> 29);
}

/* Where it is, or where it would be. Pools that have the same jobs differ by kind. */
static struct job **place_of(const struct engine *e, struct names *all, int pool, const char *key,
                             int64_t epoch)
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

static struct job **find(struct engine *e, struct turn *t, struct names *all, int pool,
                         const struct settlement *one)
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
			*place_of(e, all, j->pool, j->claim.key, j->claim.epoch) = j;
	}
	return place_of(e, all, pool, one->key, one->epoch);
}

/* ---- ends ---- */

static void put_back(struct pool_state *state, struct job *j)
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
	struct pool_state *state = &e->states[p->pool];
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

/* ---- claims ---- */

static void take_claims(struct engine *e, struct turn_part *p)
{
	struct pool_state *state = &e->states[p->pool];
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
		list_add(&e->held, j);
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

/* ---- other queries of the turn ---- */

static void stray(struct engine *e, struct turn_part *p, const struct settlement *one,
                  struct job **place)
{
	struct claimed c = {.key = one->key, .epoch = one->epoch};
	struct job *j = job_in(e, p->pool, p->claimer, &c);
	*place = j;
	j->seen = e->nturns;
	j->stray = true;
	j->as = SETTLE_RELEASED;
	act(e, ACTION_STRAY, j);
	job_over(e, j);
}

static void take_has(struct engine *e, struct turn *t, struct turn_part *p, struct names *names)
{
	struct pool_state *state = &e->states[p->pool];
	state->compared = !p->err && p->claimer == e->worker;
	if (!state->compared) {
		state->compare = true;
		state->timeline = state->timeline || state->asked_timeline;
		state->compare_us = e->now_us + TRY_US;
	}
	for (int i = 0; state->compared && i < p->nhas; i++) {
		struct job **place = find(e, t, names, p->pool, &p->has[i]);
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
		const struct pool_state *state = &e->states[j->pool];
		if (!state->compared || !state->asked_timeline || j->place > JOB_ENDED ||
		    j->worker != e->worker || j->seen == e->nturns)
			continue;
		j->unclaimed = true; /* if it has ended, it is forgotten when ends are next recorded */
		if (j->place <= JOB_RUNS)
			stop_job(e, j, true);
	}
}

/* The server has the claim of a stray, and may refuse each try to release it. */
static bool has_ends(const struct pool_state *state)
{
	for (const struct job *j = state->ends.first; j; j = j->queued)
		if (!j->stray)
			return true;
	return false;
}

/* Ends of lost claims must not meet later claims: they go first. */
static void await_ends(struct engine *e, struct pool_state *state)
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

static void stop_named(struct engine *e, struct turn *t, struct turn_part *p, struct names *names,
                       const char *key, int64_t epoch, bool lost)
{
	struct settlement one = {.key = key, .epoch = epoch};
	struct job *j = *find(e, t, names, p->pool, &one);
	if (j && j->worker == p->claimer && j->place <= JOB_RUNS)
		stop_job(e, j, lost);
}

/* A job never ends because of a failed beat: others may then declare it dead. */
static void no_beat(struct engine *e, struct turn_part *p)
{
	struct pool_state *state = &e->states[p->pool];
	int64_t retry_ms = e->options.beat_retry_ms, beat_ms = state->rules.beat_ms;
	bool again = state->beat_fails < e->options.beat_tries;
	struct engine_action *a = act(e, ACTION_NO_BEAT, NULL);
	a->yes = again;
	a->count = ++state->beat_fails;
	if (!again)
		state->beat_fails = 0;
	state->beat_us = e->now_us + sooner(again ? retry_ms : beat_ms, beat_ms) * 1000;
	a->pool = p->pool;
	a->why = &p->beat_f;
}

static void take_beats(struct engine *e, struct turn *t, struct turn_part *p, struct names *names)
{
	if (p->beat_err) {
		no_beat(e, p);
		return;
	}
	e->states[p->pool].beat_fails = 0;
	for (int i = 0; i < p->nbeats; i++)
		if (p->beats[i].lost)
			stop_named(e, t, p, names, p->beats[i].key, p->beats[i].epoch, true);
}

/* ---- a turn ---- */

static void take_part(struct engine *e, struct turn *t, struct turn_part *p, struct names *names)
{
	struct pool_state *first = first_state(e, p->pool);
	if (p->err) {
		struct engine_action *a = act(e, ACTION_FAILED, NULL);
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

void take_turn(struct engine *e, struct turn *t)
{
	struct names names = {0};
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
		tell_breaker(e, &e->breaker, about_turns, answered);
	take_probe(e, &e->serving, &e->probing, got > 0);
	take_probe(e, &e->host, &e->probing_host, got > 0);
}
