/* SPDX-License-Identifier: Apache-2.0
 * check_test.c: every check of a watch beyond its option table, with the message of its rejection.
 */
#include "base/text.h"
#include "watch/watch_test.h"

#define BASE "table: pages\nkey: id\nrunning: status = 'running'\n"
#define ALIVE BASE "alive_at: updated_at\n"
#define PLAIN ALIVE "stuck_after: 60m\n"

struct demand {
	const char *keys, *words;
};

static void open_as(enum store_engine engine, struct reading *r, const char *keys)
{
	reading_open_watch(r, engine == STORE_POSTGRES ? POSTGRES_URL : SQLITE_URL, keys);
}

/* Each of these must be rejected, with one line of its own. */
static void assert_refused(enum store_engine engine, const struct demand *demands, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct reading r;
		open_as(engine, &r, demands[i].keys);
		if (r.reader.nerrors != 1 || !reading_said(&r, demands[i].words, false)) {
			print_problems(&r);
			fail_msg("%s: not just \"%s\"", demands[i].keys, demands[i].words);
		}
		assert_true(r.reader.problems[0].at.line > 0);
		reading_release(&r);
	}
}
#define REFUSED(engine, demands)                                                                   \
	assert_refused((engine), (demands), sizeof(demands) / sizeof(*(demands)))

static void assert_accepted(enum store_engine engine, const char *keys)
{
	struct reading r;
	open_as(engine, &r, keys);
	assert_clean(&r);
	reading_release(&r);
}

static void assert_warned(const char *keys, const char *words)
{
	struct reading r;
	open_as(STORE_SQLITE, &r, keys);
	assert_clean(&r);
	if (!reading_said(&r, words, true)) {
		print_problems(&r);
		fail_msg("no warning: %s", words);
	}
	reading_release(&r);
}

static void a_watch_must_be_able_to_judge(void **state)
{
	static const struct demand demands[] = {
		{BASE, "nothing tells whether a row is stuck"},
		{ALIVE, "alive_at needs stuck_after"},
		{BASE "started_at: a\n", "started_at needs overdue_after"},
		{BASE "owner_alive: a\nstuck_after: 1m\n", "stuck_after needs alive_at or expires_at"},
		{PLAIN "overdue_after: 1m\n", "overdue_after needs started_at"},
		{BASE "owner_alive: a\nmissing: orphan\n", "missing: orphan needs a sign of life"},
	};
	(void)state;
	REFUSED(STORE_SQLITE, demands);
}

static void each_kind_of_sign_is_enough_to_judge(void **state)
{
	(void)state;
	assert_accepted(STORE_SQLITE, PLAIN);
	assert_accepted(STORE_SQLITE, BASE "expires_at: a\n");
	assert_accepted(STORE_SQLITE, BASE "expires_at: a\nstuck_after: 0s\n");
	assert_accepted(STORE_SQLITE, BASE "started_at: a\noverdue_after: 1m\n");
	assert_accepted(STORE_SQLITE, BASE "owner_alive: a\n");
	assert_accepted(STORE_SQLITE,
	                BASE "state_since: c\noverdue_after: {state: {a: 5m}, default: 1h}\n");
}

static void thresholds_must_make_sense(void **state)
{
	static const struct demand demands[] = {
		{ALIVE "stuck_after: {a: 1m, default: 2m}\n", "thresholds by kind need kind:"},
		{ALIVE "stuck_after: 0s\n", "would make every running row stuck"},
		{ALIVE "kind: k\nstuck_after: {a: 0s, default: 2m}\n", "would make every running row"},
		{ALIVE "stuck_after: {state: {a: 0s}, default: 2m}\n", "would make every running row"},
		{ALIVE "stuck_after: {sql: \"n)\", default: 2m}\n", "stuck_after.sql"},
		{ALIVE "stuck_after: 2m\nstates: [one, two]\nremedies: [{state: toe, do: report}]\n",
	     "a rule of remedies names state \"toe\", which states does not list"},
		{ALIVE "states: [one, two]\nstuck_after: {state: {three: 5m}, default: 2m}\n",
	     "stuck_after names state \"three\", which states does not list"},
		{BASE "overdue_after: {state: {a: 5m}, default: 2m}\n", "nothing tells whether a row"},
		{ALIVE "stuck_after: 5m\nprogress: p\n", "progress needs stalled_after"},
		{ALIVE "stuck_after: 5m\nstalled_after: 5m\n", "stalled_after needs progress"},
		{ALIVE "stuck_after: 5m\nprogress: p\nprogress_at: q\nstalled_after: 5m\n",
	     "give one of them"},
		{ALIVE "stuck_after: 5m\nprogress: p\nstalled_after: 0s\n",
	     "stalled_after 0s would make every running row stuck"},
		{ALIVE "stuck_after: 5m\nprogress: p\nstalled_after: 1m\nmask: [p]\n",
	     "mask names a column that progress is made of"},
		{BASE "started_at: a\noverdue_after: 5m\nstate_since: c\n",
	     "state_since needs limits by state"},
		{BASE "state_since: c\noverdue_after: {state: {a: 5m}, sql: n, default: 2m}\n",
	     "overdue_after.sql needs started_at"},
	};
	(void)state;
	REFUSED(STORE_SQLITE, demands);
}

