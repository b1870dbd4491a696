/* SPDX-License-Identifier: Apache-2.0
 * by_hand_test.c: an operator's call whose database fails at any statement. Either the call says
 * that it failed, or each job has an outcome; and what it says was done is what was done.
 */
#include "recover/by_hand.h"
#include "recover/faulty_test.h"

#include "recover/recover_test.h"

#define JOBS 3

static void prepare(struct rig *g)
{
	plan = NULL;
	rig_fill(g, JOBS);
}

RIG(prepare)

static defib_err requeue(struct rig *g, struct by_hand_result *r)
{
	static const char *const jobs[JOBS] = {"1", "2", "3"};
	struct session session = {.options = {.url = g->url, .name = "rig"}, .open = open_faulty};
	struct by_hand_options o = {
		.act = REMEDY_REQUEUE, .reason = "it was stuck", .actor = "test", .override_guard = true};
	defib_err err = by_hand(&session, rig_watch(g, "beat_at", RIG_REQUEUE), &o, jobs, JOBS, r);
	session_close(&session);
	return err;
}

static int64_t outcomes(const struct by_hand_result *r)
{
	int64_t n = 0;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		n += r->outcomes[i];
	return n;
}

static void a_statement_that_fails_is_never_a_success_without_outcomes(void **state)
{
	struct rig *g = rig_of(state);
	static const defib_err codes[] = {DEFIB_BAD_SQL, DEFIB_CONNECTION};
	for (size_t c = 0; c < sizeof codes / sizeof *codes; c++)
		for (int nth = 1, fired = 1; fired; nth++) {
			struct fault_plan p = {.call = FAULT_EXEC, .nth = nth, .code = codes[c]};
			struct by_hand_result r;
			plan = &p;
			defib_err err = requeue(g, &r);
			fired = p.fired;
			assert_true(err || outcomes(&r) == JOBS);
			assert_int_equal(r.outcomes[OUTCOME_RECOVERED], rig_requeued(g));
			rig_agrees(g);
			plan = NULL;
			assert_int_equal(requeue(g, &r), DEFIB_OK);
			assert_int_equal(rig_requeued(g), JOBS);
			rig_sql(g, "UPDATE jobs SET status = 'running', error = NULL, owner = 'w' || id");
			rig_sql(g, g->engine == STORE_POSTGRES ? "DROP SCHEMA defib CASCADE"
			                                       : "DROP TABLE defib_ledger");
		}
}

/* A key of two columns: what is no such key is no job, like a key that nobody has. */
static void only_a_job_that_may_end_is_ended_and_only_once(void **state)
{
	static const char *const keys[] = {"id", "kind"};
	static const struct {
		const char *job;
		enum ending ending;
	} rows[] = {
		{"[1, \"a\"]", ENDING_MARKED},  {"[\"1\",\"a\"]", ENDING_PAST},
		{"[7, \"a\"]", ENDING_MISSING}, {"[2, \"b\"]", ENDING_MISSING},
		{"[2]", ENDING_MISSING},        {"2", ENDING_MISSING},
		{"{}", ENDING_MISSING},         {"", ENDING_MISSING},
	};
	struct rig *g = rig_of(state);
	struct watch w = *rig_watch(
		g, "beat_at", RIG_REQUEUE "    end: status = 'ending'\n    end_when: status = 'running'\n");
	w.key = (struct text_list){2, (const char **)keys};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct end_options o = {.job = rows[i].job, .actor = "test", .reason = "enough"};
		struct session session = rig_session(g);
		struct failure f = {0};
		enum ending ending = ENDING_LOCKED;
		if (end_job(&session, &w, &o, &ending, &f))
			fail_msg("%s: %s", rows[i].job, f.what);
		assert_int_equal(ending, rows[i].ending);
		session_close(&session);
	}
	assert_int_equal(number(g->other, "SELECT count(*) FROM jobs WHERE status = 'ending'"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(only_a_job_that_may_end_is_ended_and_only_once),
		BOTH(a_statement_that_fails_is_never_a_success_without_outcomes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
