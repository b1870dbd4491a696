/* SPDX-License-Identifier: Apache-2.0 */
/* engine_turn.c: when a turn is due, what it asks, and what becomes of ends that cannot
 * be recorded. */
#include "worker/engine_inside.h"

#include <assert.h>

/* ---- claims ---- */

static bool claims_stop(const struct engine *e)
{
	return e->worker == 0 || e->contact != CONTACT_GOOD || e->stops > 0 || e->alone > 0;
}

/* When those who pause claims, but not turns, allow one. */
static int64_t gates_us(const struct engine *e)
{
	int64_t now_ms = ms(e->now_us);
	int64_t wait = later(breaker_wait_ms(&e->serving, now_ms), breaker_wait_ms(&e->host, now_ms));
	return wait == 0 ? 0 : (now_ms + wait) * 1000;
}

/* `batch` bounds what a poll interval takes, however fast the jobs are. */
static int64_t batch_room(const struct engine *e, const struct engine_crew *crew)
{
	if (!crew->rules.batch)
		return INT64_MAX;
	return e->now_us >= crew->tick_us ? crew->rules.batch : crew->rules.batch - crew->taken;
}

static bool polls(const struct engine *e, const struct engine_crew *crew)
{
	return e->now_us >= crew->next_poll_us;
}

/* Without a free slot there is nothing to wait for: one that comes free makes a turn due. */
static int64_t claim_due_us(const struct engine *e, const struct engine_crew *crew)
{
	int64_t now_ms = ms(e->now_us), at = 0;
	if (claims_stop(e) || crew->timeline)
		return NEVER;
	if (slots_free(&crew->slots, now_ms) - crew->slotless + ahead_most(crew) <= 0) {
		int64_t wait = slots_wait_ms(&crew->slots, now_ms);
		if (wait < 0)
			return NEVER;
		at = (now_ms + wait) * 1000;
	}
	if (batch_room(e, crew) <= 0)
		at = later(at, crew->tick_us);
	if (!crew->woken && !crew->more)
		at = later(at, crew->next_poll_us);
	return later(at, gates_us(e));
}

/* While jobs are not served, one at a time shows whether they are again. */
static int64_t probe_room(struct breaker *b, int64_t room, int64_t now_ms, bool *probing)
{
	if (b->state == BREAKER_CLOSED)
		return room;
	*probing = breaker_allow(b, now_ms);
	return *probing ? 1 : 0;
}

/* ---- when ---- */

static int64_t ends_due_us(const struct engine *e, const struct engine_crew *crew)
{
	if (crew->ends.n == 0)
		return NEVER;
	int64_t company_us = ahead_most(crew) > 0 ? ahead_company_us(e, crew)
	                     : e->young > 0       ? e->linger_us
	                                          : 0;
	return later(crew->retry_us, company_us);
}

static int64_t beats_due_us(const struct engine *e, const struct engine_crew *crew)
{
	return e->worker && crew->family > 0 && crew->rules.beat_ms > 0 ? crew->beat_us : NEVER;
}

static int64_t compare_due_us(const struct engine *e, const struct engine_crew *crew)
{
	return e->worker && crew->compare ? crew->compare_us : NEVER;
}

