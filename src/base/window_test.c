/* SPDX-License-Identifier: Apache-2.0
 * window_test.c: the size of a window follows from the time that the one before took.
 */
#include "base/window.h"

#include "base/test.h"

static void a_window_is_planned_for_half_of_the_time_that_is_left(void **state)
{
	(void)state;
	/* 10 us a row; 4,000 us are left. */
	assert_int_equal(window_next(100, 1000, 4000), 200);
	assert_int_equal(window_next(100, 1000, 2000), 100);
	assert_int_equal(window_next(100, 1000, 200), 10);
}

static void a_window_grows_step_by_step(void **state)
{
	(void)state;
	assert_int_equal(window_next(100, 1, 1000000), 800);
	assert_int_equal(window_next(100, 0, 1000000), 800);
	assert_int_equal(window_next(1000000, 1, 1000000), 1000000);
	assert_int_equal(window_next(INT64_MAX, 1, INT64_MAX), 1000000);
}

static void a_window_has_at_least_one_row(void **state)
{
	(void)state;
	assert_int_equal(window_next(1, 1000000, 1), 1);
	assert_int_equal(window_next(256, 1000000, 0), 1);
	assert_int_equal(window_next(256, 1000000, -5), 1);
	assert_int_equal(window_smaller(1), 1);
	assert_int_equal(window_smaller(7), 1);
}

/* Whatever a row costs, a window that does not fit becomes one row after a few attempts. */
static void a_window_that_does_not_fit_soon_has_one_row(void **state)
{
	int tries = 0;
	(void)state;
	for (int64_t rows = WINDOW_FIRST; rows > 1; rows = window_smaller(rows))
		tries++;
	assert_in_range(tries, 1, 3);
}

/* On machines of any speed: time is what a row costs, times the rows. */
static void windows_fill_the_time_and_never_exceed_it_on_any_machine(void **state)
{
	const int64_t budget_us = 250000;
	(void)state;
	for (int64_t row_us = 1; row_us <= budget_us / WINDOW_FIRST / 2; row_us *= 3) {
		int64_t rows = WINDOW_FIRST, used_us = 0;
		for (int windows = 0; used_us < budget_us * 3 / 4; windows++) {
			assert_true(windows < 20);
			used_us += rows * row_us;
			rows = window_next(rows, rows * row_us, budget_us - used_us);
		}
		assert_true(used_us <= budget_us);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_window_is_planned_for_half_of_the_time_that_is_left),
		cmocka_unit_test(a_window_grows_step_by_step),
		cmocka_unit_test(a_window_has_at_least_one_row),
		cmocka_unit_test(a_window_that_does_not_fit_soon_has_one_row),
		cmocka_unit_test(windows_fill_the_time_and_never_exceed_it_on_any_machine),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
