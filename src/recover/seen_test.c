/* SPDX-License-Identifier: Apache-2.0
 * seen_test.c: what is remembered of values, when it begins anew, and which time does not count.
 */
#include "recover/seen.h"

#include "base/clock.h"
#include "base/test.h"
#include "recover/judge.h"

#define NOW (INT64_C(1767323045) * US_PER_S)
#define S US_PER_S

static struct watch watch_of(void)
{
	struct watch w = {.name = "w", .every_us = 60 * S};
	w.alive_at.text = "a";
	w.stuck_after = (struct threshold){.given = true, .standard_us = 3600 * S};
	w.progress.text = "p";
	w.stalled_after = (struct threshold){.given = true, .standard_us = 600 * S};
	return w;
}

static struct facts job(const char *name, const char *progress)
{
	struct facts f = {.job = name,
	                  .progress = progress,
	                  .running = true,
	                  .owner_alive = KNOWN_NOT,
	                  .owner = "w1",
	                  .now_us = NOW};
	f.has_sign[SIGN_ALIVE] = true;
	f.sign_us[SIGN_ALIVE] = NOW;
	return f;
}

/* Look at the job, remember it, and look again later with other facts: what is known then. */
struct twice {
	struct arena arena;
	struct seen_changes first, second;
	struct facts then;
};

static void look_twice(struct twice *x, const struct watch *w, struct facts before,
                       struct facts after, int64_t later_us, int64_t shift_us)
{
	struct seen_memory none = {.there = true}, m = {.there = true};
	*x = (struct twice){.arena = ARENA_INIT, .then = after};
	seen_match(w, &none, 0, &before, 1, &x->arena, &x->first);
	assert_false(before.has_sign[SIGN_PROGRESS]);
	m.all = x->first.put;
	m.n = x->first.nput;
	x->then.now_us = NOW + later_us;
	seen_match(w, &m, shift_us, &x->then, 1, &x->arena, &x->second);
}

static void one_look_measures_nothing_and_the_second_the_time_between(void **state)
{
	struct watch w = watch_of();
	struct twice x;
	(void)state;
	look_twice(&x, &w, job("1", "41 %"), job("1", "41 %"), 601 * S, 0);
	assert_int_equal(x.first.nput, 1);
	assert_int_equal(x.second.nput + x.second.ndrop, 0);
	assert_int_equal(x.second.remembered, 1);
	assert_int_equal(x.then.sign_us[SIGN_PROGRESS], NOW);
	struct judgement j = judge(&w, &x.then);
	assert_int_equal(j.verdict, VERDICT_STALLED);
	assert_int_equal(j.measured_us, 601 * S);
	assert_string_equal(j.value, "41 %");
	arena_release(&x.arena);
	look_twice(&x, &w, job("1", "41 %"), job("1", "41 %"), 600 * S, 0);
	assert_int_equal(judge(&w, &x.then).verdict, VERDICT_NONE);
	arena_release(&x.arena);
}

static void what_moved_begins_anew(void **state)
{
	struct watch w = watch_of();
	struct facts other[4];
	(void)state;
	for (int i = 0; i < 4; i++)
		other[i] = job("1", i == 0 ? "42 %" : "41 %");
	other[1].owner = "w2";
	other[2].has_attempts = true;
	other[2].attempts = 2;
	other[3].has_sign[SIGN_STARTED] = true;
	other[3].sign_us[SIGN_STARTED] = NOW + 1;
	for (int i = 0; i < 4; i++) {
		struct twice x;
		look_twice(&x, &w, job("1", "41 %"), other[i], 3600 * S, 0);
		assert_int_equal(x.second.nput, 1);
		assert_int_equal(x.second.put[0].since_us, NOW + 3600 * S);
		assert_int_equal(judge(&w, &x.then).verdict, VERDICT_NONE);
		arena_release(&x.arena);
	}
}

