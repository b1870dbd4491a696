/* SPDX-License-Identifier: Apache-2.0
 * run_times_test.c: quantiles are within the error that run_times.h promises, for random data of
 * many shapes; parts add up; old counts fade; JSON keeps everything.
 */
#include "insight/run_times.h"

#include "base/mem.h"
#include "base/test.h"

#define DAY INT64_C(86400000000)
#define NOW (INT64_C(20000) * DAY)
#define ROUNDS 300
#define RUNS_MOST 3000

static uint64_t chance = 88172645463325252ULL;

static double draw(void)
{
	chance ^= chance << 13;
	chance ^= chance >> 7;
	chance ^= chance << 17;
	return (double)(chance >> 11) / (double)(UINT64_C(1) << 53);
}

/* A run time of one of several shapes, between 1 ms and 30 days. */
static int64_t draw_run(int shape, double scale)
{
	double u = draw() + 1e-9, us;
	if (shape == 0)
		us = scale * u; /* even */
	else if (shape == 1)
		us = scale / (u * u); /* a heavy tail */
	else if (shape == 2)
		us = scale * (u < 0.95 ? 1 : 40); /* two heaps */
	else
		us = scale; /* all the same */
	if (us < (double)RUN_TIMES_LEAST_US)
		us = (double)RUN_TIMES_LEAST_US;
	return us > (double)RUN_TIMES_MOST_US ? RUN_TIMES_MOST_US : (int64_t)us;
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/* The exact one, of sorted values: the smallest that `share` of them do not exceed. */
static int64_t exact(const int64_t *all, int n, double share)
{
	int at = (int)((double)n * share);
	at -= (double)at >= (double)n * share && at > 0;
	return all[at >= n ? n - 1 : at];
}

static void near_enough(const struct run_times *t, const int64_t *all, int n, double share)
{
	int64_t is = run_times_quantile(t, share), should = exact(all, n, share);
	double off = (double)(is > should ? is - should : should - is) / (double)should;
	if (off > RUN_TIMES_ERROR)
		fail_msg("p%g of %d runs is %lld, should be %lld", 100 * share, n, (long long)is,
		         (long long)should);
}

static void quantiles_are_within_the_promised_error(void **state)
{
	static const double shares[] = {0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1};
	static int64_t all[RUNS_MOST];
	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct run_times t = {0};
		int n = 1 + (int)(draw() * (RUNS_MOST - 1));
		double scale = 1000;
		for (int k = (int)(draw() * 30); k > 0; k--)
			scale *= 2;
		for (int i = 0; i < n; i++) {
			all[i] = draw_run(round % 4, scale);
			run_times_add(&t, all[i], NOW);
		}
		qsort(all, (size_t)n, sizeof *all, by_size);
		for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
			near_enough(&t, all, n, shares[i]);
		assert_true(run_times_longest(&t) == all[n - 1]);
	}
}

static void the_share_over_a_limit_is_right_but_for_one_bucket(void **state)
{
	struct run_times t = {0};
	(void)state;
	for (int i = 1; i <= 1000; i++)
		run_times_add(&t, (int64_t)i * 1000000, NOW);
	for (int limit = 50; limit < 1000; limit += 50) {
		double over = run_times_over(&t, (int64_t)limit * 1000000);
		assert_true(over > (1000 - 1.1 * limit) / 1000 - 0.01 &&
		            over < (1000 - 0.9 * limit) / 1000);
	}
	assert_true(run_times_over(&t, INT64_C(1000) * 1000000) == 0);
	assert_true(run_times_over(&t, 0) == 1);
}

static void parts_add_up_to_the_whole(void **state)
{
	struct run_times whole = {0}, parts[2] = {0};
	(void)state;
	for (int i = 0; i < 2000; i++) {
		int64_t us = draw_run(1, 1e6);
		run_times_add(&whole, us, NOW);
		run_times_add(&parts[i % 2], us, NOW);
	}
	run_times_merge(&parts[0], &parts[1]);
	assert_memory_equal(&parts[0], &whole, sizeof whole);
}

