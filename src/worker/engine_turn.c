/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_turn.c: when a turn is due, what it asks for, and what happens to ends that cannot be
 * recorded.
 */
#include "worker/engine_inside.h"

#include <assert.h>

/* ---- claims ---- */

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
	int64_t wait = later(breaker_wait_ms(&e->serving, now_ms), breaker_wait_ms(&e->host, now_ms));
	return wait == 0 ? 0 : (now_ms + wait) * 1000;
}

/* `batch` limits the claims of a poll interval, however fast the jobs are. */
static int64_t batch_room(const struct engine *e, const struct pool_state *state)
{
	if (!state->rules.batch)
		return INT64_MAX;
	return e->now_us >= state->tick_us ? state->rules.batch : state->rules.batch - state->taken;
}

static bool polls(const struct engine *e, const struct pool_state *state)
{
	return e->now_us >= state->next_poll_us;
}

/* Without a free slot there is nothing to wait for: a slot that becomes free makes a turn due. */
static int64_t claim_due_us(const struct engine *e, const struct pool_state *state)
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
		at = later(at, state->tick_us);
	if (!state->woken && !state->more)
		at = later(at, state->next_poll_us);
	return later(at, gates_us(e));
}

/* While jobs get no sessions, one at a time tests whether they do again. */
static int64_t probe_room(struct breaker *b, int64_t room, int64_t now_ms, bool *probing)
{
	if (b->state == BREAKER_CLOSED)
		return room;
	*probing = breaker_allow(b, now_ms);
	return *probing ? 1 : 0;
}

/* ---- when ---- */

static int64_t ends_due_us(const struct engine *e, const struct pool_state *state)
{
	if (state->ends.n == 0)
		return NEVER;
	int64_t company_us = ahead_most(state) > 0 ? ahead_company_us(e, state)
	                     : e->young > 0        ? e->linger_us
	                                           : 0;
	return later(state->retry_us, company_us);
}

static int64_t beats_due_us(const struct engine *e, const struct pool_state *state)
{
	return e->worker && state->family > 0 && state->rules.beat_ms > 0 ? state->beat_us : NEVER;
}

static int64_t compare_due_us(const struct engine *e, const struct pool_state *state)
{
	return e->worker && state->compare ? state->compare_us : NEVER;
}

static int64_t drain_due_us(const struct pool_state *state)
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

int64_t turn_due_us(const struct engine *e)
{
	int64_t due = sooner(cancels_due_us(e), progress_due_us(e));
	for (int i = 0; i < e->options.npools; i++) {
		const struct pool_state *state = &e->states[i];
		due = sooner(due, ends_due_us(e, state));
		due = sooner(due, claim_due_us(e, state));
		due = sooner(due, beats_due_us(e, state));
		due = sooner(due, compare_due_us(e, state));
		due = sooner(due, drain_due_us(state));
	}
	int64_t wait = breaker_wait_ms(&e->breaker, ms(e->now_us));
	return due == NEVER || wait == 0 ? due : later(due, (ms(e->now_us) + wait) * 1000);
}

/* ---- what ---- */

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
	struct pool_state *state = &e->states[pool];
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
		j->queued = NULL;
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
			list_add(&state->ends, j);
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
	struct pool_state *state = &e->states[pool];
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
	const struct pool_state *state = &e->states[pool];
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
	struct pool_state *state = &e->states[pool];
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
	struct pool_state *state = &e->states[pool];
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
	struct pool_state *state = &e->states[pool];
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
		if (j->place == JOB_RUNS && atomic_load(&j->said))
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

void make_turn(struct engine *e)
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
	act(e, ACTION_TURN, NULL)->turn = t;
}

/* ---- the contents of the spool ---- */

void flush_spool(struct engine *e, struct pool_state *first)
{
	if (!first->spool.first)
		return;
	struct engine_action *a = act(e, ACTION_SPOOL, first->spool.first);
	a->why = first->spool.first->why;
	a->count = first->spool.n;
	first->spool = (struct job_list){0};
}