static void a_threshold_under_twice_the_beat_is_refused(void **state)
{
	static const struct demand demands[] = {
		{ALIVE "beat: 30s\nstuck_after: 59s\n", "stuck_after 59s is under twice the beat of 30s"},
		{ALIVE "kind: k\nbeat: 30s\nstuck_after: {a: 45s, default: 5m}\n", "45s is under twice"},
	};
	(void)state;
	REFUSED(STORE_SQLITE, demands);
	assert_warned(ALIVE "beat: 30s\nstuck_after: 60s\n", "just twice the beat");
	assert_accepted(STORE_SQLITE, ALIVE "beat: 30s\nstuck_after: 61s\n");
}

static void rules_must_be_possible(void **state)
{
	static const struct demand demands[] = {
		{PLAIN "remedies: [{do: requeue}]\n", "rule 1 does requeue, but the watch has no requeue:"},
		{PLAIN "remedies: [{do: report}, {do: fail}]\n", "rule 2 does fail"},
		{PLAIN "remedies: [{attempts: left, do: report}]\n", "rule 1 asks for attempts"},
		{PLAIN "attempts: n\nremedies: [{attempts: left, do: report}]\n",
	     "rule 1 asks for attempts"},
		{PLAIN "remedies: [{kind: a, do: report}]\n", "rule 1 asks for a kind"},
	};
	(void)state;
	REFUSED(STORE_SQLITE, demands);
	assert_accepted(STORE_SQLITE, PLAIN "remedies: [{do: report}, {do: hold}]\n");
}

static void what_bounds_or_does_nothing_is_warned_about(void **state)
{
	(void)state;
	assert_warned(PLAIN, "the watch only reports");
	assert_warned(PLAIN "attempts: n\n", "attempts without max_attempts have no limit");
}

static void keys_and_shown_columns_have_a_limit(void **state)
{
	static const struct demand demands[] = {
		{"table: t\nkey: [a, b, c, d, e]\nrunning: r\nexpires_at: x\n", "at most 4 columns"},
		{PLAIN "show: [a, b, c, d, e, f, g, h, i]\n", "show takes at most 8 columns"},
		{"table: t\nkey: []\nrunning: r\nexpires_at: x\n", "key names no column"},
	};
	(void)state;
	REFUSED(STORE_SQLITE, demands);
}

static void end_and_end_when_go_together(void **state)
{
	static const struct demand demands[] = {
		{PLAIN "end: status = 'ending'\n", "end needs end_when"},
	};
	(void)state;
	REFUSED(STORE_SQLITE, demands);
	assert_warned(PLAIN "requeue: a = 1\nend_when: status = 'up'\n", "without end ends nothing");
}

static void sql_must_be_closed_wherever_it_stands(void **state)
{
	static const char *const options[] = {
		"expires_at",  "started_at", "kind",     "owner",
		"owner_alive", "attempts",   "end_when", "late_when",
	};
	(void)state;
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		struct buf keys = BUF_INIT, words = BUF_INIT;
		buf_addf(&keys, PLAIN "overdue_after: 1m\nmax_attempts: 3\n%s: (a\n", options[i]);
		if (!text_eq(options[i], "started_at"))
			buf_add(&keys, "started_at: s\n");
		buf_addf(&words, "%s: a parenthesis is never closed", options[i]);
		struct demand demand = {buf_text(&keys), buf_text(&words)};
		assert_refused(STORE_SQLITE, &demand, 1);
		buf_release(&keys);
		buf_release(&words);
	}
}

