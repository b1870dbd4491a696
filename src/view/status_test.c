/* SPDX-License-Identifier: Apache-2.0 */
/* status_test.c: the state of a watch is the worst of what is known of it. */
#include "view/status.h"

#include "base/test.h"

static const char *stands(const char *info, struct watch_status_facts f)
{
	json_t *root = info ? json_loads(info, 0, NULL) : NULL;
	f.info = root;
	const char *name = watch_status_names[watch_status_judge(&f)];
	json_decref(root);
	return name;
}
#define STANDS(info, ...) stands(info, (struct watch_status_facts){__VA_ARGS__})

static void one_of_which_nothing_bad_is_known_is_well(void **state)
{
	(void)state;
	assert_string_equal(STANDS("{\"found\":5,\"left_stuck\":0}", .leads = true), "well");
	assert_string_equal(STANDS(NULL, .leads = true), "well");
}

static void one_whose_alerts_fire_is_not_well(void **state)
{
	(void)state;
	assert_string_equal(STANDS("{}", .leads = true, .firing = 1), "alerting");
	assert_string_equal(STANDS("{}", .leads = true, .firing = 1, .paused = true), "alerting");
}

static void stuck_jobs_that_nothing_recovers_are_not_well(void **state)
{
	(void)state;
	assert_string_equal(STANDS("{\"left_stuck\":4800}", .leads = true), "stuck");
}

static void doubt_is_not_called_well(void **state)
{
	(void)state;
	assert_string_equal(STANDS("{\"doubting\":true}", .leads = true), "doubt");
}

static void the_worst_comes_first(void **state)
{
	static const char all[] = "{\"guarded\":{\"total\":3},\"left_stuck\":1,\"doubting\":true}";
	(void)state;
	assert_string_equal(STANDS(all, .silent = true, .failed = true, .firing = 2), "no_leader");
	assert_string_equal(STANDS(all, .leads = true, .silent = true, .failed = true, .firing = 2),
	                    "silent");
	assert_string_equal(STANDS(all, .leads = true, .failed = true, .firing = 2), "failed");
	assert_string_equal(STANDS(all, .leads = true, .firing = 2), "held");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_of_which_nothing_bad_is_known_is_well),
		cmocka_unit_test(one_whose_alerts_fire_is_not_well),
		cmocka_unit_test(stuck_jobs_that_nothing_recovers_are_not_well),
		cmocka_unit_test(doubt_is_not_called_well),
		cmocka_unit_test(the_worst_comes_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
