/* SPDX-License-Identifier: Apache-2.0 */
/* workflow_test.c: which steps a row says are finished. */
#include "watch/workflow.h"

#include "base/test.h"
#include "base/text.h"

/* The finished steps with their positions, or "unknown". */
static const char *parsed(const char *text, struct arena *a)
{
	static struct workflow_step steps[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
	static const struct workflow flow = {.name = "flow", .steps = steps, .nsteps = 3};
	struct finished_step *done;
	int n = 0;
	AUTO_BUF out = BUF_INIT;
	if (!steps_done_parse(&flow, text, a, &done, &n))
		return "unknown";
	for (int i = 0; i < n; i++)
		buf_addf(&out, "%s%s %d", i ? ", " : "", done[i].name, done[i].position);
	return arena_strdup(a, buf_text(&out));
}

static void finished_steps_are_a_list_or_those_before_the_current_one(void **state)
{
	static const char *const rows[][2] = {
		{"[\"a\", \"b\"]", "a 0, b 1"},
		{"[\"c\", \"a\"]", "c 2, a 0"},
		{"[\"a\", \"gone\"]", "a 0, gone 4"}, /* of an older workflow */
		{"[]", ""},
		{"\"[\\\"a\\\"]\"", "a 0"}, /* a list in a text column */
		{"c", "a 0, b 1"},
		{"\"c\"", "a 0, b 1"},
		{"a", ""},
		{"[\"a\", 2]", "unknown"},
		{"[null]", "unknown"},
		{"{\"a\": 1}", "unknown"},
		{"7", "unknown"},
		{"gone", "unknown"},
		{"", "unknown"},
		{NULL, "unknown"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		AUTO_ARENA a = ARENA_INIT;
		assert_string_equal(parsed(rows[i][0], &a), rows[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finished_steps_are_a_list_or_those_before_the_current_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