static void an_expression_cannot_break_out_of_its_parentheses(void **state)
{
	static const struct demand demands[] = {
		{PLAIN "owner: a) OR (b\n", "closed that was never opened"},
		{PLAIN "owner: 'a; DROP TABLE x'\n", "more than one statement"},
		{PLAIN "owner: \"a;\"\n", "no ';' is needed"},
		{PLAIN "owner: \"a; \\n\"\n", "no ';' is needed"},
		{PLAIN "owner: a -- who\n", "a comment at the very end"},
		{PLAIN "requeue: a = 1;\n", "no ';' is needed"},
	};
	(void)state;
	REFUSED(STORE_SQLITE, demands);
	assert_accepted(STORE_SQLITE, PLAIN "owner: a /* -- who */\n");
	assert_accepted(STORE_SQLITE, PLAIN "owner: |\n  a -- who\n");
	assert_accepted(STORE_SQLITE, PLAIN "owner: \"a || ';'\"\n");
}

/* Of work: the lists that every watch with work has. */
#define ENDS "done: a = 2, failed: a = 3, "

static void set_lists_must_be_set_lists(void **state)
{
	static const struct demand demands[] = {
		{PLAIN "requeue: SET a = 1\n", "requeue: not a SET list"},
		{PLAIN "requeue: DELETE FROM a\n", "requeue: not a SET list"},
		{PLAIN "retry: {now: a = 1, then: b}\n", "retry.then: not a SET list"},
		{PLAIN "end_when: a\nend: x\n", "end: not a SET list"},
		{PLAIN "cancel: x\n", "cancel: not a SET list"},
		{PLAIN "work: {" ENDS "ready: a, release: a = 0, claim: x}\n",
	     "work.claim: not a SET list"},
		{PLAIN "work: {ready: a, done: x, failed: a = 2}\n", "work.done: not a SET list"},
		{PLAIN "work: {ready: a, done: a = 2, failed: x}\n", "work.failed: not a SET list"},
		{PLAIN "work: {" ENDS "ready: a, timed_out: x}\n", "work.timed_out: not a SET list"},
		{PLAIN "work: {" ENDS "ready: a, release: x}\n", "work.release: not a SET list"},
	};
	(void)state;
	REFUSED(STORE_SQLITE, demands);
}

static void unknown_parameters_are_refused_with_the_nearest(void **state)
{
	static const struct demand demands[] = {
		{PLAIN "requeue: 'a = :raeson'\n", "unknown parameter :raeson; did you mean :reason?"},
		{PLAIN "requeue: 'a = :worker'\n", "unknown parameter :worker"},
		{PLAIN "hold: {call: 'f(:idd)'}\n", "hold: unknown parameter :idd; did you mean :id?"},
		{PLAIN "work: {" ENDS "ready: a, release: a = 0, claim: 'w = :workre'}\n",
	     "did you mean :worker?"},
	};
	(void)state;
	REFUSED(STORE_SQLITE, demands);
}

static void predicates_and_statements_take_no_parameters(void **state)
{
	static const struct demand demands[] = {
		{PLAIN "owner: a = :now\n", "owner: unknown parameter :now"},
		{PLAIN "requeue: {sql: ['DELETE FROM a WHERE b = :now']}\n",
	     "requeue: unknown parameter :now"},
		{PLAIN "also: ['DELETE FROM a WHERE b = :now']\n", "also: unknown parameter :now"},
		{PLAIN "remedies: [{when: 'a = :now', do: report}]\n", "remedies.when: unknown parameter"},
		{PLAIN "work: {" ENDS "ready: 'a = :now'}\n", "work.ready: unknown parameter :now"},
	};
	(void)state;
	REFUSED(STORE_SQLITE, demands);
}

static void every_promised_parameter_is_known_where_it_is_promised(void **state)
{
	(void)state;
	assert_accepted(STORE_SQLITE,
	                PLAIN "requeue: 'a = f(:id, :owner, :kind, :attempt, :alive_at, :verdict, "
	                      ":reason, :retry_at, :evidence, :now)'\n");
	assert_accepted(
		STORE_SQLITE,
		PLAIN "work: {ready: a, claim: 'a = f(:id, :worker, :now, :epoch)', "
			  "release: a = 0, done: 'a = :result, b = :result.text', failed: 'a = :error'}\n");
}

