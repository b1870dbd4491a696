/* SPDX-License-Identifier: Apache-2.0
 * guard_property_test.c: what must hold of doubt, brake, second look and pace in
 * any world, for thousands of seeds. DEFIB_SEED=n runs one seed again,
 * DEFIB_SEEDS=n so many.
 *
 * After every pass of the daemon:
 *  - life: nobody who lives and can reach the database is confirmed of silence
 *  - two looks: nobody is confirmed who was silent for less than limit + one beat
 *  - doubt: nobody is confirmed of a silence that an outage hid before quiet is over
 *  - bound: who is gone is let through within the clean time that bound_us() states
 *  - brake: it holds only owners that the daemon saw beating, each silence for one ceiling at most
 *  - pace: no more go than burst and rate allow; in the end all have gone
 */
#include "recover/guard_world_test.h"

#include "base/text.h"
#include "recover/judge.h"

#include <string.h>

#define PACE_MOST_TIMES 20
#define SEEDS 400

static int64_t limit_us(const struct world *w)
{
	return w->watch.stuck_after.standard_us;
}

static int64_t quiet_us(const struct world *w)
{
	int64_t quiet = w->watch.beat_us ? 2 * w->watch.beat_us : 30 * S;
	return quiet < limit_us(w) ? quiet : limit_us(w);
}

/* Clean time between two moments, by all outages that the daemon ever knew of. */
static int64_t clean_us(const struct world *w, int64_t from_us, int64_t to_us)
{
	int64_t clean = to_us > from_us ? to_us - from_us : 0;
	for (int i = 0; i < w->noutages; i++) {
		const struct outage *o = &w->outages[i];
		int64_t begin = o->begin_us > from_us ? o->begin_us : from_us;
		int64_t end = o->end_us < to_us ? o->end_us : to_us;
		clean -= end > begin ? end - begin : 0;
	}
	return clean;
}

/* Whether the silence may be confirmed now, by the rule itself and without the ring. */
static bool quiet_is_over(const struct world *w, int64_t sign_us)
{
	int64_t deadline_us = sign_us + limit_us(w);
	for (int i = 0; i < w->noutages; i++) {
		const struct outage *o = &w->outages[i];
		if (o->end_us > deadline_us - quiet_us(w))
			return o->begin_us >= deadline_us ||
			       clean_us(w, o->end_us, database_us(w)) >= quiet_us(w);
	}
	return true;
}

/*
 * The clean time within which the job of a dead worker is let through, from the end of its limit:
 * quiet (four windows beyond the outages that are kept individually), a pass until it is first
 * seen, the beat until the second look, one ceiling, its turn at the slowest rate, and a pass at
 * each end.
 */
static int64_t bound_us(const struct world *w)
{
	const struct guard_limits *g = &w->watch.guard;
	int64_t step_us = w->every_us > LEAST_STEP_US ? w->every_us : LEAST_STEP_US;
	double slowest = g->pace_per_s / 10 > 1 ? g->pace_per_s / 10 : 1;
	int64_t bound = quiet_us(w) * (w->noutages > DOUBT_OUTAGES ? 4 : 1);
	bound += w->watch.beat_us + 4 * step_us;
	slowest = slowest < g->pace_per_s ? slowest : g->pace_per_s;
	if (w->watch.beat_us && !g->off)
		bound += g->brake_ceiling_us;
	/* A bucket smaller than one pass's worth is emptied once per pass. */
	int64_t burst = g->pace_burst < 1 ? 1 : g->pace_burst;
	if (!g->off && g->pace_per_s > 0)
		bound += (int64_t)((double)w->njobs / slowest * 1e6) + w->njobs / burst * step_us;
	return bound;
}

static void expect_just(struct world *w, const struct job *j)
{
	const struct man *m = &w->men[j->man];
	bool stale_at_first = m->sign_us + limit_us(w) < EPOCH_US + w->first_us;
	EXPECT(w, m->state != WELL, "life: confirmed of silence, but it lives");
	if (w->watch.beat_us && !stale_at_first && !w->stepped)
		EXPECT(w, w->t_us - m->beat_us >= limit_us(w) + w->watch.beat_us,
		       "two looks: confirmed before limit and one beat");
	if (!w->stepped_back)
		EXPECT(w, quiet_is_over(w, m->sign_us), "doubt: confirmed before quiet is over");
}