static void a_job_that_is_gone_or_says_nothing_is_forgotten(void **state)
{
	struct watch w = watch_of();
	struct facts gone[] = {job("2", "41 %"), job("1", NULL), job("1", "41 %")};
	(void)state;
	gone[2].running = false;
	for (int i = 0; i < 3; i++) {
		struct twice x;
		look_twice(&x, &w, job("1", "41 %"), gone[i], 3600 * S, 0);
		assert_int_equal(x.second.ndrop, 1);
		assert_string_equal(x.second.drop[0].job, "1");
		assert_int_equal(judge(&w, &x.then).verdict, VERDICT_NONE);
		arena_release(&x.arena);
	}
}

static void time_that_does_not_count_moves_the_beginning(void **state)
{
	struct watch w = watch_of();
	struct twice x;
	(void)state;
	look_twice(&x, &w, job("1", "41 %"), job("1", "41 %"), 3600 * S, 3000 * S);
	assert_int_equal(x.then.sign_us[SIGN_PROGRESS], NOW + 3000 * S);
	assert_int_equal(judge(&w, &x.then).verdict, VERDICT_NONE);
	arena_release(&x.arena);
	/* Never into the future. */
	look_twice(&x, &w, job("1", "41 %"), job("1", "41 %"), 3600 * S, 9000 * S);
	assert_int_equal(x.then.sign_us[SIGN_PROGRESS], NOW + 3600 * S);
	arena_release(&x.arena);
}

static void a_state_is_remembered_if_it_has_a_limit_and_no_column(void **state)
{
	static const char *names[] = {"cancelling"};
	static int64_t us[] = {300 * S};
	struct watch w = watch_of();
	struct facts f[] = {job("1", NULL), job("2", NULL)};
	struct seen_memory none = {.there = true};
	struct seen_changes changes;
	struct arena a = ARENA_INIT;
	(void)state;
	w.overdue_after = (struct threshold){.given = true, .standard_us = 3600 * S};
	w.overdue_after.states = (struct state_limits){1, names, names, us};
	f[0].state = "cancelling";
	f[1].state = "running";
	seen_match(&w, &none, 0, f, 2, &a, &changes);
	assert_int_equal(changes.nput, 1);
	assert_string_equal(changes.put[0].job, "1");
	assert_string_equal(changes.put[0].what, "state");
	w.state_since.text = "c";
	seen_match(&w, &none, 0, f, 2, &a, &changes);
	assert_int_equal(changes.nput, 0);
	arena_release(&a);
}

/* A look every minute may be late; longer, and nobody looked. A timer's own interval is learned. */
static void a_gap_between_looks_does_not_count(void **state)
{
	const struct watch w = watch_of();
	static const struct {
		int64_t ago_s, usual_s, uncounted_s;
	} gaps[] = {{60, 60, 0},   {150, 60, 0},   {151, 60, 151},    {3600, 60, 3600},
	            {900, 900, 0}, {1830, 900, 0}, {1831, 900, 1831}, {900, 0, 900}};
	(void)state;
	for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
		struct seen_look last = {NOW - gaps[i].ago_s * S, gaps[i].usual_s * S};
		assert_int_equal(seen_uncounted(&w, &last, NOW, NULL), gaps[i].uncounted_s * S);
	}
	assert_int_equal(seen_uncounted(&w, &(struct seen_look){0}, NOW, NULL), 0);
}

static void an_outage_between_two_looks_does_not_count(void **state)
{
	const struct watch w = watch_of();
	const struct seen_look last = {NOW - 60 * S, 60 * S};
	struct doubt d = {0};
	(void)state;
	doubt_well(&d, NOW - 50 * S);
	doubt_outage(&d, NOW - 20 * S, "session lost");
	assert_int_equal(seen_uncounted(&w, &last, NOW, &d), 30 * S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_look_measures_nothing_and_the_second_the_time_between),
		cmocka_unit_test(what_moved_begins_anew),
		cmocka_unit_test(a_job_that_is_gone_or_says_nothing_is_forgotten),
		cmocka_unit_test(time_that_does_not_count_moves_the_beginning),
		cmocka_unit_test(a_state_is_remembered_if_it_has_a_limit_and_no_column),
		cmocka_unit_test(a_gap_between_looks_does_not_count),
		cmocka_unit_test(an_outage_between_two_looks_does_not_count),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
