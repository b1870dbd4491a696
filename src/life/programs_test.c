/* SPDX-License-Identifier: Apache-2.0 */
#include "life/programs.h"

#include "store/fault_test.h"
#include "store/patient_test.h"

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

/* "No sessions" or "not there" would be taken for an end. */
static void a_question_that_fails_has_no_answer(void **state)
{
	static const struct program gone = {.application = "defib-run:node:" NONCE, .watch = "w"};
	const struct store_options o = patient((struct store_options){.url = "sqlite::memory:"});
	AUTO_ARENA a = ARENA_INIT;
	(void)state;
	for (int question = 0; question < 3; question++) {
		struct fault_plan plan = {.call = FAULT_EXEC, .nth = 1, .code = DEFIB_TIMEOUT};
		struct store *s = NULL;
		struct failure f = {0};
		struct program *all;
		bool removed = true;
		int64_t sessions;
		int n = 4711;
		assert_int_equal(store_open(&o, &s, &f), DEFIB_OK);
		s = fault_wrap(s, &plan);
		defib_err err = question == 0   ? program_sessions(s, gone.application, &sessions, &f)
		                : question == 1 ? program_remove(s, &gone, &removed, &f)
		                                : programs_running(s, &a, &all, &n, &f);
		assert_int_equal(err, DEFIB_TIMEOUT);
		assert_true(plan.fired);
		assert_int_equal(removed, question != 1);
		assert_int_equal(n, question == 2 ? 0 : 4711);
		store_close(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_keeps_what_a_session_can_be_called),
		cmocka_unit_test(the_nonce_is_never_cut_off),
		cmocka_unit_test(a_question_that_fails_has_no_answer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