void spool_job(struct engine *e, struct job *j, const struct failure *why)
{
	struct pool_state *first = first_state(e, j->pool);
	const struct job *last = first->spool.last;
	j->place = JOB_SPOOLED;
	free(j->why);
	j->why = mem_alloc(sizeof *j->why);
	*j->why = *why;
	if (last && (last->why->code != why->code || strcmp(last->why->what, why->what) != 0))
		flush_spool(e, first);
	list_add(&first->spool, j);
	first->spooled++;
	first->spooled_new++;
	first->drain_us = later(first->drain_us, e->now_us + DRAIN_US);
}

/* They were retried for long enough. A stray is released or found again, never stored. */
void spool_old(struct engine *e, struct pool_state *state)
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

void take_spooled(struct engine *e, struct job *j, bool kept)
{
	struct pool_state *first = first_state(e, j->pool);
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

/* ---- jobs that are claimed ahead ---- */

/*
 * Jobs that are claimed before a slot is free for them.
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

void ahead_note_end(struct engine *e, struct pool_state *state, const struct job *j)
{
	bool is_short = j->as == SETTLE_DONE && j->ran_ms >= 0 && j->ran_ms <= SHORT_MS;
	if (is_short && state->short_runs >= SHORT_RUNS)
		state->short_ms -= state->short_ms / SHORT_RUNS;
	state->short_ms = is_short ? state->short_ms + j->ran_ms : 0;
	state->short_runs = is_short ? state->short_runs + 1 : 0;
	state->stirred_us = e->now_us;
}

/* How many jobs of the pool begin within this time. */
static int64_t begin_within(const struct pool_state *state, int64_t us)
{
	int64_t run_us = later(state->short_ms * 1000 / SHORT_RUNS, 1000);
	return state->slots.rules.count * us / run_us;
}

int64_t ahead_most(const struct pool_state *state)
{
	int64_t most = sooner(begin_within(state, AHEAD_US), state->rules.ahead);
	return state->short_runs >= SHORT_RUNS ? most : 0;
}

/*
 * Half of what is claimed ahead may end while the other half begins, but enough must be left to
 * begin until a turn is complete, even one that takes twice as long as the last.
 */
static int64_t ends_wanted(const struct engine *e, const struct pool_state *state)
{
	int64_t most = ahead_most(state), left = begin_within(state, 2 * e->took_us);
	return later(sooner((most + 1) / 2, most - left), 1);
}

int64_t ahead_company_us(const struct engine *e, const struct pool_state *state)
{
	bool alone = state->jobs == state->ends.n;
	if (alone || state->ends.n >= ends_wanted(e, state))
		return 0;
	return state->ends.first->ended_ms * 1000 + LINGER_US;
}

int64_t ahead_enough(const struct engine *e, const struct pool_state *state)
{
	return state->ends.n > 0 ? ends_wanted(e, state) - state->ends.n : 1;
}

void ahead_take_slots(struct engine *e)
{
	int64_t now_ms = ms(e->now_us);
	for (struct job *j = e->hand; j; j = j->next) {
		struct pool_state *state = &e->states[j->pool];
		if (j->slot >= 0 || j->stray || slots_free(&state->slots, now_ms) == 0)
			continue;
		j->slot = slots_take(&state->slots, now_ms);
		state->slotless--;
	}
}

int64_t ahead_over_us(const struct pool_state *state)
{
	return state->slotless > 0 && state->rules.ahead > 0 && !state->returned
	           ? state->stirred_us + STILL_US
	           : NEVER;
}

void ahead_return(struct engine *e)
{
	for (int i = 0; i < e->options.npools; i++) {
		struct pool_state *state = &e->states[i];
		if (ahead_over_us(state) > e->now_us)
			continue;
		state->returned = true;
		state->short_runs = 0;
		act(e, ACTION_RETURN, NULL)->pool = i;
	}
}
