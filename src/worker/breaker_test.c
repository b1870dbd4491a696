/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/claim_limits.h"

#include "base/test.h"

static const struct breaker_rules rules = {.failures = 5, .pause_ms = 1000, .pause_max_ms = 30000};
#define LATEST 0.999999 /* the chance that makes the pause longest */

static struct breaker closed(void)
{
	struct breaker b;
	breaker_init(&b, &rules);
	return b;
}

static struct breaker opened(double chance, int64_t now_ms)
{
	struct breaker b = closed();
	for (int i = 0; i < 5; i++) {
		assert_true(breaker_allow(&b, now_ms));
		breaker_report(&b, false, chance, now_ms);
	}
	assert_int_equal(b.state, BREAKER_OPEN);
	return b;
}

static void failures_in_a_row_open_it(void **state)
{
	(void)state;
	struct breaker b = opened(LATEST, 100);
	assert_false(breaker_allow(&b, 101));
	assert_int_equal(b.opened, 1);
	assert_string_equal(breaker_names[b.state], "open");
}

static void a_success_between_failures_keeps_it_closed(void **state)
{
	(void)state;
	struct breaker b = closed();
	for (int i = 0; i < 100; i++) {
		breaker_report(&b, i % 5 == 4, 0.5, i);
		assert_true(breaker_allow(&b, i));
	}
}

static void exactly_one_caller_gets_the_probe(void **state)
{
	(void)state;
	struct breaker b = opened(LATEST, 100);
	assert_false(breaker_allow(&b, 1099));
	assert_true(breaker_allow(&b, 1100));
	assert_int_equal(b.state, BREAKER_PROBING);
	assert_false(breaker_allow(&b, 1100));
	assert_false(breaker_allow(&b, 999999));
	assert_true(breaker_wait_ms(&b, 999999) > 0);
}

static void a_probe_that_succeeds_closes_it(void **state)
{
	(void)state;
	struct breaker b = opened(LATEST, 100);
	assert_true(breaker_allow(&b, 2000));
	breaker_report(&b, true, 0, 2001);
	assert_int_equal(b.state, BREAKER_CLOSED);
	assert_int_equal(breaker_wait_ms(&b, 2001), 0);
	for (int i = 0; i < 4; i++) /* and the count starts again */
		breaker_report(&b, false, 0, 2002);
	assert_true(breaker_allow(&b, 2002));
}

static void failed_probes_double_the_pause_up_to_the_most(void **state)
{
	(void)state;
	static const int64_t pauses[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
	struct breaker b = opened(LATEST, 100);
	int64_t now = 100;
	for (size_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
		assert_in_range(breaker_wait_ms(&b, now), pauses[i] - 1, pauses[i]);
		now += breaker_wait_ms(&b, now);
		assert_int_equal(breaker_wait_ms(&b, now), 0);
		assert_true(breaker_allow(&b, now));
		breaker_report(&b, false, LATEST, now);
	}
	assert_int_equal(b.opened, 1); /* one outage, however long */
}

static void a_probe_that_was_not_made_goes_to_the_next(void **state)
{
	(void)state;
	struct breaker b = opened(0.5, 100);
	assert_true(breaker_allow(&b, 2000));
	breaker_return(&b);
	assert_int_equal(breaker_wait_ms(&b, 2000), 0);
	assert_true(breaker_allow(&b, 2000));
	assert_false(breaker_allow(&b, 2000));
}

static void chance_spreads_the_probes_over_the_whole_pause(void **state)
{
	(void)state;
	struct breaker soon = opened(0, 100), half = opened(0.5, 100), late = opened(LATEST, 100);
	assert_int_equal(breaker_wait_ms(&soon, 100), 1);
	assert_int_equal(breaker_wait_ms(&half, 100), 501);
	assert_in_range(breaker_wait_ms(&late, 100), 1000, 1001);
}

static void late_reports_of_old_calls_do_no_harm(void **state)
{
	(void)state;
	struct breaker b = opened(0.5, 100);
	breaker_report(&b, false, LATEST, 400);
	assert_int_equal(breaker_wait_ms(&b, 400), 201);
	breaker_report(&b, true, 0, 401);
	assert_int_equal(b.state, BREAKER_CLOSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failures_in_a_row_open_it),
		cmocka_unit_test(a_success_between_failures_keeps_it_closed),
		cmocka_unit_test(exactly_one_caller_gets_the_probe),
		cmocka_unit_test(a_probe_that_succeeds_closes_it),
		cmocka_unit_test(failed_probes_double_the_pause_up_to_the_most),
		cmocka_unit_test(a_probe_that_was_not_made_goes_to_the_next),
		cmocka_unit_test(chance_spreads_the_probes_over_the_whole_pause),
		cmocka_unit_test(late_reports_of_old_calls_do_no_harm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
