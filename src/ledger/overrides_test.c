/* SPDX-License-Identifier: Apache-2.0 */
/* overrides_test.c: what several overrides mean for one watch. */
#include "ledger/overrides.h"

#include "base/test.h"

static const struct override words[] = {
	{.watch = "jobs", .name = "raise", .value = "2", .actor = "anna"},
	{.watch = "jobs", .name = OVERRIDE_GUARDS, .at_us = 7},
	{.watch = "mails", .name = "pause"},
	{.watch = "mails", .name = "raise", .value = "9", .actor = "carl"},
	{.watch = "pages", .name = "raise", .value = "nonsense", .actor = "carl"},
	{.watch = "*", .name = "raise", .value = "3", .actor = "bert"},
};
#define WORDS (int)(sizeof words / sizeof *words)

static void those_of_the_watch_and_those_of_all_count(void **state)
{
	(void)state;
	struct override_sum sum = override_of(words, WORDS, "jobs");
	assert_false(sum.paused);
	assert_true(sum.factor == 3); /* the highest */
	assert_string_equal(sum.raised_by, "bert");
	assert_int_equal(sum.override_us, 7);
	sum = override_of(words, WORDS, "mails");
	assert_true(sum.paused);
	assert_true(sum.factor == 9);
	assert_string_equal(sum.raised_by, "carl");
	assert_int_equal(sum.override_us, 0);
	sum = override_of(words, WORDS, "pages");
	assert_false(sum.paused);
	assert_true(sum.factor == 3);
	assert_string_equal(sum.raised_by, "bert");
}

static void without_any_nothing_changes(void **state)
{
	(void)state;
	struct override_sum sum = override_of(words, 4, "pages");
	assert_false(sum.paused);
	assert_true(sum.factor == 1);
	assert_null(sum.raised_by);
	assert_int_equal(sum.override_us, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_of_the_watch_and_those_of_all_count),
		cmocka_unit_test(without_any_nothing_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
