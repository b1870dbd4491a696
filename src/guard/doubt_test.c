/* SPDX-License-Identifier: Apache-2.0
 * doubt_test.c: which silence an outage excuses and until when, to the microsecond; and that no
 * number of outages excuses forever.
 */
#include "guard/doubt.h"

#include "base/clock.h"
#include "base/test.h"

#include <string.h>

#define S US_PER_S
#define LIMIT (60 * S)
#define QUIET (20 * S)
#define T0 (INT64_C(1767323045) * S) /* times below are seconds after it */

static int64_t at(int64_t s)
{
	return T0 + s * S;
}

static void away(struct doubt *d, int64_t from_s, int64_t to_s)
{
	doubt_well(d, at(from_s));
	doubt_outage(d, at(to_s), "session lost");
}

static bool excused(const struct doubt *d, int64_t alive_s, int64_t now_us)
{
	return doubt_excuses(d, at(alive_s), LIMIT, QUIET, now_us, NULL, NULL);
}

static void nothing_is_excused_while_all_is_well(void **state)
{
	struct doubt d = {0};
	(void)state;
	doubt_well(&d, at(0));
	doubt_well(&d, at(100));
	assert_false(excused(&d, 0, at(100)));
}

static void a_limit_that_ends_in_the_outage_waits_for_quiet_to_be_over(void **state)
{
	struct doubt d = {0};
	int64_t until_us = 0;
	const char *cause = NULL;
	(void)state;
	away(&d, 30, 200);
	assert_true(doubt_excuses(&d, at(10), LIMIT, QUIET, at(200), &until_us, &cause));
	assert_int_equal(until_us, at(220));
	assert_string_equal(cause, "session lost");
	assert_true(excused(&d, 10, at(220) - 1));
	assert_false(excused(&d, 10, at(220)));
}

static void silence_that_began_in_the_outage_is_excused(void **state)
{
	struct doubt d = {0};
	(void)state;
	away(&d, 30, 200);
	assert_true(excused(&d, 100, at(201)));
	assert_false(excused(&d, 100, at(220)));
}

static void what_was_past_its_limit_before_the_outage_is_still_stuck(void **state)
{
	struct doubt d = {0};
	(void)state;
	away(&d, 100, 200);
	assert_false(excused(&d, 40, at(200))); /* 40 + 60 = 100: past when it began */
	assert_true(excused(&d, 41, at(200)));
}

static void an_outage_long_before_the_limit_changes_nothing(void **state)
{
	struct doubt d = {0};
	(void)state;
	away(&d, 10, 20);
	assert_false(excused(&d, 0, at(60) + 1));
	assert_false(excused(&d, -20, at(40) + 1)); /* quiet and limit end together */
	assert_true(excused(&d, -21, at(39) + 1));
}

static void a_limit_shorter_than_quiet_is_waited_for_instead(void **state)
{
	struct doubt d = {0};
	(void)state;
	away(&d, 0, 100);
	assert_true(doubt_excuses(&d, at(-2), 5 * S, QUIET, at(105) - 1, NULL, NULL));
	assert_false(doubt_excuses(&d, at(-2), 5 * S, QUIET, at(105), NULL, NULL));
}

static void the_limit_itself_is_never_cut_short(void **state)
{
	struct doubt d = {0};
	int64_t until_us = 0;
	(void)state;
	away(&d, 0, 10);
	assert_true(doubt_excuses(&d, at(-31), LIMIT, QUIET, at(11), &until_us, NULL));
	assert_int_equal(until_us, at(30));
	assert_true(doubt_excuses(&d, at(-25), LIMIT + 14 * S, 40 * S, at(11), &until_us, NULL));
	assert_int_equal(until_us, at(50));
	assert_true(doubt_excuses(&d, at(-5), LIMIT, LIMIT, at(11), &until_us, NULL));
	assert_int_equal(until_us, at(70));
}

static void clean_time_adds_up_over_later_outages(void **state)
{
	struct doubt d = {0};
	(void)state;
	away(&d, 50, 100); /* clean: 100..115, 150..155 */
	away(&d, 115, 150);
	assert_true(excused(&d, 0, at(155) - 1));
	assert_false(excused(&d, 0, at(155)));
	assert_int_equal(doubt_clean_us(&d, at(100), at(155)), 20 * S);
	assert_int_equal(doubt_clean_us(&d, at(60), at(70)), 0);
	assert_int_equal(doubt_clean_us(&d, at(90), at(120)), 15 * S);
}

static void an_early_outage_does_not_use_up_the_quiet_of_a_later_one(void **state)
{
	struct doubt d = {0};
	(void)state;
	away(&d, 1, 2); /* clean since: 53 s, but none behind the outage that hid the limit */
	away(&d, 55, 70);
	assert_true(excused(&d, 0, at(90) - 1));
	assert_false(excused(&d, 0, at(90)));
}

