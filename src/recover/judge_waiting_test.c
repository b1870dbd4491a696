/* SPDX-License-Identifier: Apache-2.0
 * judge_waiting_test.c: the whole table of verdicts of rows that wait.
 */
#include "recover/judge.h"

#include "base/clock.h"
#include "base/test.h"
#include "base/text.h"

#define NOW (INT64_C(1767323045) * US_PER_S)
#define LIMIT (600 * US_PER_S)
#define SHORT (60 * US_PER_S)

enum due { DUE_NEVER, DUE_AHEAD, DUE_AT_LIMIT, DUE_PAST, DUES };
enum run { RUN_NOT_ASKED, RUN_NEVER, RUN_BEFORE, RUN_SINCE, RUNS };

struct row {
	enum due due;
	enum run run;
	enum starts starts;
	bool of_kind, moved_on, limited;
};

static const char *expected(const struct row *r)
{
	if (r->due == DUE_NEVER || !r->limited)
		return "not-running";
	if (r->due != DUE_PAST)
		return "not-due";
	if (r->run == RUN_SINCE)
		return "has-run";
	if (r->starts == STARTS_SEEN)
		return "queued";
	if (r->starts == STARTS_UNKNOWN)
		return "waits";
	if (r->run == RUN_NOT_ASKED)
		return "unstarted";
	return r->moved_on ? "moved-on" : "no-run";
}

static struct judgement judged(const struct row *r)
{
	static const char *kinds[] = {"short"};
	static int64_t short_us = SHORT;
	struct watch w = {.late_after = {.given = r->limited, .standard_us = LIMIT, .n = 1}};
	struct facts f = {.waiting = true, .now_us = NOW, .starts = r->starts};
	int64_t limit_us = r->of_kind ? SHORT : LIMIT;
	w.waiting.text = w.due_at.text = "x";
	w.last_run_at.text = r->run == RUN_NOT_ASKED ? NULL : "x";
	w.late_after.kinds = kinds;
	w.late_after.us = &short_us;
	f.kind = r->of_kind ? "short" : NULL;
	f.has_due = r->due != DUE_NEVER;
	f.due_us = NOW - limit_us - (r->due == DUE_PAST) + (r->due == DUE_AHEAD ? 2 * limit_us : 0);
	f.moved_on = r->moved_on;
	f.has_last_run = r->run > RUN_NEVER;
	f.last_run_us = f.due_us - (r->run == RUN_BEFORE);
	return judge(&w, &f);
}

static void each_row_that_waits_has_one_rule(void **state)
{
	bool spoke[16] = {false};
	(void)state;
	for (unsigned i = 0; i < DUES * RUNS * 3 * 8; i++) {
		struct row r = {.due = (enum due)(i % DUES),
		                .run = (enum run)(i / DUES % RUNS),
		                .starts = (enum starts)(i / DUES / RUNS % 3)};
		unsigned bits = i / DUES / RUNS / 3;
		r.of_kind = bits & 1;
		r.moved_on = bits & 2;
		r.limited = bits & 4;
		struct judgement j = judged(&r);
		const char *rule = expected(&r);
		if (!text_eq(j.rule->id, rule))
			fail_msg("due %d, run %d, starts %d, kind %d, moved on %d, limit %d: %s instead of %s",
			         r.due, r.run, r.starts, r.of_kind, r.moved_on, r.limited, j.rule->id, rule);
		assert_int_equal(j.verdict, j.rule->verdict);
		assert_int_equal(j.waited, !text_eq(rule, "not-running"));
		if (j.waited)
			spoke[j.rule - waiting_rules] = true;
		if (j.waited && r.due == DUE_PAST)
			assert_int_equal(j.measured_us, (r.of_kind ? SHORT : LIMIT) + 1);
	}
	for (int i = 0; waiting_rules[i].id; i++)
		assert_true(spoke[i]);
}

/* A row that runs is judged by its signs, whatever else it says. */
static void a_running_row_does_not_wait(void **state)
{
	struct watch w = {.late_after = {.given = true, .standard_us = LIMIT}};
	struct facts f = {.waiting = true,
	                  .running = true,
	                  .has_due = true,
	                  .due_us = NOW - 2 * LIMIT,
	                  .now_us = NOW,
	                  .owner_alive = KNOWN_NOT,
	                  .starts = STARTS_NONE};
	(void)state;
	w.waiting.text = w.due_at.text = w.alive_at.text = "x";
	assert_string_equal(judge(&w, &f).rule->id, "no-sign");
	f.running = false;
	assert_string_equal(judge(&w, &f).rule->id, "unstarted");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_that_waits_has_one_rule),
		cmocka_unit_test(a_running_row_does_not_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
