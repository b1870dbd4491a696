/* SPDX-License-Identifier: Apache-2.0
 * workflow_test.c: which step a claim runs or undoes, and what its end means,
 * as tables over the pure functions.
 */
#include "worker/workflow.h"

#include "base/test.h"

#include <string.h>

static const char *program[] = {"x", NULL};
#define RUN                                                                                        \
	{                                                                                              \
		1, program                                                                                 \
	}
#define NONE                                                                                       \
	{                                                                                              \
		0, NULL                                                                                    \
	}

/* a and d can be undone; b and c cannot. */
static struct workflow_step steps[] = {
	{.name = "a", .run = RUN, .undo = RUN},
	{.name = "b", .run = RUN, .undo = NONE},
	{.name = "c", .run = RUN, .undo = NONE},
	{.name = "d", .run = RUN, .undo = RUN},
};
static const struct workflow flow = {.name = "w", .saga = true, .nsteps = 4, .steps = steps};

/* "a:done b:again": records as a claim returns them. */
static struct step_records records(const char *text, struct arena *a)
{
	struct step_records all = {0, ARENA_ARRAY(a, struct step_record, 8)};
	char *copy = arena_strdup(a, text), *save = NULL;
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *state = strchr(word, ':');
		*state++ = '\0';
		struct step_record *r = &all.items[all.n++];
		r->name = word;
		r->output = arena_printf(a, "\"%s!\"", word);
		for (int i = 0; step_state_names[i]; i++)
			if (!strcmp(step_state_names[i], state))
				r->state = (enum step_state)i;
	}
	return all;
}

struct chosen {
	const char *recorded;
	const char *step; /* NULL: nothing to run */
	bool more;
	const char *passed; /* NULL: none */
};

#define UNDONE(name) "{\"step\":\"" name "\",\"state\":\"undone\",\"error\":null}"
#define GONE(name)                                                                                 \
	"{\"step\":\"" name                                                                            \
	"\",\"state\":\"undo_failed\",\"error\":\"the workflow no longer has such a step\"}"

static void check_choice(const struct chosen *want, bool undoing)
{
	struct arena a = ARENA_INIT;
	struct step_records recorded = records(want->recorded, &a);
	struct step_choice c = workflow_choose(&flow, &recorded, undoing, &a);
	assert_int_equal(c.end.side, undoing ? STEP_SIDE_UNDO : STEP_SIDE_RUN);
	assert_true(c.end.saga);
	assert_int_equal(c.end.more, want->more);
	assert_true((c.step != NULL) == (want->step != NULL));
	if (want->step) {
		assert_string_equal(c.step->name, want->step);
		assert_string_equal(c.end.name, want->step);
		assert_int_equal(c.end.position, c.step - steps);
	}
	assert_true((c.end.passed != NULL) == (want->passed != NULL));
	if (want->passed)
		assert_string_equal(c.end.passed, want->passed);
	arena_release(&a);
}

static void first_step_that_is_not_done_is_run(void **state)
{
	static const struct chosen table[] = {
		{"", "a", true, NULL},
		{"a:done", "b", true, NULL},
		{"a:done b:done", "c", true, NULL},
		{"a:done b:done c:done", "d", false, NULL},
		{"a:done b:done c:done d:done", NULL, false, NULL},
		/* from a chosen step on */
		{"a:done b:again c:again", "b", true, NULL},
		{"a:done b:done c:again d:again", "c", true, NULL},
		{"a:done b:done c:done d:again", "d", false, NULL},
		{"a:again", "a", true, NULL},
		/* after a rollback */
		{"a:undone b:undone c:undo_failed", "a", true, NULL},
		/* the configuration changed meanwhile: a step was added, one is gone */
		{"b:done c:done d:done", "a", false, NULL},
		{"a:done old:done", "b", true, NULL},
		{"a:done b:done c:done d:done old:done", NULL, false, NULL},
	};
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		check_choice(&table[i], false);
}

static void last_step_that_is_done_is_undone_first(void **state)
{
	static const struct chosen table[] = {
		{"", NULL, false, NULL},
		{"a:done", "a", false, NULL},
		{"a:done b:done", "a", false, "[" UNDONE("b") "]"},
		{"a:done b:done c:done", "a", false, "[" UNDONE("c") "," UNDONE("b") "]"},
		/* steps without an undo end with the one before them */
		{"a:done b:done c:done d:done", "d", true, "[" UNDONE("c") "," UNDONE("b") "]"},
		{"a:done d:done", "d", true, NULL},
		/* in the middle of it */
		{"a:done b:undone c:undone d:undone", "a", false, NULL},
		{"a:done b:undone c:undone d:undo_failed", "a", false, NULL},
		{"a:undone b:undone", NULL, false, NULL},
		{"b:done c:done", NULL, false, "[" UNDONE("c") "," UNDONE("b") "]"},
		/* a step that is not done need not be undone */
		{"a:done b:again c:again", "a", false, NULL},
		{"a:again", NULL, false, NULL},
		/* the configuration changed meanwhile */
		{"old:done", NULL, false, "[" GONE("old") "]"},
		{"a:done old:done", "a", false, "[" GONE("old") "]"},
		{"old:done a:done", "a", false, "[" GONE("old") "]"},
		{"a:done old:done d:done", "d", true, "[" GONE("old") "]"},
		{"old:undo_failed a:done", "a", false, NULL},
	};
	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		check_choice(&table[i], true);
}

