/* SPDX-License-Identifier: Apache-2.0 */
/* vigil_test.c: when the watcher was away, and when it only seems so. */
#include "guard/vigil.h"

#include "base/test.h"

#define S 1000000LL

/* A watcher that has read the database every second for ten seconds, up to both clocks at 10 s. */
static struct vigil at_work(void)
{
	struct vigil v = {0};
	for (int64_t s = 1; s <= 10; s++)
		vigil_read(&v, 1, 1000 * S + s * S, s * S);
	return v;
}

static void assert_away(const struct vigil *v, const char *cause)
{
	assert_int_equal(v->doubt.n, 1);
	assert_string_equal(v->doubt.outages[0].cause, cause);
	assert_int_equal(v->doubt.outages[0].begin_us, 1010 * S);
}

static void steady_reading_is_no_outage(void **state)
{
	(void)state;
	struct vigil v = at_work();
	assert_int_equal(v.doubt.n, 0);
	assert_int_equal(v.doubt.well_us, 1010 * S);
}

static void first_reading_is_no_outage(void **state)
{
	(void)state;
	struct vigil v = {0};
	vigil_read(&v, 1, 1000 * S, 1 * S);
	assert_int_equal(v.doubt.n, 0);
}

/* A database that was down when we came: its workers could not beat either. */
static void first_reading_after_failures_ends_an_outage(void **state)
{
	(void)state;
	struct vigil v = {0};
	vigil_lost(&v, "cannot query the database");
	vigil_read(&v, 1, 1000 * S, 1 * S);
	assert_int_equal(v.doubt.n, 1);
	assert_int_equal(v.doubt.outages[0].begin_us, 0);
	assert_int_equal(v.doubt.outages[0].end_us, 1000 * S);
}

static void
a_server_that_was_started_a_moment_ago_excuses_until_its_workers_can_be_heard(void **state)
{
	(void)state;
	struct vigil v = {0};
	vigil_server_started(&v, 990 * S);
	vigil_read(&v, 1, 1000 * S, 1 * S);
	assert_true(doubt_excuses(&v.doubt, 500 * S, 60 * S, 30 * S, 1000 * S, NULL, NULL));
	assert_false(doubt_excuses(&v.doubt, 500 * S, 60 * S, 30 * S, 1021 * S, NULL, NULL));
}

static void another_session_means_that_we_were_away(void **state)
{
	(void)state;
	struct vigil v = at_work();
	vigil_read(&v, 2, 1011 * S, 11 * S);
	assert_away(&v, "the session was lost");
}

static void a_gap_in_our_own_ticks_means_that_we_were_away(void **state)
{
	(void)state;
	struct vigil v = at_work();
	vigil_read(&v, 1, 1040 * S, 40 * S);
	assert_away(&v, "this process was stopped or suspended");
	assert_int_equal(v.doubt.outages[0].end_us, 1040 * S);
}

/* A watch that is scanned every quarter of an hour is not away in between: the loop ticks. */
static void long_intervals_with_ticks_are_no_outage(void **state)
{
	(void)state;
	struct vigil v = at_work();
	for (int64_t s = 11; s <= 900; s++)
		vigil_tick(&v, s * S);
	vigil_read(&v, 1, 1901 * S, 901 * S);
	assert_int_equal(v.doubt.n, 0);
}

static void a_database_clock_that_jumps_means_that_we_were_away(void **state)
{
	(void)state;
	struct vigil v = at_work();
	vigil_read(&v, 1, 1011 * S + 600 * S, 11 * S);
	assert_away(&v, "the database's clock jumped");
}

static void a_database_clock_that_jumps_back_does_too(void **state)
{
	(void)state;
	struct vigil v = at_work();
	vigil_read(&v, 1, 1011 * S - 600 * S, 11 * S);
	assert_int_equal(v.doubt.total, 1);
}

static void a_failed_call_ends_with_the_next_reading(void **state)
{
	(void)state;
	struct vigil v = at_work();
	vigil_lost(&v, "cannot query the database");
	vigil_read(&v, 1, 1012 * S, 12 * S);
	assert_away(&v, "cannot query the database");
	vigil_read(&v, 1, 1013 * S, 13 * S);
	assert_int_equal(v.doubt.n, 1);
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
		cmocka_unit_test(a_failed_call_ends_with_the_next_reading),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