static void expect_in_time(struct world *w, const struct job *j)
{
	const struct man *m = &w->men[j->man];
	int64_t since_us = m->sign_us + limit_us(w), first_us = EPOCH_US + w->first_us;
	int64_t late_us = clean_us(w, since_us > first_us ? since_us : first_us, database_us(w));
	if (!w->stepped && !w->failing_percent && m->state == GONE)
		EXPECT(w, late_us <= bound_us(w), "bound: somebody who is gone waits for too long");
}

/* The daemon sees the database: absence says whether it was away. */
static void pass_reads(struct world *w)
{
	struct doubt *d = &w->absence.doubt;
	int64_t total = d->total, n = d->n ? d->outages[d->n - 1].begin_us : 0;
	while (!w->paused && w->tick_us && w->tick_us + 2 * S < w->t_us) {
		w->tick_us += 2 * S;
		absence_tick(&w->absence, w->tick_us);
	}
	w->opened += w->session_lost;
	w->session_lost = w->paused = false;
	w->tick_us = w->t_us;
	absence_read(&w->absence, w->opened, database_us(w), w->t_us);
	if (d->total == total)
		return;
	const struct outage *last = &d->outages[d->n - 1];
	if (w->noutages && last->begin_us == n)
		w->noutages--; /* the same goes on */
	w->outages[w->noutages++] = *last;
}

static struct facts facts_of(const struct world *w, const struct job *j)
{
	const struct man *m = &w->men[j->man];
	struct facts f = {.job = j->name, .owner = m->name, .running = true};
	f.now_us = database_us(w);
	f.owner_alive = m->known_dead ? KNOWN_NO : KNOWN_NOT;
	f.has_sign[SIGN_ALIVE] = true;
	f.sign_us[SIGN_ALIVE] = m->sign_us;
	return f;
}

static int census_of(struct world *w, struct census_row *census)
{
	int n = 0;
	for (int i = 0; i < w->nmen; i++) {
		struct man *m = &w->men[i];
		if (m->running == 0)
			continue;
		m->seen_fresh |= database_us(w) - m->sign_us <= limit_us(w);
		census[n++] = (struct census_row){m->name, m->sign_us, m->known_dead};
	}
	return n;
}

/* However the brake engages and releases: one silence is held for at most one ceiling. */
static void expect_held_justly(struct world *w, struct man *m)
{
	if (m->held_us == 0 || m->held_beat_us != m->beat_us)
		m->held_us = w->t_us;
	m->held_beat_us = m->beat_us;
	EXPECT(w, m->seen_fresh && !m->known_dead, "brake: held somebody it never saw beating");
	EXPECT(w, w->t_us - m->held_us < w->watch.guard.brake_ceiling_us,
	       "brake: one silence was held for longer than the ceiling");
}

static void ask_about(struct world *w, struct job *j, bool failing)
{
	struct man *m = &w->men[j->man];
	struct facts f = facts_of(w, j);
	struct judgement verdict = judge(&w->watch, &f);
	if (verdict.verdict == VERDICT_NONE)
		return;
	struct guard_answer a = guard_ask(w->guard, &f, &verdict);
	if (a.by == GUARD_BRAKE)
		expect_held_justly(w, m);
	expect_in_time(w, j);
	if (a.by != GUARD_PASS)
		return;
	w->paid += verdict.verdict != VERDICT_DEAD;
	if (verdict.verdict == VERDICT_SILENT)
		expect_just(w, j);
	if (failing) {
		guard_give_back(w->guard);
		w->paid -= verdict.verdict != VERDICT_DEAD;
		return;
	}
	w->let++;
	w->confirmed += verdict.verdict == VERDICT_SILENT;
	j->running = false;
	j->let_us = w->t_us;
	m->running--;
}

static void expect_bounded(struct world *w, const struct guard_report *r)
{
	const struct guard_limits *g = &w->watch.guard;
	double s = (double)(w->t_us - w->first_us) / 1e6;
	if (r->brakes != w->brakes)
		w->braking_since_us = w->t_us;
	w->brakes = r->brakes;
	if (r->braking)
		EXPECT(w, w->t_us - w->braking_since_us < g->brake_ceiling_us,
		       "brake: held past its ceiling");
	/* Batches here take up to 0.1 s, which fills the bucket ahead of the next pass. */
	if (!g->off && g->pace_per_s > 0)
		EXPECT(w,
		       (double)w->paid <= (double)g->pace_burst + (s + 0.1 * (double)w->passes) *
		                                                      g->pace_per_s * PACE_MOST_TIMES,
		       "pace: more went than burst and rate allow");
}

