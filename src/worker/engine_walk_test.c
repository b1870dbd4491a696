/* SPDX-License-Identifier: Apache-2.0
 * engine_walk_test.c: random walks of two engines over a small model of a database that loses
 * requests and replies, refuses rows, becomes unavailable, declares workers dead and fails over to
 * a copy that is behind. Invariants are checked after each step; then everything is healed, and all
 * jobs must end. A walk depends only on its seed: DEFIB_WALK=seed runs one.
 */
#include "worker/engine_walk_test.h"

#define WALKS 2000
#define STEPS 250

/* ---- the drivers ---- */

static void do_actions(struct world *w, struct runner *r);

static void tell(struct world *w, struct runner *r, struct engine_event ev)
{
	ev.chance = (double)roll(w, 1000) / 1000;
	engine_step(r->e, &ev, w->now);
	if (roll(w, 4) > 0 || ev.kind == EVENT_SPOOLED)
		do_actions(w, r);
}

static void tell_life(struct world *w, struct runner *r)
{
	tell(w, r,
	     (struct engine_event){.kind = EVENT_LIFE, .worker = r->worker, .contact = r->contact});
}

static void spool(struct world *w, struct runner *r, struct job *first)
{
	bool kept = !fault(w, 6);
	for (const struct job *j = first; kept && j; j = j->queued) {
		check(w, r->nspool < SPOOL_MOST, "the spool of the model is too small");
		r->spool[r->nspool++] =
			(struct record){number(j->claim.key), j->worker, j->claim.epoch, j->as};
	}
	tell(w, r, (struct engine_event){.kind = EVENT_SPOOLED, .job = first, .yes = kept});
}

static bool has_place(const struct runner *r, int pool)
{
	int64_t running = 0;
	for (int i = 0; i < r->nruns; i++)
		running += r->runs[i]->pool == pool;
	return running < r->concurrency[pool];
}

static struct job *take_waiting(struct runner *r, int i)
{
	struct job *j = r->waits[i];
	memmove(r->waits + i, r->waits + i + 1, sizeof *r->waits * (size_t)(--r->nwaits - i));
	return j;
}

/* Those that there is a place for; a job that was asked to stop ends without having begun. */
static void begin(struct world *w, struct runner *r)
{
	for (int i = 0; i < r->nwaits;) {
		if (!r->waits[i]->stop && !has_place(r, r->waits[i]->pool)) {
			i++;
			continue;
		}
		struct job *j = take_waiting(r, i);
		if (j->stop) {
			j->as = SETTLE_STOPPED;
			tell(w, r, (struct engine_event){.kind = EVENT_ENDED, .job = j});
			i = 0;
			continue;
		}
		check(w, w->timeline || j->worker >= r->worker, "a job of a dead worker was started");
		r->begun[r->nruns] = w->timeline;
		r->runs[r->nruns++] = j;
	}
}

static void hand_back(struct world *w, struct runner *r, int pool)
{
	for (int i = 0; i < r->nwaits;) {
		if (r->waits[i]->pool != pool) {
			i++;
			continue;
		}
		struct job *j = take_waiting(r, i);
		j->as = SETTLE_RELEASED;
		tell(w, r, (struct engine_event){.kind = EVENT_ENDED, .job = j});
		i = 0;
	}
}

static void do_actions(struct world *w, struct runner *r)
{
	struct engine_action a;
	while (engine_next(r->e, &a)) {
		switch (a.kind) {
		case ACTION_START:
			r->waits[r->nwaits++] = a.job;
			begin(w, r);
			break;
		case ACTION_RETURN:
			hand_back(w, r, a.pool);
			break;
		case ACTION_TURN:
			check(w, !r->turn, "two turns at a time");
			r->turn = a.turn;
			r->executed = false;
			break;
		case ACTION_SPOOL:
			spool(w, r, a.job);
			break;
		default:
			break;
		}
	}
}

static void end_run(struct world *w, struct runner *r, int i)
{
	static const enum settle_as ends[] = {SETTLE_DONE, SETTLE_DONE, SETTLE_FAILED, SETTLE_RELEASED};
	struct job *j = r->runs[i];
	j->as = w->healed ? SETTLE_DONE : ends[roll(w, 4)];
	j->ran_ms = roll(w, 20) > 0 ? 1 : 1000;
	/* By its handler, in a transaction of its own; refused, that fails. */
	if (fault(w, 8) && !w->away) {
		j->settled = settle(w, number(j->claim.key), j->worker, j->claim.epoch, SETTLE_DONE);
		j->as = SETTLE_DONE;
	}
	r->nruns--;
	r->runs[i] = r->runs[r->nruns];
	r->begun[i] = r->begun[r->nruns];
	tell(w, r, (struct engine_event){.kind = EVENT_ENDED, .job = j});
	begin(w, r);
}