static void outages_without_a_well_moment_between_are_one(void **state)
{
	struct doubt d = {0};
	(void)state;
	away(&d, 50, 100);
	doubt_outage(&d, at(130), "server restarted");
	assert_int_equal(d.n, 1);
	assert_int_equal(d.total, 2);
	assert_int_equal(d.outages[0].begin_us, at(50));
	assert_int_equal(d.outages[0].end_us, at(130));
	assert_string_equal(d.outages[0].cause, "server restarted");
}

static void an_outage_before_anything_was_well_excuses_all_silence(void **state)
{
	struct doubt d = {0};
	(void)state;
	doubt_outage(&d, at(0), "no connection");
	assert_true(excused(&d, -100000, at(20) - 1));
	assert_false(excused(&d, -100000, at(20)));
}

static void an_outage_by_a_clock_set_back_excuses_all_silence(void **state)
{
	struct doubt d = {0};
	(void)state;
	away(&d, 100, 150);
	away(&d, 160, 190);
	doubt_outage(&d, at(120), "clock stepped");
	assert_int_equal(d.n, 1);
	assert_true(excused(&d, -1000, at(140) - 1));
	assert_false(excused(&d, -1000, at(140)));
}

static void a_clock_set_back_ends_outages_that_lie_ahead_of_it(void **state)
{
	struct doubt d = {0};
	(void)state;
	away(&d, 100, 150);
	away(&d, 160, 190);
	doubt_well(&d, at(120));
	assert_int_equal(d.n, 1);
	assert_int_equal(d.outages[0].begin_us, at(100));
	assert_int_equal(d.outages[0].end_us, at(120));
	assert_true(excused(&d, 50, at(140) - 1));
	assert_false(excused(&d, 50, at(140)));
	doubt_outage(&d, at(130), "clock stepped"); /* all was never well in between */
	assert_int_equal(d.n, 1);
	assert_int_equal(d.outages[0].end_us, at(130));
}

static void a_clock_set_forward_is_an_outage_of_that_length(void **state)
{
	struct doubt d = {0};
	(void)state;
	away(&d, 0, 3600);
	assert_true(excused(&d, -5, at(3620) - 1));
	assert_false(excused(&d, -5, at(3620)));
}

static void assert_ordered(const struct doubt *d)
{
	assert_in_range(d->n, 0, DOUBT_OUTAGES);
	for (int i = 0; i < d->n; i++) {
		const struct outage *o = &d->outages[i];
		assert_true(o->begin_us <= o->end_us);
		assert_true(o->clean_us >= 0 && o->clean_us <= o->end_us - o->begin_us);
		assert_true(i == 0 || o[-1].end_us <= o->begin_us);
	}
}

/*
 * A link that breaks `n` times: it works for well_us and is down for away_us. After how much clean
 * time is an owner stuck that was last alive at T0?
 */
static int64_t clean_until_stuck(int n, int64_t well_us, int64_t away_us, int64_t alive_us)
{
	struct doubt d = {0};
	int64_t now_us = T0, clean_us = 0;
	doubt_well(&d, now_us);
	for (int i = 0; i < n; i++) {
		now_us += well_us;
		bool late = now_us > alive_us + LIMIT;
		if (late && !doubt_excuses(&d, alive_us, LIMIT, QUIET, now_us, NULL, NULL))
			return clean_us;
		clean_us += late ? well_us : 0;
		doubt_well(&d, now_us);
		now_us += away_us;
		doubt_outage(&d, now_us, "session lost");
		assert_ordered(&d);
	}
	return INT64_MAX;
}

static void a_link_that_breaks_for_ever_postpones_by_one_quiet_window(void **state)
{
	(void)state;
	for (int64_t well_us = S; well_us < 30 * S; well_us += S)
		for (int64_t away_us = S; away_us < 300 * S; away_us *= 3)
			assert_true(clean_until_stuck(400, well_us, away_us, T0) <= QUIET + well_us);
}

static void more_outages_than_are_kept_postpone_by_four_windows_at_most(void **state)
{
	(void)state;
	/* Gaps so short that hundreds of outages fall within one quiet window. */
	for (int64_t well_us = 4000; well_us < S; well_us = well_us * 2 + 1)
		for (int64_t alive_s = 0; alive_s < 1000; alive_s += 333)
			assert_true(clean_until_stuck(50000, well_us, S, at(alive_s)) <= 4 * QUIET + well_us);
}

