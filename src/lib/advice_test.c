/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/advice.h"

#include "base/test.h"

static void each_advice_has_words(void **state)
{
	for (int i = ADVISE_NONE + 1; i < ADVISE_COUNT; i++)
		assert_true(strlen(advice_text(i)) > 0);
	assert_string_equal(advice_text(ADVISE_NONE), "");
	(void)state;
}

static void an_advice_names_what_it_is_about(void **state)
{
	struct failure f = {0};
	(void)fail(&f, DEFIB_REFUSED, "watch pages is not attached");
	fail_advise(&f, ADVISE_ATTACH, "pages");
	assert_string_equal(failure_next(&f), "run: defib db attach pages");
	assert_string_equal(failure_next(&f), "run: defib db attach pages");
	fail_next(&f, "or ask a DBA");
	assert_string_equal(failure_next(&f), "or ask a DBA");
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_advice_has_words),
		cmocka_unit_test(an_advice_names_what_it_is_about),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