static void undo_follows_the_recorded_order_not_the_configured(void **state)
{
	check_choice(&(struct chosen){"d:done a:done", "a", true, NULL}, true);
	(void)state;
}

static void job_with_nothing_left_ends_with_the_last_output(void **state)
{
	struct arena a = ARENA_INIT;
	struct step_records all = records("a:done b:done c:done d:done", &a);
	assert_string_equal(workflow_choose(&flow, &all, false, &a).result, "\"d!\"");
	all = records("a:done", &a);
	assert_null(workflow_choose(&flow, &all, false, &a).result);
	arena_release(&a);
	(void)state;
}

static void program_reads_payload_and_outputs(void **state)
{
	struct arena a = ARENA_INIT;
	struct buf out = BUF_INIT;
	struct step_records all = records("a:done b:undone c:again", &a);
	struct step_end end = {.side = STEP_SIDE_RUN, .name = "b \"x\""};
	workflow_input(&end, &all, "{\"n\":1}", &out);
	assert_string_equal(buf_text(&out), "{\"payload\":{\"n\":1},\"outputs\":{\"a\":\"a!\"},"
	                                    "\"step\":\"b \\\"x\\\"\",\"undo\":false}");
	buf_clear(&out);
	end.side = STEP_SIDE_UNDO;
	all.items[0].output = NULL;
	workflow_input(&end, &all, NULL, &out);
	assert_string_equal(buf_text(&out), "{\"payload\":null,\"outputs\":{\"a\":null,\"b\":\"b!\"},"
	                                    "\"step\":\"b \\\"x\\\"\",\"undo\":true}");
	buf_release(&out);
	arena_release(&a);
	(void)state;
}

static void records_are_read_with_outputs_as_they_are(void **state)
{
	struct arena a = ARENA_INIT;
	struct step_records all;
	assert_true(step_records_parse(NULL, &a, &all));
	assert_int_equal(all.n, 0);
	assert_true(step_records_parse("[{\"step\":\"a\",\"state\":\"done\",\"output\":"
	                               "\"123456789012345678901234567890\"},"
	                               "{\"step\":\"b\",\"state\":\"again\",\"output\":null}]",
	                               &a, &all));
	assert_int_equal(all.n, 2);
	assert_string_equal(all.items[0].output, "123456789012345678901234567890");
	assert_int_equal(all.items[1].state, STEP_AGAIN);
	assert_null(all.items[1].output);
	arena_release(&a);
	(void)state;
}

static void records_that_cannot_be_read_are_not_taken_for_none(void **state)
{
	static const char *const broken[] = {"",
	                                     "{}",
	                                     "[1]",
	                                     "[{\"step\":\"a\"}]",
	                                     "[{\"step\":\"a\",\"state\":\"new\"}]",
	                                     "[{\"state\":\"done\"}]"};
	struct arena a = ARENA_INIT;
	struct step_records all;
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
		assert_false(step_records_parse(broken[i], &a, &all));
	arena_release(&a);
	(void)state;
}

static void end_of_a_step_survives_being_text(void **state)
{
	static const struct step_end all[] = {
		{.side = STEP_SIDE_RUN, .name = "a\"b", .position = 3, .more = true, .saga = true},
		{.side = STEP_SIDE_UNDO, .name = "a", .passed = "[" UNDONE("b") "]"},
		{.side = STEP_SIDE_UNDO},
	};
	struct arena a = ARENA_INIT;
	struct step_end back;
	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct buf one = BUF_INIT, two = BUF_INIT;
		step_end_json(&all[i], &one);
		assert_true(step_end_parse(buf_text(&one), &a, &back));
		step_end_json(&back, &two);
		assert_string_equal(buf_text(&one), buf_text(&two));
		assert_int_equal(back.side, all[i].side);
		buf_release(&one);
		buf_release(&two);
	}
	assert_true(step_end_parse(NULL, &a, &back));
	assert_int_equal(back.side, STEP_SIDE_NONE);
	assert_false(step_end_parse("{\"step\":\"a\"}", &a, &back));
	assert_false(step_end_parse("no", &a, &back));
	arena_release(&a);
}

