/* SPDX-License-Identifier: Apache-2.0 */
/* absence_test.c: when the watcher was away, and when it only seems so. */
#include "guard/doubt.h"

#include "base/test.h"

#define S 1000000LL

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

/* A database that was down when we came: its workers could not beat either. */
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

static void a_gap_in_our_own_ticks_means_that_we_were_away(void **state)
{
	(void)state;
	struct absence v = at_work();
	absence_read(&v, 1, 1040 * S, 40 * S);
	assert_away(&v, "this process was stopped or suspended");
	assert_int_equal(v.doubt.outages[0].end_us, 1040 * S);
}

/* A watch that is scanned every quarter of an hour is not away in between: the loop ticks. */
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
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(steady_reading_is_no_outage),
		cmocka_unit_test(first_reading_is_no_outage),
		cmocka_unit_test(first_reading_after_failures_ends_an_outage),
		cmocka_unit_test(
			a_server_that_was_started_a_moment_ago_excuses_until_its_workers_can_be_heard),
		cmocka_unit_test(another_session_means_that_we_were_away),
		cmocka_unit_test(a_gap_in_our_own_ticks_means_that_we_were_away),
		cmocka_unit_test(long_intervals_with_ticks_are_no_outage),
		cmocka_unit_test(a_database_clock_that_jumps_means_that_we_were_away),
		cmocka_unit_test(a_database_clock_that_jumps_back_does_too),
		cmocka_unit_test(only_clocks_that_go_apart_by_more_than_five_seconds_have_jumped),
		cmocka_unit_test(a_loop_that_goes_on_two_seconds_late_was_stopped),
		cmocka_unit_test(a_failed_call_ends_with_the_next_reading),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