static void sql_is_read_as_its_engine_does(void **state)
{
	static const struct demand postgres[] = {{PLAIN "owner: '[a'\n", "never closed"},
	                                         {PLAIN "owner: '$1'\n", "write :name"}};
	static const struct demand sqlite[] = {{PLAIN "owner: '`a'\n", "never closed"},
	                                       {PLAIN "owner: 'a = ?'\n", "write :name"}};
	(void)state;
	REFUSED(STORE_POSTGRES, postgres);
	REFUSED(STORE_SQLITE, sqlite);
	assert_accepted(STORE_POSTGRES, PLAIN "owner: \"$$a$$ || E'\\\\''\"\n");
	assert_accepted(STORE_SQLITE, PLAIN "owner: '[a b] || `c d`'\n");
}

#define READY "      ready: a = 0\n"
#define DONE "      done: a = 2\n"
#define FAILED "      failed: a = 3\n"

/* Under `work:`, in a document that has the workflow `order`. */
static void assert_lists(const char *more, const char *words)
{
	struct buf yaml = BUF_INIT;
	struct reading r;
	buf_addf(&yaml,
	         "databases: [{name: main, url: '" SQLITE_URL "'}]\n"
	         "workflows: [{name: order, steps: [{name: a, run: [x]}]}]\n"
	         "watches:\n  - name: pages\n    table: pages\n    key: id\n    running: a = 1\n"
	         "    alive_at: u\n    stuck_after: 60m\n    requeue: a = 0\n    work:\n"
	         "%s",
	         more);
	reading_open(&r, buf_text(&yaml));
	if (r.reader.nerrors != (words ? 1 : 0) || (words && !reading_said(&r, words, false))) {
		print_problems(&r);
		fail_msg("%s: not just \"%s\"", more, words ? words : "nothing");
	}
	reading_release(&r);
	buf_release(&yaml);
}

/* The same, with all that a worker needs. */
static void assert_work(const char *more, const char *words)
{
	AUTO_BUF lists = BUF_INIT;
	buf_add(&lists, READY "      claim: a = 1\n" DONE FAILED);
	buf_add(&lists, more);
	assert_lists(buf_text(&lists), words);
}

static void each_end_of_a_job_must_be_given(void **state)
{
	(void)state;
	assert_lists(READY, "work.claim is missing");
	assert_lists(READY "      claim: a = 1\n" FAILED, "work.done is missing");
	assert_lists(READY "      claim: a = 1\n" DONE, "work.failed is missing");
	assert_lists(READY "      claim: a = 1\n" DONE FAILED, NULL);
	assert_lists(READY "      enabled: false\n", NULL);
	assert_lists("      ready: a = 1\n" DONE FAILED, NULL);
}

static void a_row_that_nobody_makes_ready_again_needs_release(void **state)
{
	static const struct demand demands[] = {
		{ALIVE "stuck_after: 1h\nremedies: [{do: report}]\nwork: {" ENDS
	           "ready: a = 0, claim: a = 1}\n",
	     "work.release is missing"},
	};
	(void)state;
	REFUSED(STORE_SQLITE, demands);
}

/* What a list writes is compared with running and ready, as far as the text alone says it. */
static void lists_that_do_the_opposite_are_seen(void **state)
{
	(void)state;
	assert_lists(READY "      claim: a = 2\n" DONE FAILED, "does not match running");
	assert_lists("      ready: b = 5\n      claim: a = 1, b = '5'\n" DONE FAILED,
	             "still matches work.ready");
	assert_lists(READY "      claim: a = 1\n      done: A = 1\n" FAILED, "work.done leaves a row");
	assert_lists(READY "      claim: a = 1\n      done: a = 0, b = 7\n" FAILED,
	             "run again and again");
	assert_lists(READY "      claim: a = 1\n" DONE "      failed: b = f(1, 2), \"A\" = 1\n",
	             "work.failed leaves a row");
	assert_work("      timed_out: a = 1\n", "work.timed_out leaves a row");
	assert_work("      release: a = 1\n", "work.release leaves a row");
	assert_work("      retry: a = 1\n", "work.retry leaves a row");
	/* Ready again after an error is the user's own way to try again. */
	assert_lists(READY "      claim: a = 1\n" DONE "      failed: a = 0\n", NULL);
	/* Nothing is certain about these. */
	assert_lists("      ready: a = 1 OR a = 0\n      claim: a = 1\n" DONE FAILED, NULL);
	assert_lists("      ready: NOT a = 1\n      claim: a = 1\n" DONE FAILED, NULL);
	assert_lists(READY "      claim: a = 1\n      done: a = 1 + 1\n" FAILED, NULL);
	assert_lists(
		"      ready: a = 0 AND b < 3\n      claim: a = 1\n      done: a = 0, b = 3\n" FAILED,
		NULL);
}