static void covering_never_takes_an_excuse_away(void **state)
{
	struct doubt d = {0};
	int64_t ends[200];
	(void)state;
	for (int i = 0; i < 200; i++) {
		away(&d, i * 10, i * 10 + 7); /* 3 s clean in 10 */
		ends[i] = at(i * 10 + 7);
		assert_ordered(&d);
		for (int k = 0; k <= i; k++) { /* whose limit ended within outage k */
			/* The outage before is near enough to matter: clean time counts from its end. */
			int64_t clean_us = (i - (k ? k - 1 : 0)) * 3 * S;
			bool kept = doubt_excuses(&d, ends[k] - LIMIT, LIMIT, QUIET, ends[i], NULL, NULL);
			assert_true(kept || clean_us >= QUIET);
		}
	}
	assert_int_equal(d.n, DOUBT_OUTAGES);
	assert_int_equal(d.total, 200);
}

/* A watcher that has read the database every second for ten seconds, up to both clocks at 10 s. */
static struct absence at_work(void)
{
	struct absence v = {0};
	for (int64_t s = 1; s <= 10; s++)
		absence_read(&v, 1, 1000 * S + s * S, s * S);
	return v;
}

static void assert_away(const struct absence *v, const char *cause)
{
	assert_int_equal(v->doubt.n, 1);
	assert_string_equal(v->doubt.outages[0].cause, cause);
	assert_int_equal(v->doubt.outages[0].begin_us, 1010 * S);
}

static void steady_reading_is_no_outage(void **state)
{
	(void)state;
	struct absence v = at_work();
	assert_int_equal(v.doubt.n, 0);
	assert_int_equal(v.doubt.well_us, 1010 * S);
}

static void first_reading_is_no_outage(void **state)
{
	(void)state;
	struct absence v = {0};
	absence_read(&v, 1, 1000 * S, 1 * S);
	assert_int_equal(v.doubt.n, 0);
}

/* The database was down when we started: its workers could not beat either. */
static void first_reading_after_failures_ends_an_outage(void **state)
{
	(void)state;
	struct absence v = {0};
	absence_begins(&v, "cannot query the database");
	absence_read(&v, 1, 1000 * S, 1 * S);
	assert_int_equal(v.doubt.n, 1);
	assert_int_equal(v.doubt.outages[0].begin_us, 0);
	assert_int_equal(v.doubt.outages[0].end_us, 1000 * S);
}

static void
a_server_that_was_started_a_moment_ago_excuses_until_its_workers_can_be_heard(void **state)
{
	(void)state;
	struct absence v = {0};
	absence_server_started(&v, 990 * S);
	absence_read(&v, 1, 1000 * S, 1 * S);
	assert_true(doubt_excuses(&v.doubt, 500 * S, 60 * S, 30 * S, 1000 * S, NULL, NULL));
	assert_false(doubt_excuses(&v.doubt, 500 * S, 60 * S, 30 * S, 1021 * S, NULL, NULL));
}

static void another_session_means_that_we_were_away(void **state)
{
	(void)state;
	struct absence v = at_work();
	absence_read(&v, 2, 1011 * S, 11 * S);
	assert_away(&v, "the session was lost");
}

/* The row's last heartbeats may be among what the new primary does not have. */
static void a_failover_excuses_also_what_was_silent_before(void **state)
{
	(void)state;
	struct absence v = at_work();
	absence_state(&v, 0);
	absence_read(&v, 1, 1011 * S, 11 * S);
	absence_state(&v, 0);
	absence_read(&v, 2, 1012 * S, 12 * S);
	assert_false(doubt_excuses(&v.doubt, 900 * S, 60 * S, 30 * S, 1012 * S, NULL, NULL));
	absence_state(&v, 1);
	absence_read(&v, 3, 1013 * S, 13 * S);
	assert_true(doubt_excuses(&v.doubt, 900 * S, 60 * S, 30 * S, 1042 * S, NULL, NULL));
	assert_false(doubt_excuses(&v.doubt, 900 * S, 60 * S, 30 * S, 1044 * S, NULL, NULL));
	assert_string_equal(v.doubt.outages[0].cause,
	                    "the server failed over, or its file was replaced");
	absence_state(&v, 1);
	absence_read(&v, 3, 1014 * S, 14 * S);
	assert_int_equal(v.doubt.total, 2);
}

static void a_gap_in_our_own_ticks_means_that_we_were_away(void **state)
{
	(void)state;
	struct absence v = at_work();
	absence_read(&v, 1, 1040 * S, 40 * S);
	assert_away(&v, "this process was stopped or suspended");
	assert_int_equal(v.doubt.outages[0].end_us, 1040 * S);
}

