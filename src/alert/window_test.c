/* SPDX-License-Identifier: Apache-2.0 */
/* window_test.c: sums and minimums over a span, in any order of the numbers. */
#include "alert/rules.h"

#include "base/test.h"

#define S INT64_C(1000000)
#define HOUR (3600 * S)
#define T0 (1000000 * S)

static struct window an_hour(bool least)
{
	struct window w = {0};
	window_span(&w, HOUR, least);
	return w;
}

static void what_came_within_the_span_is_summed(void **state)
{
	struct window w = an_hour(false);
	(void)state;
	window_add(&w, T0, 3);
	window_add(&w, T0 + HOUR / 2, 4);
	assert_float_equal(window_sum(&w, T0 + HOUR / 2), 7, 0);
}

static void what_is_older_drops_out(void **state)
{
	struct window w = an_hour(false);
	(void)state;
	window_add(&w, T0, 3);
	window_add(&w, T0 + HOUR / 2, 4);
	assert_float_equal(window_sum(&w, T0 + HOUR + 60 * S), 4, 0);
	assert_float_equal(window_sum(&w, T0 + 3 * HOUR), 0, 0);
}

static void what_comes_late_counts_where_it_belongs(void **state)
{
	struct window w = an_hour(false);
	(void)state;
	window_add(&w, T0 + HOUR / 2, 1);
	window_add(&w, T0, 2);
	window_add(&w, T0 - 2 * HOUR, 4);
	assert_float_equal(window_sum(&w, T0 + HOUR / 2), 3, 0);
}

static void the_least_is_of_the_span_only(void **state)
{
	struct window w = an_hour(true);
	double least = 0;
	(void)state;
	assert_false(window_least(&w, T0, &least));
	window_add(&w, T0, 3);
	window_add(&w, T0, 9);
	window_add(&w, T0 + HOUR / 2, 8);
	assert_true(window_least(&w, T0 + HOUR / 2, &least));
	assert_float_equal(least, 3, 0);
	assert_true(window_least(&w, T0 + HOUR + 120 * S, &least));
	assert_float_equal(least, 8, 0);
}

static void it_is_full_once_the_span_is_behind_it(void **state)
{
	struct window w = an_hour(false);
	(void)state;
	assert_false(window_full(&w, T0));
	window_add(&w, T0, 1);
	assert_false(window_full(&w, T0 + HOUR - S));
	assert_true(window_full(&w, T0 + HOUR));
}

static void another_span_begins_anew(void **state)
{
	struct window w = an_hour(false);
	(void)state;
	window_add(&w, T0, 3);
	window_span(&w, HOUR, false);
	assert_float_equal(window_sum(&w, T0), 3, 0);
	window_span(&w, 2 * HOUR, false);
	assert_float_equal(window_sum(&w, T0), 0, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_came_within_the_span_is_summed),
		cmocka_unit_test(what_is_older_drops_out),
		cmocka_unit_test(what_comes_late_counts_where_it_belongs),
		cmocka_unit_test(the_least_is_of_the_span_only),
		cmocka_unit_test(it_is_full_once_the_span_is_behind_it),
		cmocka_unit_test(another_span_begins_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