static void steps_and_beats_of_a_table_need_what_they_are_about(void **state)
{
	(void)state;
	assert_work("      workflow: order\n", NULL);
	assert_work("      workflow: ordre\n",
	            "there is no workflow \"ordre\"; did you mean \"order\"?");
	assert_work("      step: a = 0\n", "need work.workflow");
	assert_work("      workflow: order\n      rollback_ready: a = 2\n",
	            "work.rollback_ready needs work.rolled_back");
	assert_work("      workflow: order\n      rolled_back: a = 2\n",
	            "work.rolled_back needs work.rollback_ready");
	assert_work("      workflow: order\n      release: a = 0\n", NULL);
	assert_work("      beat: [UPDATE b SET at = 1]\n", "work.beat needs beat:");
}

static void own_workers_beat_three_times_before_they_are_silent(void **state)
{
	static const char yaml[] =
		"beat: 30s\nstuck_after: %ds\nwork:\n  enabled: false\n  ready: a = 0\n"
		"  beat: [UPDATE b SET at = 1]\n";
	struct buf keys = BUF_INIT;
	(void)state;
	buf_add(&keys, ALIVE);
	buf_addf(&keys, yaml, 90);
	assert_accepted(STORE_SQLITE, buf_text(&keys));
	buf_clear(&keys);
	buf_add(&keys, ALIVE);
	buf_addf(&keys, yaml, 89);
	assert_refused(STORE_SQLITE,
	               &(struct demand){buf_text(&keys), "30s is over a third of stuck_after 1m 29s"},
	               1);
	buf_release(&keys);
}

static void a_brake_must_be_able_to_hold_and_to_let_go(void **state)
{
	static const struct demand demands[] = {
		{PLAIN "guard: {brake_share: 0}\n", "above 0, at most 1"},
		{PLAIN "guard: {brake_share: 1.01}\n", "above 0, at most 1"},
		{PLAIN "guard: {brake_ceiling: 0s}\n", "write guard: off instead"},
		{PLAIN "guard: {pace: -1}\n", "pace"},
	};
	(void)state;
	REFUSED(STORE_SQLITE, demands);
	assert_accepted(STORE_SQLITE, PLAIN "guard: {brake_share: 1, pace: 0}\n");
	assert_accepted(STORE_SQLITE, PLAIN "guard: off\n");
}

static void problems_name_the_line_they_are_on(void **state)
{
	struct reading r;
	(void)state;
	open_as(STORE_SQLITE, &r, PLAIN "requeue: (a\n");
	assert_int_equal(r.reader.nerrors, 1);
	/* There are three lines before, and requeue is the sixth of the keys. */
	assert_int_equal(r.reader.problems[0].at.line, 9);
	assert_int_equal(r.reader.problems[0].at.col, 14);
	reading_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_watch_must_be_able_to_judge),
		cmocka_unit_test(each_kind_of_sign_is_enough_to_judge),
		cmocka_unit_test(thresholds_must_make_sense),
		cmocka_unit_test(a_threshold_under_twice_the_beat_is_refused),
		cmocka_unit_test(rules_must_be_possible),
		cmocka_unit_test(what_bounds_or_does_nothing_is_warned_about),
		cmocka_unit_test(keys_and_shown_columns_have_a_limit),
		cmocka_unit_test(end_and_end_when_go_together),
		cmocka_unit_test(sql_must_be_closed_wherever_it_stands),
		cmocka_unit_test(an_expression_cannot_break_out_of_its_parentheses),
		cmocka_unit_test(set_lists_must_be_set_lists),
		cmocka_unit_test(unknown_parameters_are_refused_with_the_nearest),
		cmocka_unit_test(predicates_and_statements_take_no_parameters),
		cmocka_unit_test(every_promised_parameter_is_known_where_it_is_promised),
		cmocka_unit_test(sql_is_read_as_its_engine_does),
		cmocka_unit_test(each_end_of_a_job_must_be_given),
		cmocka_unit_test(a_row_that_nobody_makes_ready_again_needs_release),
		cmocka_unit_test(lists_that_do_the_opposite_are_seen),
		cmocka_unit_test(steps_and_beats_of_a_table_need_what_they_are_about),
		cmocka_unit_test(own_workers_beat_three_times_before_they_are_silent),
		cmocka_unit_test(a_brake_must_be_able_to_hold_and_to_let_go),
		cmocka_unit_test(problems_name_the_line_they_are_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