static void pass_runs(struct world *w)
{
	struct census_row census[MEN_MOST];
	struct guard_report r;
	const struct gone_suspect *gone;
	int ngone;
	bool failing = chance(w, (int)w->failing_percent);
	int64_t let = w->let;
	if (w->passes == 0)
		w->first_us = w->t_us;
	pass_reads(w);
	int n = w->watch.beat_us ? census_of(w, census) : 0;
	guard_begin(w->guard, &w->absence.doubt, database_us(w), w->t_us, n ? census : NULL, n, false);
	for (int i = 0; i < w->njobs; i++)
		if (w->jobs[i].running)
			ask_about(w, &w->jobs[i], failing);
	w->passes++;
	guard_batch(w->guard, w->let - let, between(w, 0, S / 10), failing);
	guard_end(w->guard, &gone, &ngone);
	guard_report(w->guard, &r);
	expect_bounded(w, &r);
	int64_t again_us = r.again_us ? r.again_us - database_us(w) : w->every_us;
	again_us = again_us < LEAST_STEP_US ? LEAST_STEP_US : again_us;
	w->next_us = w->t_us + (again_us < w->every_us ? again_us : w->every_us);
}

static void world_run(struct world *w, int64_t until_us)
{
	while (w->t_us < until_us) {
		bool event = w->at < w->nevents && w->events[w->at].t_us <= w->next_us;
		int64_t t_us = event ? w->events[w->at].t_us : w->next_us;
		if (t_us > until_us)
			break;
		world_advance(w, t_us);
		if (event) {
			world_happens(w, &w->events[w->at++]);
		} else if (w->up) {
			pass_runs(w);
		} else {
			absence_begins(&w->absence, "cannot connect");
			w->next_us = w->t_us + w->every_us;
		}
	}
	world_advance(w, until_us > w->t_us ? until_us : w->t_us);
}

static void expect_all_gone_were_let(struct world *w)
{
	for (int i = 0; i < w->njobs; i++) {
		const struct job *j = &w->jobs[i];
		EXPECT(w, !j->running || w->men[j->man].state == WELL,
		       "in the end somebody gone still waits");
	}
}

/* ---- random worlds ---- */

static void script_men(struct world *w, int64_t span_us)
{
	int64_t n = between(w, 0, w->nmen);
	for (int64_t i = 0; i < n; i++) {
		int64_t man = between(w, 0, w->nmen - 1), t_us = between(w, 0, span_us);
		int kind = (int)between(w, 0, 5);
		if (kind == 0)
			world_event(w, t_us, DIE_SEEN, man);
		else if (kind <= 2)
			world_event(w, t_us, DIE, man);
		else
			world_event(w, t_us, STALL, man);
		if (kind > 2)
			world_event(w, t_us + between(w, 0, 3 * limit_us(w)), RETURN, man);
	}
}

/* Many are cut off at once; all, some or none return. */
static void script_partition(struct world *w, int64_t span_us)
{
	int64_t share = between(w, 1, 100), t_us = between(w, 0, span_us);
	int64_t returns = chance(w, 50) ? 100 : between(w, 0, 100);
	int64_t back_us = t_us + between(w, 0, 20 * limit_us(w));
	for (int i = 0; i < w->nmen; i++) {
		if (!chance(w, (int)share))
			continue;
		if (chance(w, (int)returns)) {
			world_event(w, t_us, STALL, i);
			world_event(w, back_us + between(w, 0, S), RETURN, i);
		} else {
			world_event(w, t_us, DIE, i);
		}
	}
}

static void script_database(struct world *w, int64_t span_us)
{
	bool flaps = chance(w, 20);
	int64_t n = flaps ? between(w, 20, 150) : between(w, 0, 4), t_us = between(w, 0, span_us / 2);
	for (int64_t i = 0; i < n; i++) {
		t_us += between(w, 1, flaps ? 2 * w->interval_us : span_us / 8);
		world_event(w, t_us, DOWN, 0);
		t_us += between(w, 1, flaps ? 2 * w->interval_us : 4 * limit_us(w));
		world_event(w, t_us, UP, 0);
	}
}

