/* SPDX-License-Identifier: Apache-2.0
 * acts_table_test.c: the rows of the tables of acts, verdicts and signs are complete, and each
 * column is used: an event, a route with its description, a command, or none of them.
 */
#include "cli/cli.h"

#include "base/test.h"
#include "http/api.h"
#include "ledger/events.h"
#include "recover/candidate.h"
#include "recover/judge.h"
#include "shipped.h"

static const struct act_kind *const end = act_kinds + ACT_COUNT;

static const char *const commands_listed[] = {
#define X(group, place, name) #name,
	COMMAND_LIST(X)
#undef X
		NULL,
};

static const char *openapi(void)
{
	const char *text = shipped_text("docs/openapi.yaml");
	assert_non_null(text);
	return text;
}

static bool has_route(const char *verb)
{
	AUTO_BUF path = BUF_INIT;
	buf_addf(&path, "/watches/{watch}/jobs/{key}/%s", verb);
	for (const struct api_route *r = api_act_routes; r->method; r++)
		if (text_eq(r->path, buf_text(&path)) && text_eq(r->method, "POST"))
			return true;
	return false;
}

static void each_act_has_the_columns_that_its_marks_ask_for(void **state)
{
	(void)state;
	for (const struct act_kind *k = act_kinds; k < end; k++) {
		bool by_hand = k->by_hand != BY_HAND_NO;
		assert_int_equal(k->act, k - act_kinds);
		assert_true(k->verb && k->done);
		if (by_hand)
			assert_true(k->title && k->about);
		if (by_hand && act_has(k->act, ACT_NEEDS_HOW))
			assert_non_null(k->example);
		/* What lets a job run again, or goes on to run its steps, is not the end of it. */
		if (act_has(k->act, ACT_RUNS_AGAIN))
			assert_true(act_has(k->act, ACT_RUNS_STEPS) && act_has(k->act, ACT_ENDS_RUN) &&
			            !act_has(k->act, ACT_ENDS_JOB));
		assert_false(act_has(k->act, ACT_TAKES) && act_has(k->act, ACT_LEAVES));
		assert_true(act_kind_named(k->verb) == k || !by_hand);
	}
}

static void each_remedy_has_an_event_and_counts_as_its_outcome(void **state)
{
	static const unsigned counted[OUTCOME_COUNT] = {[OUTCOME_LEFT] = COUNTS_DETECTED,
	                                                [OUTCOME_HELD] = COUNTS_HELD,
	                                                [OUTCOME_RECOVERED] = COUNTS_RECOVERED};
	(void)state;
	for (int r = 0; r < REMEDY_COUNT; r++) {
		const struct event_name *event = event_named(act_event(r));
		assert_non_null(event);
		assert_string_equal(event->remedy, remedy_names[r]);
		assert_true((event->counts & counted[act_outcome(r)]) != 0);
		assert_int_equal(event_marked(event->name, MARK_GIVES_BACK), act_has(r, ACT_RUNS_AGAIN));
		assert_true(act_kinds[r].count && act_kinds[r].becomes && act_kinds[r].would);
	}
	for (const struct act_kind *k = act_kinds; k < end; k++)
		assert_non_null(event_named(act_event(k->act)));
}

static void what_operators_can_do_to_many_jobs_is_a_command(void **state)
{
	(void)state;
	for (const struct act_kind *k = act_kinds; k < end; k++)
		if (k->by_hand != BY_HAND_NO &&
		    (k->by_hand == BY_HAND_MANY) != (word_index(commands_listed, k->verb) >= 0))
			fail_msg("%s", k->verb);
}

static void what_operators_can_do_has_a_described_route_and_nothing_else_has_one(void **state)
{
	(void)state;
	for (const struct act_kind *k = act_kinds; k < end; k++) {
		AUTO_BUF path = BUF_INIT;
		if (k->by_hand == BY_HAND_NO) {
			assert_true(!has_route(k->verb) || act_kind_named(k->verb) || k->act == ACT_UNDO);
			continue;
		}
		buf_addf(&path, "/jobs/{key}/%s:", k->verb);
		assert_true(has_route(k->verb));
		assert_non_null(strstr(openapi(), buf_text(&path)));
	}
}

static void each_verdict_says_what_the_guards_ask_for(void **state)
{
	(void)state;
	for (int v = VERDICT_NONE + 1; v < VERDICT_COUNT; v++) {
		enum verdict is = (enum verdict)v;
		assert_true(verdict_kinds[v].why && verdict_kinds[v].of_jobs);
		assert_true(verdict_kinds[v].tone && verdict_kinds[v].picture);
		/* What was seen needs neither doubt nor pace; what is doubted is paced. */
		assert_int_equal(verdict_has(is, VERDICT_SEEN), !verdict_has(is, VERDICT_PACED));
		assert_false(verdict_has(is, VERDICT_DOUBTED) && verdict_has(is, VERDICT_AGELESS));
	}
	AUTO_BUF glossary = BUF_INIT;
	const char *line = strstr(shipped_text("web/lib/words.js"), "\tverdict: ");
	assert_non_null(line);
	buf_addn(&glossary, line, strcspn(line, "\n"));
	for (int v = VERDICT_NONE + 1; v < VERDICT_COUNT; v++)
		if (!strstr(buf_text(&glossary), verdict_names[v]))
			fail_msg("the glossary lacks %s", verdict_names[v]);
	for (int s = 0; s < SIGN_COUNT; s++)
		assert_true(sign_kinds[s].option && sign_kinds[s].words &&
		            judge_sign_rule((enum sign)s)->verdict != VERDICT_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_act_has_the_columns_that_its_marks_ask_for),
		cmocka_unit_test(each_remedy_has_an_event_and_counts_as_its_outcome),
		cmocka_unit_test(what_operators_can_do_to_many_jobs_is_a_command),
		cmocka_unit_test(what_operators_can_do_has_a_described_route_and_nothing_else_has_one),
		cmocka_unit_test(each_verdict_says_what_the_guards_ask_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