static void what_lies_outside_counts_at_the_ends(void **state)
{
	struct run_times t = {0};
	(void)state;
	run_times_add(&t, 0, NOW);
	assert_true(run_times_quantile(&t, 0.5) == RUN_TIMES_LEAST_US);
	run_times_add(&t, 100 * DAY, NOW);
	assert_true(run_times_quantile(&t, 1) >= RUN_TIMES_MOST_US);
	assert_true(run_times_longest(&t) == 100 * DAY);
}

static void an_empty_one_answers_nothing(void **state)
{
	struct run_times t = {0};
	(void)state;
	assert_true(run_times_n(&t) == 0 && run_times_quantile(&t, 0.99) == 0);
	assert_true(run_times_over(&t, 1) == 0 && run_times_longest(&t) == 0);
	run_times_fade(&t, NOW);
	assert_true(t.halved_us == 0);
}

static void old_behaviour_fades_and_new_one_shows(void **state)
{
	struct run_times t = {0};
	int64_t now = NOW;
	(void)state;
	for (int i = 0; i < 1000; i++)
		run_times_add(&t, 3600 * INT64_C(1000000), now);
	now += RUN_TIMES_HALF_LIFE_US - 1;
	run_times_fade(&t, now);
	assert_true(run_times_n(&t) == 1000);
	now += 4 * RUN_TIMES_HALF_LIFE_US + 1;
	run_times_fade(&t, now);
	assert_true(run_times_n(&t) == 1000.0 / 32);
	for (int i = 0; i < 5000; i++)
		run_times_add(&t, 1000000, now);
	assert_true(run_times_quantile(&t, 0.99) < 1100000);
	assert_true(run_times_longest(&t) == 1000000);
}

static void what_has_faded_to_nothing_is_empty(void **state)
{
	struct run_times t = {0}, empty = {0};
	(void)state;
	run_times_add(&t, 5000, NOW);
	run_times_fade(&t, NOW + 5000 * DAY);
	empty.halved_us = t.halved_us;
	assert_memory_equal(&t, &empty, sizeof t);
}

static void json_keeps_everything(void **state)
{
	struct run_times t = {0}, back;
	struct buf text = BUF_INIT;
	(void)state;
	for (int i = 0; i < 500; i++)
		run_times_add(&t, draw_run(i % 4, 1e7), NOW);
	run_times_fade(&t, NOW + 3 * RUN_TIMES_HALF_LIFE_US);
	run_times_add(&t, 77, NOW);
	buf_add(&text, "{\"cursor_us\":5,");
	run_times_json(&t, &text);
	buf_add(&text, "}");
	assert_true(run_times_read(&back, buf_text(&text)));
	assert_memory_equal(&back, &t, sizeof t);
	buf_release(&text);
}

static void what_is_no_histogram_is_refused(void **state)
{
	static const char *const wrong[] = {
		"",
		"{}",
		"[1]",
		"{\"v\":2,\"halved_us\":1,\"longest_us\":1,\"before_us\":0,\"counts\":{}}",
		"{\"v\":1,\"halved_us\":1,\"longest_us\":1,\"before_us\":0,\"counts\":{\"128\":1}}",
		"{\"v\":1,\"halved_us\":1,\"longest_us\":1,\"before_us\":0,\"counts\":{\"x\":1}}",
		"{\"v\":1,\"halved_us\":1,\"longest_us\":1,\"before_us\":0,\"counts\":{\"1\":-1}}",
		"{\"v\":1,\"halved_us\":-1,\"longest_us\":1,\"before_us\":0,\"counts\":{}}",
	};
	struct run_times t, empty = {0};
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		assert_false(run_times_read(&t, wrong[i]));
		assert_memory_equal(&t, &empty, sizeof t);
	}
	assert_false(run_times_read(&t, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_within_the_promised_error),
		cmocka_unit_test(the_share_over_a_limit_is_right_but_for_one_bucket),
		cmocka_unit_test(parts_add_up_to_the_whole),
		cmocka_unit_test(what_lies_outside_counts_at_the_ends),
		cmocka_unit_test(an_empty_one_answers_nothing),
		cmocka_unit_test(old_behaviour_fades_and_new_one_shows),
		cmocka_unit_test(what_has_faded_to_nothing_is_empty),
		cmocka_unit_test(json_keeps_everything),
		cmocka_unit_test(what_is_no_histogram_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