static void script(struct world *w)
{
	int64_t span_us = between(w, 5, 30) * limit_us(w);
	script_men(w, span_us);
	if (chance(w, 50))
		script_partition(w, span_us);
	if (chance(w, 60))
		script_database(w, span_us);
	for (int64_t i = between(w, -2, 3); i > 0; i--)
		world_event(w, between(w, 0, span_us), PAUSE, between(w, 1, 3 * limit_us(w)));
	/* All in one direction: two that cancel each other between two readings cannot be seen. */
	int64_t way = chance(w, 50) ? 1 : -1;
	if (chance(w, 25))
		for (int64_t i = between(w, 1, 4); i > 0; i--)
			world_event(w, between(w, 0, span_us), STEP, way * between(w, 1, 6) * limit_us(w) / 4);
}

static struct world *random_world(uint64_t seed)
{
	struct world sizes = {.dice = seed};
	bool big = seed % 250 == 7;
	int nmen = big ? MEN_MOST : (int)between(&sizes, 1, chance(&sizes, 10) ? 100 : 12);
	struct world *w = world_new(seed, nmen, big ? JOBS_MOST : (int)between(&sizes, 1, 2 * nmen));
	struct guard_limits *g = &w->watch.guard;
	w->interval_us = between(w, 1000, 25000) * 1000;
	w->watch.beat_us = chance(w, 80) ? w->interval_us : 0;
	w->watch.stuck_after.standard_us = 2 * w->interval_us + between(w, 6, 120) * S;
	w->every_us = between(w, LEAST_STEP_US, limit_us(w));
	g->off = chance(w, 5);
	g->brake_ceiling_us = between(w, 30, 900) * S;
	g->pace_per_s = big || chance(w, 20) ? 1000 : (double)between(w, 1, 100);
	g->pace_burst = between(w, 1, 150);
	w->failing_percent = chance(w, 20) ? 20 : 0;
	script(w);
	/*
	 * What happened to the database before our first look cannot be distinguished from a stale
	 * backlog.
	 */
	for (int i = 0; i < w->nevents; i++)
		if (w->events[i].kind >= DOWN)
			w->events[i].t_us += w->every_us;
	return w;
}

static void any_world(uint64_t seed)
{
	struct world *w = random_world(seed);
	int64_t last_us = 0, back_us = 0;
	world_begin(w);
	for (int i = 0; i < w->nevents; i++) {
		const struct event *e = &w->events[i];
		last_us = e->t_us + (e->kind == PAUSE ? e->arg : 0) > last_us ? e->t_us : last_us;
		last_us += e->kind == PAUSE ? e->arg : 0;
		back_us += e->kind == STEP && e->arg < 0 ? -e->arg : 0;
	}
	world_run(w, last_us);
	/* Batches that fail do not change the bound, except for the rate and another try. */
	int64_t tries = w->failing_percent ? 3 : 1;
	world_run(w, last_us + limit_us(w) + 2 * back_us + tries * (bound_us(w) + quiet_us(w)));
	EXPECT(w, w->up, "the database is up in the end");
	expect_all_gone_were_let(w);
	world_free(w);
}

/* ---- worlds of interest ---- */

static void two_of_twenty(uint64_t seed)
{
	struct world *w = world_new(seed, 20, 40);
	int64_t stop_us = between(w, 100, 200) * S, first = between(w, 0, 9);
	w->every_us = between(w, 1, 20) * S;
	world_event(w, stop_us, DIE, first);
	world_event(w, stop_us + between(w, 0, 10 * S), DIE, first + 10);
	world_begin(w);
	world_run(w, stop_us + 300 * S);
	EXPECT(w, w->confirmed == 4 && w->brakes == 0, "two of twenty: both recovered without a brake");
	for (int i = 0; i < w->njobs; i++) {
		const struct job *j = &w->jobs[i];
		int64_t late_us = j->let_us - w->men[j->man].beat_us - limit_us(w) - w->watch.beat_us;
		EXPECT(w, j->running || late_us <= w->every_us + LEAST_STEP_US,
		       "two of twenty: within lease, one beat and one pass");
	}
	world_free(w);
}

static void all_stopped(uint64_t seed)
{
	struct world *w = world_new(seed, (int)between(&(struct world){.dice = seed}, 3, 60), 100);
	int64_t stop_us = between(w, 100, 200) * S, first_let_us = INT64_MAX;
	for (int i = 0; i < w->nmen; i++)
		world_event(w, stop_us, STALL, i);
	world_begin(w);
	world_run(w, stop_us + limit_us(w) + w->every_us + S);
	EXPECT(w, w->brakes == 1 && w->confirmed == 0, "all stopped: the brake holds");
	int64_t ceiling_us = w->braking_since_us + w->watch.guard.brake_ceiling_us;
	world_run(w, ceiling_us + w->every_us + 60 * S);
	for (int i = 0; i < w->njobs; i++)
		if (w->jobs[i].let_us && w->jobs[i].let_us < first_let_us)
			first_let_us = w->jobs[i].let_us;
	EXPECT(w, first_let_us >= ceiling_us, "all stopped: nobody is let through before the ceiling");
	EXPECT(w, w->confirmed == w->njobs, "all stopped: every job is let through behind the ceiling");
	world_free(w);
}

