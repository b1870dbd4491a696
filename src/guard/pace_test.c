/* SPDX-License-Identifier: Apache-2.0 */
/* pace_test.c: how many may pass at once, how the rate changes, and that it never stops. */
#include "guard/pace.h"

#include "base/clock.h"
#include "base/test.h"

#define S US_PER_S

static struct pace fresh(double per_s, int64_t burst)
{
	struct pace p;
	pace_init(&p, &(struct pace_rules){.per_s = per_s, .burst = burst});
	return p;
}

static void the_bucket_is_full_at_the_start(void **state)
{
	struct pace p = fresh(50, 100);
	(void)state;
	assert_int_equal(pace_take(&p, 30, 7 * S), 30);
	assert_int_equal(pace_take(&p, 100, 7 * S), 70);
	assert_int_equal(pace_take(&p, 1, 7 * S), 0);
}

static void tokens_come_back_at_the_rate(void **state)
{
	struct pace p = fresh(50, 100);
	(void)state;
	assert_int_equal(pace_take(&p, 100, 0), 100);
	assert_int_equal(pace_take(&p, 100, S / 50 - 1), 0);
	assert_int_equal(pace_take(&p, 100, S / 50), 1);
	assert_int_equal(pace_take(&p, 100, S), 49);
}

static void the_bucket_never_holds_more_than_the_burst(void **state)
{
	struct pace p = fresh(50, 100);
	(void)state;
	assert_int_equal(pace_take(&p, 10, 0), 10);
	assert_int_equal(pace_take(&p, 1000, 3600 * S), 100);
	pace_give_back(&p, 1000);
	assert_int_equal(pace_take(&p, 1000, 3600 * S), 100);
}

static void who_looks_once_a_second_gets_the_whole_rate(void **state)
{
	struct pace p = fresh(50, 10);
	int64_t given = 0;
	(void)state;
	assert_int_equal(pace_take(&p, 1000, 0), 10);
	for (int64_t s = 1; s <= 10; s++)
		given += pace_take(&p, 1000, s * S);
	assert_int_equal(given, 500);
}

static void what_was_given_back_can_be_taken_again(void **state)
{
	struct pace p = fresh(50, 100);
	(void)state;
	assert_int_equal(pace_take(&p, 100, 0), 100);
	pace_give_back(&p, 3);
	assert_int_equal(pace_take(&p, 100, 0), 3);
}

static void no_rate_means_no_limit(void **state)
{
	struct pace p = fresh(0, 0);
	(void)state;
	assert_int_equal(pace_take(&p, 1000000, 0), 1000000);
	assert_int_equal(pace_eta_us(&p, 1000000, 0), 0);
}

static void a_burst_that_is_not_said_is_a_hundred(void **state)
{
	struct pace p = fresh(50, 0);
	(void)state;
	assert_int_equal(pace_take(&p, 1000, 0), 100);
}

static void the_rate_grows_with_healthy_batches_up_to_the_most(void **state)
{
	struct pace p = fresh(50, 100);
	(void)state;
	pace_batch(&p, 100, 10000, false);
	assert_true(p.rate == 75);
	for (int i = 0; i < 50; i++)
		pace_batch(&p, 100, 10000, false);
	assert_true(p.rate == 1000); /* 20 times */
}

static void the_most_is_never_below_the_first_rate(void **state)
{
	struct pace p;
	(void)state;
	pace_init(&p, &(struct pace_rules){.per_s = 50, .most_per_s = 10});
	pace_batch(&p, 100, 0, false);
	assert_true(p.rate == 50);
}

static void a_failed_batch_halves_the_rate(void **state)
{
	struct pace p = fresh(50, 100);
	(void)state;
	pace_batch(&p, 100, 0, true);
	assert_true(p.rate == 25);
}

static void a_slow_batch_halves_the_rate(void **state)
{
	struct pace p = fresh(50, 100);
	(void)state;
	pace_batch(&p, 100, 200000, false);
	assert_true(p.rate == 75);
	pace_batch(&p, 100, 200001, false);
	assert_true(p.rate == 37.5);
}

static void a_small_batch_is_not_slow_for_its_commit(void **state)
{
	struct pace p = fresh(50, 100);
	(void)state;
	pace_batch(&p, 1, 40000, false);
	assert_true(p.rate == 75);
	pace_batch(&p, 1, 60000, false);
	assert_true(p.rate == 37.5);
}

