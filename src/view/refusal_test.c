/* SPDX-License-Identifier: Apache-2.0
 * refusal_test.c: each refusal is a sentence, and what to do next is in the words of the caller.
 */
#include "view/refusal.h"

#include "base/test.h"

static const int acts[] = {REMEDY_REQUEUE, REMEDY_ROLLBACK, ACT_RELEASE};

static void each_refusal_is_a_sentence_with_its_fact(void **state)
{
	(void)state;
	for (int why = 0; why < REFUSAL_COUNT; why++) {
		struct candidate c = {.outcome = OUTCOME_LEFT};
		AUTO_BUF out = BUF_INIT;
		refusal_sentence(&c, &out);
		assert_int_equal(out.len, 0);
		refuse_job(&c, (enum refusal)why, "its fact");
		refusal_sentence(&c, &out);
		assert_true(out.len > 0);
		assert_null(strchr(buf_text(&out), '%'));
		assert_int_equal(c.outcome, OUTCOME_REFUSED);
	}
}

static void no_caller_reads_the_words_of_another(void **state)
{
	(void)state;
	for (int why = 0; why < REFUSAL_COUNT; why++)
		for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
			struct candidate c = {.does = acts[i]};
			refuse_job(&c, (enum refusal)why, "its fact");
			const char *command = refusal_next(&c, CALLER_COMMAND);
			const char *http = refusal_next(&c, CALLER_HTTP);
			assert_int_equal(command != NULL, http != NULL);
			if (!command)
				continue;
			assert_true(strstr(command, "--") || strstr(command, "defib "));
			assert_false(strstr(http, "--") || strstr(http, "defib "));
			assert_non_null(strchr(http, '"'));
		}
}

static void the_command_reads_both_in_one_line(void **state)
{
	struct candidate c = {.does = REMEDY_REQUEUE};
	AUTO_BUF out = BUF_INIT;
	(void)state;
	refuse_job(&c, REFUSAL_LIVES, "running for 2s (limit 1h)");
	refusal_text(&c, &out);
	assert_string_equal(buf_text(&out), "it is running and not stuck: running for 2s (limit 1h); "
	                                    "--override-guard does it anyway");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_refusal_is_a_sentence_with_its_fact),
		cmocka_unit_test(no_caller_reads_the_words_of_another),
		cmocka_unit_test(the_command_reads_both_in_one_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