static enum step_after after(enum settle_as as, struct step_facts f)
{
	f.as = as;
	return step_after(&f);
}

static void end_of_a_run_decides(void **state)
{
	(void)state;
	assert_int_equal(after(SETTLE_DONE, (struct step_facts){.more = true}), AFTER_NEXT);
	assert_int_equal(after(SETTLE_DONE, (struct step_facts){0}), AFTER_DONE);
	static const enum settle_as bad[] = {SETTLE_FAILED, SETTLE_TIMED_OUT, SETTLE_CRASHED};
	for (int i = 0; i < 3; i++) {
		assert_int_equal(
			after(bad[i],
		          (struct step_facts){.attempts_left = true, .saga = true, .any_done = true}),
			AFTER_RETRY);
		assert_int_equal(after(bad[i], (struct step_facts){.saga = true, .any_done = true}),
		                 AFTER_ROLLBACK);
		/* nothing to undo, or no saga */
		assert_int_equal(after(bad[i], (struct step_facts){.saga = true}),
		                 bad[i] == SETTLE_TIMED_OUT ? AFTER_TIMED_OUT : AFTER_FAILED);
		assert_int_equal(after(bad[i], (struct step_facts){.any_done = true}),
		                 bad[i] == SETTLE_TIMED_OUT ? AFTER_TIMED_OUT : AFTER_FAILED);
	}
	assert_int_equal(
		after(SETTLE_PERMANENT,
	          (struct step_facts){.attempts_left = true, .saga = true, .any_done = true}),
		AFTER_ROLLBACK);
	assert_int_equal(after(SETTLE_PERMANENT, (struct step_facts){0}), AFTER_FAILED);
	assert_int_equal(after(SETTLE_RETRY, (struct step_facts){.saga = true, .any_done = true}),
	                 AFTER_RETRY);
	assert_int_equal(after(SETTLE_STOPPED, (struct step_facts){0}), AFTER_RELEASED);
	assert_int_equal(after(SETTLE_RELEASED, (struct step_facts){0}), AFTER_RELEASED);
}

static void cancelled_run_goes_no_further(void **state)
{
	(void)state;
	for (int as = 0; as < SETTLE_COUNT; as++) {
		struct step_facts f = {.cancelling = true, .more = true, .saga = true, .any_done = true};
		assert_int_equal(after((enum settle_as)as, f), AFTER_CANCELLED);
	}
	/* … unless it is over anyway */
	assert_int_equal(after(SETTLE_DONE, (struct step_facts){.cancelling = true}), AFTER_DONE);
}

static void end_of_an_undo_decides(void **state)
{
	static const enum settle_as over[] = {SETTLE_DONE, SETTLE_FAILED, SETTLE_TIMED_OUT,
	                                      SETTLE_CRASHED, SETTLE_PERMANENT};
	(void)state;
	for (int i = 0; i < 5; i++) {
		struct step_facts f = {.undoing = true, .saga = true, .any_done = true, .more = true};
		assert_int_equal(after(over[i], f), AFTER_NEXT);
		f.more = false;
		assert_int_equal(after(over[i], f), AFTER_ROLLED_BACK);
	}
	struct step_facts left = {.undoing = true, .attempts_left = true};
	assert_int_equal(after(SETTLE_FAILED, left), AFTER_RETRY);
	assert_int_equal(after(SETTLE_TIMED_OUT, left), AFTER_RETRY);
	assert_int_equal(after(SETTLE_CRASHED, left), AFTER_RETRY);
	assert_int_equal(after(SETTLE_PERMANENT, left), AFTER_ROLLED_BACK);
	assert_int_equal(after(SETTLE_RETRY, (struct step_facts){.undoing = true}), AFTER_RETRY);
	assert_int_equal(after(SETTLE_STOPPED, left), AFTER_RELEASED);
	assert_int_equal(after(SETTLE_RELEASED, left), AFTER_RELEASED);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_step_that_is_not_done_is_run),
		cmocka_unit_test(last_step_that_is_done_is_undone_first),
		cmocka_unit_test(undo_follows_the_recorded_order_not_the_configured),
		cmocka_unit_test(job_with_nothing_left_ends_with_the_last_output),
		cmocka_unit_test(program_reads_payload_and_outputs),
		cmocka_unit_test(records_are_read_with_outputs_as_they_are),
		cmocka_unit_test(records_that_cannot_be_read_are_not_taken_for_none),
		cmocka_unit_test(end_of_a_step_survives_being_text),
		cmocka_unit_test(end_of_a_run_decides),
		cmocka_unit_test(cancelled_run_goes_no_further),
		cmocka_unit_test(end_of_an_undo_decides),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