static void an_empty_batch_says_nothing(void **state)
{
	struct pace p = fresh(50, 100);
	(void)state;
	pace_batch(&p, 0, 0, false);
	pace_batch(&p, 0, S, false);
	assert_true(p.rate == 50);
}

static void the_rate_never_falls_below_its_floor(void **state)
{
	static const double floors[][2] = {{50, 5}, {5, 1}, {0.5, 0.5}};
	(void)state;
	for (size_t i = 0; i < sizeof floors / sizeof floors[0]; i++) {
		struct pace p = fresh(floors[i][0], 100);
		for (int k = 0; k < 100; k++)
			pace_batch(&p, 100, 3600 * S, true);
		assert_true(p.rate == floors[i][1]);
	}
}

static void all_go_in_bounded_time_however_badly_it_goes(void **state)
{
	struct pace p = fresh(50, 100);
	int64_t now_us = 0, left = 1000, passes = 0;
	(void)state;
	for (; left > 0; now_us += S, passes++) {
		int64_t n = pace_take(&p, left, now_us);
		left -= n;
		pace_batch(&p, n, 3600 * S, true);
	}
	assert_true(passes <= (1000 - 100) / 5 + 2);
}

static void the_eta_is_when_they_can_go(void **state)
{
	struct pace p = fresh(7, 10);
	(void)state;
	assert_int_equal(pace_eta_us(&p, 10, 0), 0);
	assert_int_equal(pace_take(&p, 10, 0), 10);
	for (int64_t n = 1; n <= 10; n++) {
		struct pace later = p;
		int64_t eta_us = pace_eta_us(&p, n, 0);
		assert_int_equal(pace_take(&later, n, eta_us), n);
		later = p;
		assert_true(pace_take(&later, n, eta_us - 10) < n);
	}
	/* More than the bucket holds: at the rate, for a caller that empties it as it fills. */
	assert_in_range(pace_eta_us(&p, 700, 0), 100 * S, 100 * S + 1);
}

static void a_paused_one_gives_nothing_until_it_is_resumed(void **state)
{
	struct pace p = fresh(50, 100);
	struct pace unlimited = fresh(0, 0);
	(void)state;
	pace_pause(&p, true);
	pace_pause(&unlimited, true);
	assert_int_equal(pace_take(&p, 1, 0), 0);
	assert_int_equal(pace_take(&unlimited, 1, 0), 0);
	assert_int_equal(pace_eta_us(&p, 1, 0), -1);
	pace_pause(&p, false);
	assert_int_equal(pace_take(&p, 1, 0), 1);
}

static void a_clock_that_goes_back_adds_nothing(void **state)
{
	struct pace p = fresh(50, 100);
	(void)state;
	assert_int_equal(pace_take(&p, 100, 10 * S), 100);
	assert_int_equal(pace_take(&p, 100, 9 * S), 0);
	assert_int_equal(pace_take(&p, 100, 10 * S), 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bucket_is_full_at_the_start),
		cmocka_unit_test(tokens_come_back_at_the_rate),
		cmocka_unit_test(the_bucket_never_holds_more_than_the_burst),
		cmocka_unit_test(who_looks_once_a_second_gets_the_whole_rate),
		cmocka_unit_test(what_was_given_back_can_be_taken_again),
		cmocka_unit_test(no_rate_means_no_limit),
		cmocka_unit_test(a_burst_that_is_not_said_is_a_hundred),
		cmocka_unit_test(the_rate_grows_with_healthy_batches_up_to_the_most),
		cmocka_unit_test(the_most_is_never_below_the_first_rate),
		cmocka_unit_test(a_failed_batch_halves_the_rate),
		cmocka_unit_test(a_slow_batch_halves_the_rate),
		cmocka_unit_test(a_small_batch_is_not_slow_for_its_commit),
		cmocka_unit_test(an_empty_batch_says_nothing),
		cmocka_unit_test(the_rate_never_falls_below_its_floor),
		cmocka_unit_test(all_go_in_bounded_time_however_badly_it_goes),
		cmocka_unit_test(the_eta_is_when_they_can_go),
		cmocka_unit_test(a_paused_one_gives_nothing_until_it_is_resumed),
		cmocka_unit_test(a_clock_that_goes_back_adds_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
