/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fail.h"

#include "base/test.h"

static void fail_returns_its_code_and_keeps_the_text(void **state)
{
	(void)state;
	struct failure f = {0};
	assert_int_equal(fail(&f, DEFIB_TIMEOUT, "after %d ms", 5), DEFIB_TIMEOUT);
	assert_int_equal(f.code, DEFIB_TIMEOUT);
	assert_string_equal(f.what, "after 5 ms");
}

static void fail_without_a_struct_still_returns_its_code(void **state)
{
	(void)state;
	assert_int_equal(fail(NULL, DEFIB_IO, "gone"), DEFIB_IO);
}

static void fail_may_quote_the_text_it_replaces(void **state)
{
	(void)state;
	struct failure f = {0};
	(void)fail(&f, DEFIB_IO, "disk");
	(void)fail(&f, DEFIB_CONFIG, "reading: %s", f.what);
	assert_string_equal(f.what, "reading: disk");
}

static void fail_forgets_the_advice_of_an_older_failure(void **state)
{
	(void)state;
	struct failure f = {0};
	(void)fail(&f, DEFIB_IO, "disk");
	fail_next(&f, "buy one");
	(void)fail(&f, DEFIB_CONFIG, "key");
	assert_string_equal(f.next, "");
}

static void prefix_goes_in_front_and_the_end_is_cut(void **state)
{
	(void)state;
	struct failure f = {0};
	(void)fail(&f, DEFIB_IO, "%01000d", 7);
	fail_prefix(&f, "watch %s", "pages");
	assert_memory_equal(f.what, "watch pages: 000", 16);
	assert_int_equal(strlen(f.what), sizeof(f.what) - 1);
}

static void every_error_has_a_name_and_a_text(void **state)
{
	(void)state;
	assert_string_equal(defib_err_name(DEFIB_OK), "OK");
	assert_string_equal(defib_err_name(DEFIB_DATABASE), "DATABASE");
	assert_string_equal(defib_err_text(DEFIB_NOT_FOUND), "not found");
	assert_string_equal(defib_err_name((defib_err)999), "?");
	assert_string_equal(defib_err_name((defib_err)-1), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fail_returns_its_code_and_keeps_the_text),
		cmocka_unit_test(fail_without_a_struct_still_returns_its_code),
		cmocka_unit_test(fail_may_quote_the_text_it_replaces),
		cmocka_unit_test(fail_forgets_the_advice_of_an_older_failure),
		cmocka_unit_test(prefix_goes_in_front_and_the_end_is_cut),
		cmocka_unit_test(every_error_has_a_name_and_a_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