static int64_t drain_due_us(const struct engine_crew *crew)
{
	return crew->spooled > 0 ? crew->drain_us : NEVER;
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
		const struct engine_crew *crew = &e->crews[i];
		due = sooner(due, ends_due_us(e, crew));
		due = sooner(due, claim_due_us(e, crew));
		due = sooner(due, beats_due_us(e, crew));
		due = sooner(due, compare_due_us(e, crew));
		due = sooner(due, drain_due_us(crew));
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

/* What is asked in the name of the present incarnation is in one part of its pool. */
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

/*
 * The ends of the present incarnation and of one before it. The rest, of either, joins the
 * next turn.
 */
static void ask_ends(struct engine *e, struct turn *t, int pool)
{
	struct engine_crew *crew = &e->crews[pool];
	struct job_list all = crew->ends;
	struct turn_part *old = NULL, *now = NULL;
	int64_t most = sooner(all.n, ENDS_MAX);
	if (all.n == 0 || crew->retry_us > e->now_us)
		return;
	crew->ends = (struct job_list){0};
	while (all.first) {
		struct job *j = all.first;
		struct turn_part **p = j->worker == e->worker ? &now : &old;
		all.first = j->queued;
		j->queued = NULL;
		if (j->unclaimed) {
			job_out(e, j, ACTION_FORGOTTEN, NULL);
			continue;
		}
		if (!*p)
			*p = new_part(t, pool, j->worker);
		if ((*p)->worker == j->worker && (*p)->nends < most)
			add_end(t, *p, j, most);
		else
			list_add(&crew->ends, j);
	}
	/* Order matters: what is in the spool ended before this. */
	bool drain = crew_first(e, pool)->spooled > 0;
	if (old)
		old->drain = drain;
	if (now)
		now->drain = drain;
}

static void ask_drain(struct engine *e, struct turn *t, int pool)
{
	struct engine_crew *crew = &e->crews[pool];
	crew->spooled_new = 0;
	if (drain_due_us(crew) > e->now_us)
		return;
	present(e, t, pool)->drain = true;
	crew->drain_us = e->now_us + DRAIN_US;
}

/*
 * Slots of ends that are recorded in the same call are free by then; those that have none yet come
 * first. `p` may be NULL.
 */
static int64_t free_slots(const struct engine *e, const struct turn_part *p, int pool)
{
	const struct engine_crew *crew = &e->crews[pool];
	int64_t given = 0, again = 0, slotless = crew->slotless, now_ms = ms(e->now_us);
	for (int i = 0; p && i < p->nends; i++) {
		int64_t slot = p->jobs[i]->slot;
		given += slot >= 0;
		again += slot >= 0 && slots_again(&crew->slots, slot, now_ms);
		slotless -= slot < 0 && !p->jobs[i]->stray;
	}
	return slots_free_with(&crew->slots, given, again, now_ms) - slotless + ahead_most(crew);
}

static void ask_claim(struct engine *e, struct turn *t, int pool)
{
	struct engine_crew *crew = &e->crews[pool];
	int64_t now_ms = ms(e->now_us);
	/* After a fail-over the same jobs come with the same epochs: who runs them already must go. */
	if (claims_stop(e) || crew->timeline || gates_us(e) > e->now_us || e->probing ||
	    e->probing_host || (!crew->woken && !crew->more && !polls(e, crew)))
		return;
	int64_t room = sooner(free_slots(e, find_present(e, t, pool), pool), batch_room(e, crew));
	if (room <= 0)
		return;
	room = probe_room(&e->serving, room, now_ms, &e->probing);
	room = probe_room(&e->host, room, now_ms, &e->probing_host);
	if (e->now_us >= crew->tick_us) {
		crew->tick_us = e->now_us + crew->poll_us;
		crew->taken = 0;
	}
	struct turn_part *p = asks(e, t, pool);
	p->room = room;
	p->promote = polls(e, crew);
	crew->woken = false;
}

static void ask_compare(struct engine *e, struct turn *t, int pool)
{
	struct engine_crew *crew = &e->crews[pool];
	if (compare_due_us(e, crew) > e->now_us)
		return;
	struct turn_part *p = asks(e, t, pool);
	p->compares = true;
	p->timeline = crew->timeline;
	/* Ends of claims that the server lost must not meet later claims, which have their epochs. */
	p->drain = p->drain || (crew->timeline && crew_first(e, pool)->spooled > 0);
	crew->asked_timeline = crew->timeline;
	crew->compare = crew->timeline = false;
}

/* Several pools may have the same jobs: the first of them beats for all. */
static void ask_beats(struct engine *e, struct turn *t, int pool)
{
	struct engine_crew *crew = &e->crews[pool];
	char step[JOB_STEP_MAX];
	int n = 0;
	if (beats_due_us(e, crew) > e->now_us)
		return;
	struct beat *all = ARENA_ARRAY(&t->arena, struct beat, crew->family);
	for (const struct job *j = e->hand; j; j = j->next) {
		if (j->lost || j->stray || j->worker != e->worker || crew_first(e, j->pool) != crew)
			continue;
		const char *at = job_step(j, step);
		all[n++] = (struct beat){.key = arena_strdup(&t->arena, j->claim.key),
		                         .epoch = j->claim.epoch,
		                         .attempt = j->claim.attempt,
		                         .step = at ? arena_strdup(&t->arena, at) : NULL};
	}
	crew->beat_us = e->now_us + crew->rules.beat_ms * 1000;
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
	/* A job that is on its way to us would look as if nobody had it. */
	if (comparing)
		ask_compare(e, t, pool);
	else
		ask_claim(e, t, pool);
	if (cancels && e->crews[pool].jobs > 0)
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
		comparing = comparing || compare_due_us(e, &e->crews[i]) <= e->now_us;
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

/* ---- what the spool has ---- */

void flush_spool(struct engine *e, struct engine_crew *first)
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
	struct engine_crew *first = crew_first(e, j->pool);
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

/* They were tried for long enough. A stray is handed back or found again, never kept. */
void spool_old(struct engine *e, struct engine_crew *crew)
{
	static const struct failure paused = {.code = DEFIB_CONNECTION,
	                                      .what = "the database has not answered for a while"};
	const struct failure *why = crew->failing ? &crew->why : &paused;
	int64_t since = ms(e->now_us) - e->options.keep_trying_ms;
	if (e->turning || (!crew->failing && e->breaker.state == BREAKER_CLOSED))
		return;
	while (crew->ends.first && crew->ends.first->ended_ms <= since) {
		struct job *j = crew->ends.first;
		crew->ends.first = j->queued;
		crew->ends.n--;
		if (!crew->ends.first)
			crew->ends.last = NULL;
		if (j->stray || j->unclaimed)
			job_out(e, j, ACTION_FORGOTTEN, NULL);
		else
			spool_job(e, j, why);
	}
}

void take_spooled(struct engine *e, struct job *j, bool kept)
{
	struct engine_crew *first = crew_first(e, j->pool);
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
 * A program that takes a millisecond is over before its predecessor's end is recorded. So a pool
 * whose jobs were short for a while has more in hand than it has slots, as many as are expected to
 * begin within AHEAD_US: whoever runs them begins the next one when one has ended, and ends are
 * recorded, and more claimed, meanwhile. When nothing ends for a while, what has not begun is
 * handed back for others, and nothing is claimed ahead until jobs are short again.
 */

#define SHORT_MS 100    /* what a short job takes at most */
#define SHORT_RUNS 8    /* so many in a row */
#define AHEAD_US 20000  /* a job that was claimed ahead is expected to begin so soon */
#define STILL_US 100000 /* how long nothing may end while such jobs wait */

void ahead_note_end(struct engine *e, struct engine_crew *crew, const struct job *j)
{
	bool is_short = j->as == SETTLE_DONE && j->ran_ms >= 0 && j->ran_ms <= SHORT_MS;
	if (is_short && crew->short_runs >= SHORT_RUNS)
		crew->short_ms -= crew->short_ms / SHORT_RUNS;
	crew->short_ms = is_short ? crew->short_ms + j->ran_ms : 0;
	crew->short_runs = is_short ? crew->short_runs + 1 : 0;
	crew->stirred_us = e->now_us;
}

/* How many jobs of the pool begin within so long. */
static int64_t begin_within(const struct engine_crew *crew, int64_t us)
{
	int64_t run_us = later(crew->short_ms * 1000 / SHORT_RUNS, 1000);
	return crew->slots.rules.count * us / run_us;
}

int64_t ahead_most(const struct engine_crew *crew)
{
	int64_t most = sooner(begin_within(crew, AHEAD_US), crew->rules.ahead);
	return crew->short_runs >= SHORT_RUNS ? most : 0;
}

/*
 * Half of what is ahead may end while the other half begins, but enough must be left to begin
 * until a turn is answered, even one that takes twice as long as the last.
 */
static int64_t ends_wanted(const struct engine *e, const struct engine_crew *crew)
{
	int64_t most = ahead_most(crew), left = begin_within(crew, 2 * e->took_us);
	return later(sooner((most + 1) / 2, most - left), 1);
}

int64_t ahead_company_us(const struct engine *e, const struct engine_crew *crew)
{
	bool alone = crew->jobs == crew->ends.n;
	if (alone || crew->ends.n >= ends_wanted(e, crew))
		return 0;
	return crew->ends.first->ended_ms * 1000 + LINGER_US;
}

int64_t ahead_enough(const struct engine *e, const struct engine_crew *crew)
{
	return crew->ends.n > 0 ? ends_wanted(e, crew) - crew->ends.n : 1;
}

void ahead_take_slots(struct engine *e)
{
	int64_t now_ms = ms(e->now_us);
	for (struct job *j = e->hand; j; j = j->next) {
		struct engine_crew *crew = &e->crews[j->pool];
		if (j->slot >= 0 || j->stray || slots_free(&crew->slots, now_ms) == 0)
			continue;
		j->slot = slots_take(&crew->slots, now_ms);
		crew->slotless--;
	}
}

int64_t ahead_over_us(const struct engine_crew *crew)
{
	return crew->slotless > 0 && crew->rules.ahead > 0 && !crew->returned
	           ? crew->stirred_us + STILL_US
	           : NEVER;
}

void ahead_return(struct engine *e)
{
	for (int i = 0; i < e->options.npools; i++) {
		struct engine_crew *crew = &e->crews[i];
		if (ahead_over_us(crew) > e->now_us)
			continue;
		crew->returned = true;
		crew->short_runs = 0;
		act(e, ACTION_RETURN, NULL)->pool = i;
	}
}