/* A job that the result does not name, and that a failover may have lost, must not continue. */
static void check_unseen(struct world *w, const struct runner *r, const struct turn_part *p)
{
	for (int i = 0; i < r->nruns; i++) {
		const struct job *j = r->runs[i];
		bool seen = j->pool != p->pool || j->worker != p->claimer;
		for (int k = 0; k < p->nhas; k++)
			seen =
				seen || (text_eq(p->has[k].key, j->claim.key) && p->has[k].epoch == j->claim.epoch);
		check(w, seen || j->stop, "a job whose claim was lost in a failover goes on");
	}
}

static void answer(struct world *w, struct runner *r)
{
	struct turn *t = r->turn;
	struct engine_event ev = {.kind = EVENT_TURN, .turn = t};
	r->turn = NULL;
	engine_step(r->e, &ev, w->now);
	for (int i = 0; i < t->nparts; i++) {
		const struct turn_part *p = &t->parts[i];
		check(w, p->room == 0 || !t->parts[0].compares, "a claim beside a comparison");
		if (!p->compares || p->err || p->gone || p->claimer != r->worker || !r->told[p->pool] ||
		    r->timeline)
			continue;
		check_unseen(w, r, p);
		r->told[p->pool] = false;
	}
	do_actions(w, r);
}

static void step_turn(struct world *w, struct runner *r)
{
	if (!r->turn)
		return;
	if (r->executed) {
		answer(w, r);
		return;
	}
	for (int i = 0; i < r->turn->nparts; i++)
		do_part(w, r, &r->turn->parts[i], &r->turn->arena);
	r->executed = true;
}

/* A worker that was declared dead learns it some time later, and returns as a new incarnation. */
static void step_life(struct world *w, struct runner *r)
{
	if (r->timeline && !w->away && !r->turn) {
		r->timeline = false;
		for (int i = 0; i < POOLS; i++)
			r->told[i] = true;
		tell(w, r, (struct engine_event){.kind = EVENT_TIMELINE});
	}
	if (!w->db.alive[r->worker] && !w->away && w->ids + 1 < IDS) {
		if (r->worker && roll(w, 2) == 0) {
			r->worker = 0;
			r->contact = CONTACT_TAKEN;
		} else {
			r->worker = ++w->ids;
			w->db.alive[r->worker] = true;
			r->contact = CONTACT_GOOD;
		}
		tell_life(w, r);
		return;
	}
	if (r->worker && (w->healed || fault(w, 3))) {
		r->contact = w->healed ? CONTACT_GOOD : (enum lease_contact)roll(w, 3);
		tell_life(w, r);
	}
}

/* The registry counts more jobs than we have: a reply may have been lost. */
static void step_count(struct world *w, struct runner *r)
{
	int64_t owned = 0;
	for (int i = 0; i < JOBS; i++)
		owned += w->db.jobs[i].state == RUNNING && w->db.jobs[i].owner == r->worker;
	if (w->now < r->compare_us || owned <= engine_holding(r->e))
		return;
	r->compare_us = w->now + 5 * SECOND;
	tell(w, r, (struct engine_event){.kind = EVENT_COMPARE});
}

/* ---- what always holds ---- */

static void check_runner(struct world *w, const struct runner *r)
{
	int64_t running[POOLS] = {0}, alone = 0;
	for (int i = 0; i < r->nruns; i++) {
		running[r->runs[i]->pool]++;
		alone += r->runs[i]->claim.alone;
	}
	for (int i = 0; i < POOLS; i++)
		check(w, running[i] <= r->concurrency[i], "more jobs run than there are slots");
	for (int i = 0; i < r->nwaits; i++)
		running[r->waits[i]->pool]++;
	for (int i = 0; i < POOLS; i++)
		check(w, running[i] <= r->concurrency[i] + r->ahead[i], "more is claimed than ahead");
	check(w, alone == 0 || r->nruns == 1, "a job that is to run alone has company");
	check(w, engine_holding(r->e) >= r->nruns, "a job runs that is not in hand");
}

/* Jobs that began before a failover are uncertain until they are compared. */
static void check_one_run_a_job(struct world *w)
{
	int runs[JOBS] = {0};
	for (int k = 0; k < ENGINES; k++) {
		const struct runner *r = &w->runners[k];
		for (int i = 0; i < r->nruns; i++)
			if (w->db.alive[r->runs[i]->worker] && r->begun[i] == w->timeline &&
			    r->runs[i]->claim.epoch / 1000 == w->timeline)
				check(w, ++runs[number(r->runs[i]->claim.key)] == 1, "a job runs twice");
	}
}

/* ---- a walk ---- */

static void open_runner(struct world *w, struct runner *r)
{
	struct engine_pool pools[POOLS] = {
		{.concurrency = 2, .poll_ms = 200, .beat_ms = 700},
		{.concurrency = 1, .poll_ms = 300, .same_jobs = 0, .batch = 3, .beat_ms = 700},
		{.concurrency = 2,
	     .poll_ms = 250,
	     .same_jobs = 2,
	     .announced = true,
	     .exclusive = true,
	     .ahead = 2},
	};
	struct engine_options o = {.pools = pools, .npools = POOLS, .grace_ms = 1000};
	for (int i = 0; i < POOLS; i++)
		r->concurrency[i] = pools[i].concurrency;
	for (int i = 0; i < POOLS; i++)
		r->ahead[i] = pools[i].ahead;
	r->e = engine_new(&o, w->now);
	r->worker = ++w->ids;
	w->db.alive[r->worker] = true;
	tell_life(w, r);
}

