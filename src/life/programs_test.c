/* SPDX-License-Identifier: Apache-2.0 */
#include "life/programs.h"

#include "base/test.h"

#define NONCE "0123456789abcdef"

static void assert_name(const char *name, const char *want)
{
	char out[PROGRAM_NAME_SIZE];
	program_application(name, NONCE, out);
	assert_string_equal(out, want);
}

static void a_name_keeps_what_a_session_can_be_called(void **state)
{
	(void)state;
	assert_name("node", "defib-run:node:" NONCE);
	assert_name("my worker/2.sh", "defib-run:myworker2.sh:" NONCE);
	assert_name("ü%$:", "defib-run:program:" NONCE);
}

static void the_nonce_is_never_cut_off(void **state)
{
	(void)state;
	assert_name("a-very-long-name-of-a-program-that-goes-on-and-on-and-on",
	            "defib-run:a-very-long-name-of-a-program-th:" NONCE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_keeps_what_a_session_can_be_called),
		cmocka_unit_test(the_nonce_is_never_cut_off),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