static void all_stopped_and_back(uint64_t seed)
{
	struct world *w = world_new(seed, (int)between(&(struct world){.dice = seed}, 3, 60), 100);
	int64_t stop_us = between(w, 100, 200) * S;
	for (int i = 0; i < w->nmen; i++) {
		world_event(w, stop_us, STALL, i);
		world_event(w, stop_us + between(w, 90, 600) * S, RETURN, i);
	}
	world_begin(w);
	/* The brake releases once less than 55 % are missing: until then none is confirmed. */
	world_run(w, stop_us + 90 * S);
	EXPECT(w, w->brakes == 1 && w->confirmed == 0,
	       "all stopped: the brake holds until they return");
	world_run(w, stop_us + 1500 * S);
	struct guard_report r;
	guard_report(w->guard, &r);
	EXPECT(w, !r.braking && text_eq(r.brake_ended, "returned"), "the brake is released on return");
	world_free(w);
}

static void database_stopped(uint64_t seed)
{
	struct world *w = world_new(seed, MEN_MOST, JOBS_MOST);
	int64_t down_us = between(w, 100, 200) * S;
	world_event(w, down_us, DOWN, 0);
	world_event(w, down_us + between(w, 61, 5000) * S, UP, 0);
	world_begin(w);
	world_run(w, w->events[1].t_us + 300 * S);
	EXPECT(w, w->absence.doubt.total > 0, "the daemon knows that it was away");
	EXPECT(w, w->confirmed == 0 && w->brakes == 0, "the database was stopped: nobody is confirmed");
	world_free(w);
}

static void stale_backlog(uint64_t seed)
{
	struct world *w = world_new(seed, 40, 2000);
	w->njobs = (int)between(w, 231, 2000);
	for (int i = 0; i < w->nmen; i++)
		world_event(w, 0, DIE, i);
	world_begin(w);
	w->next_us = 3600 * S;
	world_run(w, w->next_us + bound_us(w));
	EXPECT(w, w->brakes == 0 && w->confirmed == w->njobs, "a stale backlog: paced, never held");
	world_free(w);
}

/* ---- seeds ---- */

static uint64_t number(const char *name, uint64_t standard)
{
	const char *text = getenv(name);
	int64_t n = 0;
	return text && int_parse(text, &n) && n >= 0 ? (uint64_t)n : standard;
}

/* One in `part` of all seeds, or the requested one. */
static void for_seeds(void (*property)(uint64_t seed), uint64_t part)
{
	uint64_t one = number("DEFIB_SEED", UINT64_MAX), n = number("DEFIB_SEEDS", SEEDS) / part;
	if (one != UINT64_MAX) {
		property(one);
		return;
	}
	for (uint64_t seed = 0; seed < (n ? n : 1); seed++)
		property(seed);
}

#define PROPERTY(name, property, part)                                                             \
	static void name(void **state)                                                                 \
	{                                                                                              \
		(void)state;                                                                               \
		for_seeds(property, part);                                                                 \
	}

PROPERTY(the_guard_is_just_and_bounded_in_any_world, any_world, 1)
PROPERTY(two_of_twenty_stopped_are_recovered_within_their_lease, two_of_twenty, 10)
PROPERTY(all_stopped_are_held_and_then_let_go_by_the_ceiling, all_stopped, 10)
PROPERTY(all_stopped_that_return_let_the_brake_go, all_stopped_and_back, 10)
PROPERTY(a_stopped_database_convicts_none_of_a_thousand_workers, database_stopped, 300)
PROPERTY(a_stale_backlog_is_paced_and_never_held, stale_backlog, 50)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_guard_is_just_and_bounded_in_any_world),
		cmocka_unit_test(two_of_twenty_stopped_are_recovered_within_their_lease),
		cmocka_unit_test(all_stopped_are_held_and_then_let_go_by_the_ceiling),
		cmocka_unit_test(all_stopped_that_return_let_the_brake_go),
		cmocka_unit_test(a_stopped_database_convicts_none_of_a_thousand_workers),
		cmocka_unit_test(a_stale_backlog_is_paced_and_never_held),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