static void step_time(struct world *w, struct runner *r)
{
	int64_t wait = engine_wait_us(r->e, w->now);
	int64_t most = roll(w, 10) == 0 ? 5 * SECOND : roll(w, 2) ? 3000 : SECOND;
	w->now += wait < most ? wait : most;
	tell(w, r, (struct engine_event){.kind = EVENT_TICK});
}

static void step_trouble(struct world *w, struct runner *r)
{
	switch (roll(w, 12)) {
	case 0:
		w->away = !w->away;
		break;
	case 1:
		if (roll(w, 3) == 0 && w->ids + 4 < IDS)
			declare_dead(w, r->worker);
		break;
	case 2:
		w->copy = w->db;
		break;
	case 3:
		if (roll(w, 5) == 0)
			fail_over(w);
		break;
	case 4:
		w->refuses[roll(w, JOBS)] ^= true;
		break;
	case 5:
		w->db.jobs[roll(w, JOBS)].cancel |= roll(w, 4) == 0;
		break;
	case 6:
		tell(w, r, (struct engine_event){.kind = EVENT_SERVED, .yes = roll(w, 2)});
		break;
	case 7:
		tell(w, r, (struct engine_event){.kind = EVENT_LACKS, .yes = roll(w, 2)});
		break;
	case 8:
		tell(w, r, (struct engine_event){.kind = EVENT_COMPARE});
		break;
	default:
		tell(w, r, (struct engine_event){.kind = EVENT_WOKEN});
		break;
	}
}

static void step(struct world *w)
{
	struct runner *r = &w->runners[roll(w, ENGINES)];
	switch (roll(w, 6)) {
	case 0:
		step_time(w, r);
		break;
	case 1:
	case 2:
		step_turn(w, r);
		break;
	case 3:
		if (r->nruns > 0)
			end_run(w, r, (int)roll(w, (uint64_t)r->nruns));
		break;
	case 4:
		step_life(w, r);
		step_count(w, r);
		break;
	default:
		if (!w->healed)
			step_trouble(w, r);
		break;
	}
	for (int i = 0; i < ENGINES; i++) {
		begin(w, &w->runners[i]);
		check_runner(w, &w->runners[i]);
	}
	check_one_run_a_job(w);
}

static bool all_over(const struct world *w)
{
	for (int i = 0; i < JOBS; i++)
		if (w->db.jobs[i].state != OVER)
			return false;
	for (int i = 0; i < ENGINES; i++)
		if (engine_holding(w->runners[i].e) > 0 || w->runners[i].nspool > 0)
			return false;
	return true;
}

/* Incarnations that no longer exist are declared dead by their silence. */
static void heal(struct world *w)
{
	w->healed = true;
	w->away = false;
	memset(w->refuses, 0, sizeof w->refuses);
	for (int64_t id = 1; id <= w->ids; id++)
		if (id != w->runners[0].worker && id != w->runners[1].worker)
			declare_dead(w, id);
	for (int i = 0; i < ENGINES; i++)
		for (int k = 0; k < 2; k++)
			tell(w, &w->runners[i],
			     (struct engine_event){.kind = k ? EVENT_SERVED : EVENT_LACKS, .yes = k});
}

static void walk(unsigned seed)
{
	static struct world w;
	w = (struct world){
		.seed = seed, .random = seed * 2654435761U + 88172645463325252U, .now = 100 * SECOND};
	for (int i = 0; i < ENGINES; i++)
		open_runner(&w, &w.runners[i]);
	w.copy = w.db;
	for (int i = 0; i < STEPS; i++)
		step(&w);
	heal(&w);
	for (int i = 0; i < 40000 && !all_over(&w); i++)
		step(&w);
	check(&w, all_over(&w), "not everything came to its end");
	for (int i = 0; i < ENGINES; i++) {
		struct runner *r = &w.runners[i];
		tell(&w, r, (struct engine_event){.kind = EVENT_STOP});
		for (int k = 0; k < 1000 && !engine_finished(r->e); k++) {
			step_turn(&w, r);
			step_time(&w, r);
		}
		check(&w, engine_finished(r->e), "a stop does not end");
		engine_free(r->e);
	}
}

static void no_walk_breaks_the_rules(void **state)
{
	const char *one = getenv("DEFIB_WALK");
	(void)state;
	if (one) {
		walk((unsigned)strtoul(one, NULL, 10));
		return;
	}
	for (unsigned seed = 1; seed <= WALKS; seed++)
		walk(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(no_walk_breaks_the_rules)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
