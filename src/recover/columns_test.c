/* SPDX-License-Identifier: Apache-2.0 */
/* columns_test.c: when the columns of a row count as the same. */
#include "base/test.h"
#include "recover/look.h"

static const struct column_set all;

#define RUNNING "t.status = 'running' AND \"Kind\" <> 'note'"

static bool same_in(const char *expected, const char *now)
{
	return columns_same_in(RUNNING, STORE_POSTGRES, expected, now);
}

static void of_those_that_both_name_the_first_that_differs_is_told(void **state)
{
	struct arena a = ARENA_INIT;
	const char *first = NULL;
	(void)state;
	assert_true(columns_same("{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":3}", &all, &a, &first));
	assert_false(columns_same("{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":3}", &all, &a, &first));
	assert_string_equal(first, "b is 3");
	assert_false(columns_same(NULL, "{}", &all, &a, NULL));
	arena_release(&a);
}

static void only_those_that_the_expression_names_speak_against_it(void **state)
{
	(void)state;
	assert_true(
		same_in("{\"status\":\"held\",\"note\":\"a\"}", "{\"status\":\"held\",\"note\":\"b\"}"));
	assert_false(same_in("{\"status\":\"held\"}", "{\"status\":\"done\"}"));
	assert_false(same_in("{\"STATUS\":\"held\"}", "{\"STATUS\":\"done\"}"));
	assert_false(same_in("{\"Kind\":1}", "{\"Kind\":2}"));
	/* Quoted, it is another column; and a word in a string is not a column. */
	assert_true(same_in("{\"kind\":1}", "{\"kind\":2}"));
	assert_true(same_in("{\"running\":1}", "{\"running\":2}"));
}

static void what_is_not_known_speaks_against_nothing(void **state)
{
	(void)state;
	assert_true(same_in(NULL, "{\"status\":\"done\"}"));
	assert_true(same_in("{\"status\":\"held\"}", NULL));
	assert_true(same_in("{\"status\":\"held\"}", "{\"other\":1}"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_those_that_both_name_the_first_that_differs_is_told),
		cmocka_unit_test(only_those_that_the_expression_names_speak_against_it),
		cmocka_unit_test(what_is_not_known_speaks_against_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