/* A watch that is scanned every quarter of an hour is not absent in between: the loop ticks. */
static void long_intervals_with_ticks_are_no_outage(void **state)
{
	(void)state;
	struct absence v = at_work();
	for (int64_t s = 11; s <= 900; s++)
		absence_tick(&v, s * S);
	absence_read(&v, 1, 1901 * S, 901 * S);
	assert_int_equal(v.doubt.n, 0);
}

static void a_database_clock_that_jumps_means_that_we_were_away(void **state)
{
	(void)state;
	struct absence v = at_work();
	absence_read(&v, 1, 1011 * S + 600 * S, 11 * S);
	assert_away(&v, "the database's clock jumped");
}

static void a_database_clock_that_jumps_back_does_too(void **state)
{
	(void)state;
	struct absence v = at_work();
	absence_read(&v, 1, 1011 * S - 600 * S, 11 * S);
	assert_int_equal(v.doubt.total, 1);
}

static void a_failed_call_ends_with_the_next_reading(void **state)
{
	(void)state;
	struct absence v = at_work();
	absence_begins(&v, "cannot query the database");
	absence_read(&v, 1, 1012 * S, 12 * S);
	assert_away(&v, "cannot query the database");
	absence_read(&v, 1, 1013 * S, 13 * S);
	assert_int_equal(v.doubt.n, 1);
}

static void only_clocks_that_go_apart_by_more_than_five_seconds_have_jumped(void **state)
{
	static const struct {
		int64_t own_s, database_s, jump_s;
	} cases[] = {{1, 1, 0},   {3600, 3600, 0}, {1, 6, 0},        {1, 7, 6},
	             {10, 4, -6}, {10, 5, 0},      {60, 3660, 3600}, {60, -3540, -3600}};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct clocks last = {50 * S, 9000 * S};
		struct clocks now = {(50 + cases[i].own_s) * S, (9000 + cases[i].database_s) * S};
		assert_int_equal(absence_jump_us(&last, &now), cases[i].jump_s * S);
	}
}

static void a_loop_that_goes_on_two_seconds_late_was_stopped(void **state)
{
	(void)state;
	assert_false(absence_stopped(10 * S, 9 * S));
	assert_false(absence_stopped(10 * S, 12 * S));
	assert_true(absence_stopped(10 * S, 12 * S + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_excused_while_all_is_well),
		cmocka_unit_test(a_limit_that_ends_in_the_outage_waits_for_quiet_to_be_over),
		cmocka_unit_test(silence_that_began_in_the_outage_is_excused),
		cmocka_unit_test(what_was_past_its_limit_before_the_outage_is_still_stuck),
		cmocka_unit_test(an_outage_long_before_the_limit_changes_nothing),
		cmocka_unit_test(a_limit_shorter_than_quiet_is_waited_for_instead),
		cmocka_unit_test(the_limit_itself_is_never_cut_short),
		cmocka_unit_test(clean_time_adds_up_over_later_outages),
		cmocka_unit_test(an_early_outage_does_not_use_up_the_quiet_of_a_later_one),
		cmocka_unit_test(outages_without_a_well_moment_between_are_one),
		cmocka_unit_test(an_outage_before_anything_was_well_excuses_all_silence),
		cmocka_unit_test(an_outage_by_a_clock_set_back_excuses_all_silence),
		cmocka_unit_test(a_clock_set_back_ends_outages_that_lie_ahead_of_it),
		cmocka_unit_test(a_clock_set_forward_is_an_outage_of_that_length),
		cmocka_unit_test(a_link_that_breaks_for_ever_postpones_by_one_quiet_window),
		cmocka_unit_test(more_outages_than_are_kept_postpone_by_four_windows_at_most),
		cmocka_unit_test(covering_never_takes_an_excuse_away),
		cmocka_unit_test(steady_reading_is_no_outage),
		cmocka_unit_test(first_reading_is_no_outage),
		cmocka_unit_test(first_reading_after_failures_ends_an_outage),
		cmocka_unit_test(another_session_means_that_we_were_away),
		cmocka_unit_test(a_failover_excuses_also_what_was_silent_before),
		cmocka_unit_test(a_gap_in_our_own_ticks_means_that_we_were_away),
		cmocka_unit_test(long_intervals_with_ticks_are_no_outage),
		cmocka_unit_test(a_database_clock_that_jumps_means_that_we_were_away),
		cmocka_unit_test(a_database_clock_that_jumps_back_does_too),
		cmocka_unit_test(only_clocks_that_go_apart_by_more_than_five_seconds_have_jumped),
		cmocka_unit_test(a_loop_that_goes_on_two_seconds_late_was_stopped),
		cmocka_unit_test(a_failed_call_ends_with_the_next_reading),
		cmocka_unit_test(
			a_server_that_was_started_a_moment_ago_excuses_until_its_workers_can_be_heard),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
