/* SPDX-License-Identifier: Apache-2.0
 * source_queue_steps_test.c: the rules of workflows in the database, the same on both engines,
 * although one has functions and the other statements: what is recorded, the next state of the job,
 * and the ledger entries.
 */
#include "store/fault_test.h"
#include "worker/queue.h"
#include "worker/source_queue.h"
#include "worker/source_test.h"
#include "worker/workflow.h"

#include <stdarg.h>

#define STEPS "PG(defib.step|defib_step)"
#define ATTEMPTS "PG(defib.step_attempt|defib_step_attempt)"

static const struct step_end run_a = {STEP_SIDE_RUN, "a", 0, true, true, NULL};
static const struct step_end run_b = {STEP_SIDE_RUN, "b", 1, true, true, NULL};
static const struct step_end run_c = {STEP_SIDE_RUN, "c", 2, false, true, NULL};
static const struct step_end plain_a = {STEP_SIDE_RUN, "a", 0, true, false, NULL};
static const struct step_end plain_b = {STEP_SIDE_RUN, "b", 1, false, false, NULL};
static const struct step_end undo_b = {STEP_SIDE_UNDO, "b", 1, true, true, NULL};
static const struct step_end undo_a = {STEP_SIDE_UNDO, "a", 0, false, true, NULL};

/* A queue with one job of `max` attempts, and a worker. */
static struct bench *flow_of(void **state, int max, int64_t *worker)
{
	struct bench *b = bench_of(state);
	char sql[256];
	b->source = source_queue("q", NULL);
	snprintf(sql, sizeof sql,
	         "INSERT INTO %s (queue, kind, max_attempts%s) VALUES ('q', 'w', %d%s)",
	         b->rig.engine == STORE_POSTGRES ? "defib.job" : "defib_job",
	         b->rig.engine == STORE_POSTGRES ? "" : ", created_at, run_at", max,
	         b->rig.engine == STORE_POSTGRES ? "" : ", 0, 0");
	rig_sql(&b->rig, sql);
	*worker = bench_worker(b);
	return b;
}

static bool settle(struct bench *b, int64_t worker, const struct claimed *job, enum settle_as as,
                   const struct step_end *step, const char *said)
{
	struct failure f = {0};
	struct settlement s = {.key = job->key,
	                       .epoch = job->epoch,
	                       .as = as,
	                       .result = as == SETTLE_DONE ? said : NULL,
	                       .error = as == SETTLE_DONE ? NULL : said,
	                       .delay_ms = 0,
	                       .step = *step};
	if (b->source->ops->settle(b->source, b->two, worker, &s, 1, &b->arena, &f))
		fail_msg("%s", f.what);
	return s.accepted;
}

/* Claim the job and settle it like this. */
static struct claimed step(struct bench *b, int64_t worker, enum settle_as as,
                           const struct step_end *end, const char *said)
{
	struct failure f = {0};
	assert_int_equal(b->source->ops->promote(b->source, b->two, &f), 0);
	struct claimed job = bench_one(b, worker);
	assert_true(settle(b, worker, &job, as, end, said));
	return job;
}

PRINTF_LIKE(2, 3) static int64_t count(struct bench *b, const char *fmt, ...)
{
	char from[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(from, sizeof from, fmt, args);
	va_end(args);
	return bench_number(b, arena_printf(&b->arena, "SELECT count(*) FROM %s", from));
}

static bool job_is(struct bench *b, const char *condition)
{
	return count(b, JOBS_TABLE " WHERE owner IS NULL AND %s", condition) == 1;
}

static bool step_is(struct bench *b, const char *name, const char *condition)
{
	return count(b, STEPS " WHERE watch = 'queue' AND job = '1' AND step = '%s' AND %s", name,
	             condition) == 1;
}

static bool attempt_is(struct bench *b, const char *step, int64_t epoch, const char *condition)
{
	return count(b,
	             ATTEMPTS " WHERE watch = 'queue' AND job = '1' AND step = '%s' AND epoch = %lld "
	                      "AND started_at <= ended_at AND worker IS NOT NULL AND %s",
	             step, (long long)epoch, condition) == 1;
}

static int64_t noted(struct bench *b, const char *event, const char *like)
{
	return count(b,
	             LEDGER " WHERE watch = 'queue' AND job = '1' AND event = '%s' AND "
	                    "replace(CAST(evidence AS text), ' ', '') LIKE '%s'",
	             event, like);
}

/* Up to the point where b and a must be undone. */
static void begin_rollback(struct bench *b, int64_t w)
{
	step(b, w, SETTLE_DONE, &run_a, "1");
	step(b, w, SETTLE_DONE, &run_b, "2");
	step(b, w, SETTLE_PERMANENT, &run_c, "c: no");
}

/* ---- forward ---- */

static void step_is_recorded_and_the_job_given_back(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	struct claimed first = step(b, w, SETTLE_DONE, &run_a, "{\"n\":7}");
	assert_null(first.steps);
	assert_false(first.undoing);
	assert_true(job_is(b, "state = 'queued' AND attempts = 0 AND saga AND NOT undoing AND cause "
	                      "IS NULL AND finished_at IS NULL"));
	assert_true(step_is(b, "a",
	                    "state = 'done' AND position = 0 AND epoch = 1 AND started_at IS "
	                    "NOT NULL AND error IS NULL"));
	assert_int_equal(bench_number(b, "SELECT output->>'n' FROM " STEPS), 7);
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM PG(defib.job_data|defib_job_data) WHERE result IS "
	                    "NOT NULL"),
		0);
}

static void next_claim_knows_the_steps_in_order(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	struct step_records all;
	step(b, w, SETTLE_DONE, &run_a, "{\"big\": 123456789012345678901234567890}");
	step(b, w, SETTLE_DONE, &run_b, NULL);
	struct claimed job = bench_one(b, w);
	assert_true(step_records_parse(job.steps, &b->arena, &all));
	assert_int_equal(all.n, 2);
	assert_string_equal(all.items[0].name, "a");
	assert_non_null(strstr(all.items[0].output, "123456789012345678901234567890"));
	assert_string_equal(all.items[1].name, "b");
	assert_null(all.items[1].output);
	assert_int_equal(job.attempt, 1);
	assert_int_equal(job.epoch, 3);
}

static void last_step_ends_the_job_with_its_output(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	step(b, w, SETTLE_DONE, &plain_a, "1");
	assert_true(job_is(b, "NOT saga"));
	step(b, w, SETTLE_DONE, &plain_b, "2");
	assert_true(job_is(b, "state = 'done' AND finished_at IS NOT NULL"));
	assert_int_equal(
		bench_number(b,
	                 "SELECT CAST(result AS PG(text|TEXT)) FROM PG(defib.job_data|defib_job_data)"),
		2);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " STEPS), 2);
}

static void failing_step_is_tried_again_and_counts_its_own_attempts(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 2, &w);
	step(b, w, SETTLE_FAILED, &run_a, "a: e");
	assert_true(job_is(b, "state = 'scheduled' AND attempts = 1 AND error = 'a: e'"));
	step(b, w, SETTLE_DONE, &run_a, NULL);
	assert_true(job_is(b, "error IS NULL"));
	step(b, w, SETTLE_FAILED, &run_b, "b: e");
	assert_true(job_is(b, "state = 'scheduled' AND attempts = 1 AND cause = 'error'"));
}

static void failure_without_a_saga_ends_the_job(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 1, &w);
	step(b, w, SETTLE_DONE, &plain_a, NULL);
	step(b, w, SETTLE_TIMED_OUT, &plain_b, "b: t");
	assert_true(job_is(b, "state = 'timed_out' AND NOT undoing AND cause = 'time-out'"));
	assert_true(step_is(b, "a", "state = 'done'"));
}

static void failure_of_the_first_step_has_nothing_to_undo(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	step(b, w, SETTLE_PERMANENT, &run_a, "a: e");
	assert_true(job_is(b, "state = 'failed' AND NOT undoing AND finished_at IS NOT NULL"));
	assert_int_equal(noted(b, "ROLLBACK_STARTED", "%"), 0);
}

static void step_marked_again_is_recorded_anew(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	step(b, w, SETTLE_DONE, &run_a, "1");
	bench_sql(b, "UPDATE " STEPS " SET state = 'again', error = 'x'");
	struct claimed job = step(b, w, SETTLE_DONE, &run_a, "5");
	assert_non_null(strstr(job.steps, "again"));
	assert_true(step_is(b, "a",
	                    "state = 'done' AND error IS NULL AND epoch = 2 AND "
	                    "CAST(output AS PG(text|TEXT)) = '5'"));
}

static void released_step_is_given_back_as_it_was(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	step(b, w, SETTLE_DONE, &run_a, NULL);
	step(b, w, SETTLE_STOPPED, &run_b, NULL);
	assert_true(job_is(b, "state = 'queued' AND attempts = 0 AND NOT undoing"));
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " STEPS), 1);
}

static void cancelled_job_keeps_the_step_that_was_done(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	struct claimed job = bench_one(b, w);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET state = 'cancelling'");
	assert_true(settle(b, w, &job, SETTLE_DONE, &run_a, NULL));
	assert_true(job_is(b, "state = 'cancelled' AND finished_at IS NOT NULL"));
	assert_true(step_is(b, "a", "state = 'done'"));
}

/* ---- attempts ---- */

static void attempts_that_finish_no_step_are_kept_with_their_errors(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	step(b, w, SETTLE_FAILED, &run_a, "a: e");
	step(b, w, SETTLE_STOPPED, &run_a, NULL);
	step(b, w, SETTLE_TIMED_OUT, &run_a, "a: slow");
	step(b, w, SETTLE_DONE, &run_a, "1");
	step(b, w, SETTLE_PERMANENT, &plain_b, "b: no");
	assert_true(attempt_is(b, "a", 1, "attempt = 1 AND outcome = 'failed' AND error = 'a: e'"));
	assert_true(attempt_is(b, "a", 2, "attempt = 2 AND outcome = 'stopped' AND error IS NULL"));
	assert_true(attempt_is(b, "a", 3, "attempt = 2 AND outcome = 'timed_out'"));
	assert_true(step_is(b, "a", "epoch = 4 AND attempt = 3 AND worker IS NOT NULL"));
	assert_true(attempt_is(b, "b", 5, "attempt = 1 AND position = 1 AND outcome = 'permanent'"));
	assert_int_equal(count(b, ATTEMPTS " WHERE NOT undo"), 4);
}

static void newest_20_attempts_of_a_step_are_kept(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	step(b, w, SETTLE_RETRY, &run_a, "a: e");
	step(b, w, SETTLE_DONE, &run_a, NULL);
	for (int i = 0; i < 21; i++)
		step(b, w, SETTLE_RETRY, &run_b, "b: e");
	assert_int_equal(count(b, ATTEMPTS " WHERE step = 'b' AND epoch > 3"), 20);
	assert_int_equal(count(b, ATTEMPTS " WHERE step = 'a'"), 1);
}

static void run_of_an_undone_step_is_kept_beside_its_undos(void **state)
{
	static const struct step_end rest = {
		STEP_SIDE_UNDO, "b",  1,
		false,          true, "[{\"step\":\"a\",\"state\":\"undone\",\"error\":null}]"};
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	begin_rollback(b, w);
	step(b, w, SETTLE_STOPPED, &rest, NULL);
	assert_int_equal(count(b, ATTEMPTS " WHERE outcome = 'done'"), 0);
	step(b, w, SETTLE_FAILED, &rest, "closed");
	assert_true(attempt_is(b, "b", 2, "attempt = 1 AND NOT undo AND outcome = 'done'"));
	assert_true(attempt_is(b, "b", 5, "attempt = 1 AND undo AND error = 'closed'"));
	assert_int_equal(count(b, ATTEMPTS " WHERE step = 'a'"), 0);
	step(b, w, SETTLE_PERMANENT, &rest, "no");
	assert_true(step_is(b, "b",
	                    "state = 'undo_failed' AND error = 'no' AND epoch = 6 AND "
	                    "attempt = 2 AND started_at IS NOT NULL"));
	assert_true(step_is(b, "a", "state = 'undone' AND attempt IS NULL AND started_at IS NULL"));
	assert_true(attempt_is(b, "a", 1, "NOT undo AND outcome = 'done'"));
	assert_int_equal(count(b, ATTEMPTS), 5);
}

/* ---- backward ---- */

static void failure_for_good_begins_a_rollback(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 1, &w);
	step(b, w, SETTLE_DONE, &run_a, NULL);
	step(b, w, SETTLE_CRASHED, &run_b, "b: SIGSEGV");
	assert_true(job_is(b, "state = 'queued' AND undoing AND attempts = 0 AND cause = 'crash' AND "
	                      "error = 'b: SIGSEGV' AND crashes = 1 AND finished_at IS NULL"));
	assert_int_equal(noted(b, "ROLLBACK_STARTED", "%\"step\":\"b\"%"), 1);
	assert_true(bench_one(b, w).undoing);
}

static void undo_goes_on_until_the_job_is_rolled_back(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	begin_rollback(b, w);
	step(b, w, SETTLE_DONE, &undo_b, NULL);
	assert_true(step_is(b, "b", "state = 'undone' AND epoch = 4"));
	assert_true(job_is(b, "state = 'queued' AND undoing AND attempts = 0"));
	step(b, w, SETTLE_DONE, &undo_a, NULL);
	assert_true(step_is(b, "a", "state = 'undone' AND CAST(output AS PG(text|TEXT)) = '1'"));
	assert_true(job_is(b, "state = 'rolled_back' AND NOT undoing AND NOT saga AND error = 'c: no' "
	                      "AND cause = 'error' AND finished_at IS NOT NULL"));
	assert_int_equal(noted(b, "ROLLED_BACK", "%\"undone\":[\"b\",\"a\"]%"), 1);
	assert_int_equal(noted(b, "ROLLED_BACK", "%\"not_undone\":[]%"), 1);
	assert_int_equal(noted(b, "UNDO_FAILED", "%"), 0);
}

static void failing_undo_is_tried_again_and_keeps_why_it_began(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 2, &w);
	begin_rollback(b, w);
	step(b, w, SETTLE_TIMED_OUT, &undo_b, "slow");
	assert_true(job_is(b, "state = 'scheduled' AND undoing AND error = 'c: no' AND attempts = 1"));
	assert_true(step_is(b, "b", "state = 'done' AND error = 'slow'"));
	step(b, w, SETTLE_DONE, &undo_b, NULL);
	assert_true(step_is(b, "b", "state = 'undone' AND error IS NULL"));
}

static void undo_that_fails_for_good_is_told_and_the_rest_goes_on(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	begin_rollback(b, w);
	step(b, w, SETTLE_PERMANENT, &undo_b, "exit code 65");
	assert_true(step_is(b, "b", "state = 'undo_failed' AND error = 'exit code 65'"));
	assert_true(job_is(b, "state = 'queued' AND undoing"));
	assert_int_equal(noted(b, "UNDO_FAILED", "%\"step\":\"b\"%"), 1);
	step(b, w, SETTLE_DONE, &undo_a, NULL);
	assert_true(job_is(b, "state = 'rolled_back' AND error = 'c: no; could not undo: b (exit code "
	                      "65)'"));
	assert_int_equal(noted(b, "ROLLED_BACK", "%\"undone\":[\"a\"]%"), 1);
	assert_int_equal(noted(b, "ROLLED_BACK", "%\"not_undone\":[{%\"b\"%}]%"), 1);
}

static void steps_without_an_undo_pass_together(void **state)
{
	static const struct step_end all = {
		STEP_SIDE_UNDO,
		NULL,
		0,
		false,
		true,
		"[{\"step\":\"b\",\"state\":\"undone\",\"error\":null},"
		"{\"step\":\"a\",\"state\":\"undo_failed\",\"error\":\"gone\"}]"};
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	begin_rollback(b, w);
	step(b, w, SETTLE_DONE, &all, NULL);
	assert_true(step_is(b, "b", "state = 'undone'"));
	assert_true(step_is(b, "a", "state = 'undo_failed' AND error = 'gone'"));
	assert_int_equal(noted(b, "UNDO_FAILED", "%\"step\":\"a\"%"), 1);
	assert_true(job_is(b, "state = 'rolled_back' AND error = 'c: no; could not undo: a (gone)'"));
}

static void job_with_nothing_to_undo_is_rolled_back(void **state)
{
	static const struct step_end nothing = {STEP_SIDE_UNDO, NULL, 0, false, false, NULL};
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET undoing = PG(true|1)");
	step(b, w, SETTLE_DONE, &nothing, NULL);
	assert_true(job_is(b, "state = 'rolled_back' AND error IS NULL AND NOT undoing"));
	assert_int_equal(noted(b, "ROLLED_BACK", "%"), 1);
}

static void job_that_is_undoing_is_not_cancelled(void **state)
{
	int64_t w;
	char answer[16];
	struct failure f = {0};
	struct bench *b = flow_of(state, 3, &w);
	begin_rollback(b, w);
	assert_int_equal(cancel_job(b->two, 1, answer, &f), 0);
	assert_string_equal(answer, "");
	assert_true(job_is(b, "state = 'queued' AND undoing"));
}

/* ---- fenced ---- */

static void stale_step_changes_nothing_and_is_evidence(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	struct claimed job = bench_one(b, w);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET state = 'queued', owner = NULL, cause = 'lost'");
	assert_false(settle(b, w, &job, SETTLE_DONE, &run_a, "1"));
	assert_true(job_is(b, "state = 'queued' AND cause = 'lost'"));
	/* another has it by now, or it has it again */
	int64_t two = bench_worker(b);
	struct claimed again = bench_one(b, two);
	assert_false(settle(b, w, &job, SETTLE_DONE, &run_a, "1"));
	assert_false(settle(b, two, &job, SETTLE_DONE, &run_a, "1"));
	assert_false(settle(b, w, &again, SETTLE_DONE, &run_a, "1"));
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " STEPS), 0);
	assert_int_equal(bench_late(b), 4);
	assert_int_equal(bench_number(b, "SELECT owner FROM " JOBS_TABLE), two);
}

static void repeated_settlement_of_a_step_is_accepted(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 1, &w);
	struct claimed one = step(b, w, SETTLE_DONE, &run_a, "1");
	assert_true(settle(b, w, &one, SETTLE_DONE, &run_a, "1"));
	assert_false(settle(b, w, &one, SETTLE_FAILED, &run_a, "e"));
	assert_int_equal(bench_late(b), 1);
	struct claimed two = step(b, w, SETTLE_DONE, &run_b, "2");
	/* also when the job has moved on */
	assert_true(settle(b, w, &one, SETTLE_DONE, &run_a, "1"));
	assert_true(settle(b, w, &two, SETTLE_DONE, &run_b, "2"));
	struct claimed three = step(b, w, SETTLE_PERMANENT, &run_c, "c: e");
	assert_true(settle(b, w, &three, SETTLE_PERMANENT, &run_c, "c: e"));
	assert_int_equal(noted(b, "ROLLBACK_STARTED", "%"), 1);
	struct claimed four = step(b, w, SETTLE_FAILED, &undo_b, "e");
	assert_true(settle(b, w, &four, SETTLE_FAILED, &undo_b, "e"));
	struct claimed five = step(b, w, SETTLE_DONE, &undo_a, NULL);
	assert_true(settle(b, w, &five, SETTLE_DONE, &undo_a, NULL));
	assert_int_equal(noted(b, "ROLLED_BACK", "%"), 1);
	assert_int_equal(noted(b, "UNDO_FAILED", "%"), 1);
	assert_int_equal(bench_late(b), 1);
}

static void rollback_by_recovery_is_not_taken_for_a_repeated_settlement(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 1, &w);
	step(b, w, SETTLE_DONE, &run_a, "1");
	struct claimed job = bench_one(b, w);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET state = 'queued', owner = NULL, cause = 'lost', "
	             "undoing = PG(true|1)");
	assert_false(settle(b, w, &job, SETTLE_FAILED, &run_b, "e"));
	assert_int_equal(bench_late(b), 1);
}

static void steps_and_plain_jobs_settle_in_one_call(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	struct failure f = {0};
	struct claimed *jobs;
	bench_sql(b, "INSERT INTO " JOBS_TABLE " (queue, kind, created_at, run_at) VALUES ('q', 'k', "
	             "PG('2026-01-01', '2026-01-01'|0, 0))");
	assert_int_equal(bench_claim(b, w, 2, &jobs), 2);
	struct settlement all[] = {
		{.key = jobs[1].key, .epoch = 1, .as = SETTLE_DONE, .result = "8", .delay_ms = -1},
		{.key = jobs[0].key, .epoch = 1, .as = SETTLE_DONE, .result = "9", .step = run_a},
	};
	assert_int_equal(b->source->ops->settle(b->source, b->two, w, all, 2, &b->arena, &f), 0);
	assert_true(all[0].accepted && all[1].accepted);
	assert_true(job_is(b, "id = 1 AND state = 'queued'"));
	assert_true(job_is(b, "id = 2 AND state = 'done'"));
	assert_int_equal(bench_number(b, "SELECT job FROM PG(defib.job_data|defib_job_data)"), 2);
}

/* Whichever statement fails, from the first step until all are undone. */
static void an_end_of_a_step_whose_statement_fails_is_an_error(void **state)
{
	static const struct {
		enum settle_as as;
		const struct step_end *step;
	} ends[] = {{SETTLE_DONE, &run_a},
	            {SETTLE_DONE, &run_b},
	            {SETTLE_PERMANENT, &run_c},
	            {SETTLE_PERMANENT, &undo_b},
	            {SETTLE_DONE, &undo_a}};
	struct failure f = {0};
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		assert_int_equal(b->source->ops->promote(b->source, b->two, &f), 0);
		struct claimed job = bench_one(b, w);
		for (int nth = 1, fired = 1; fired; nth++) {
			struct fault_plan plan = {.call = FAULT_EXEC, .nth = nth, .code = DEFIB_BAD_SQL};
			struct fault_store *s = (struct fault_store *)fault_wrap(b->two, &plan);
			struct settlement end = {
				.key = job.key, .epoch = job.epoch, .as = ends[i].as, .step = *ends[i].step};
			assert_int_equal(store_begin(&s->base, TX_WRITE, &f), DEFIB_OK);
			defib_err err = b->source->ops->settle(b->source, &s->base, w, &end, 1, &b->arena, &f);
			fired = plan.fired;
			assert_int_equal(err, fired ? DEFIB_BAD_SQL : DEFIB_OK);
			assert_true(fired || end.accepted);
			store_rollback(&s->base);
			free(s);
		}
		assert_true(settle(b, w, &job, ends[i].as, ends[i].step, NULL));
	}
	assert_true(job_is(b, "state = 'rolled_back'"));
}

static void kinds_that_were_not_named_stay_queued(void **state)
{
	static const char *const kinds[] = {"x", "w\"'", "w"};
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	struct claimed *jobs;
	bench_sql(b, "INSERT INTO " JOBS_TABLE " (queue, kind, created_at, run_at) VALUES ('q', 'k', "
	             "PG('2026-01-01', '2026-01-01'|0, 0))");
	b->source->ops->free(b->source);
	b->source = source_queue_kinds("q", kinds, 3);
	assert_int_equal(bench_claim(b, w, 9, &jobs), 1);
	assert_string_equal(jobs[0].kind, "w");
	assert_int_equal(bench_claim(b, w, 9, &jobs), 0);
}

/* A released job is above what was claimed since, and is not skipped. */
static void next_step_is_claimed_at_once(void **state)
{
	int64_t w;
	struct bench *b = flow_of(state, 3, &w);
	for (int i = 0; i < 2; i++)
		bench_sql(b, "INSERT INTO " JOBS_TABLE " (queue, kind, created_at, run_at) VALUES ('q', "
		             "'k', PG('2026-01-01', '2026-01-01'|0, 0))");
	struct claimed job = bench_one(b, w);
	assert_string_equal(bench_one(b, w).key, "2");
	assert_true(settle(b, w, &job, SETTLE_DONE, &run_a, NULL));
	assert_string_equal(bench_one(b, w).key, "1");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(step_is_recorded_and_the_job_given_back),
		BOTH(next_claim_knows_the_steps_in_order),
		BOTH(last_step_ends_the_job_with_its_output),
		BOTH(failing_step_is_tried_again_and_counts_its_own_attempts),
		BOTH(failure_without_a_saga_ends_the_job),
		BOTH(failure_of_the_first_step_has_nothing_to_undo),
		BOTH(step_marked_again_is_recorded_anew),
		BOTH(released_step_is_given_back_as_it_was),
		BOTH(cancelled_job_keeps_the_step_that_was_done),
		BOTH(attempts_that_finish_no_step_are_kept_with_their_errors),
		BOTH(newest_20_attempts_of_a_step_are_kept),
		BOTH(run_of_an_undone_step_is_kept_beside_its_undos),
		BOTH(failure_for_good_begins_a_rollback),
		BOTH(undo_goes_on_until_the_job_is_rolled_back),
		BOTH(failing_undo_is_tried_again_and_keeps_why_it_began),
		BOTH(undo_that_fails_for_good_is_told_and_the_rest_goes_on),
		BOTH(steps_without_an_undo_pass_together),
		BOTH(job_with_nothing_to_undo_is_rolled_back),
		BOTH(job_that_is_undoing_is_not_cancelled),
		BOTH(stale_step_changes_nothing_and_is_evidence),
		BOTH(repeated_settlement_of_a_step_is_accepted),
		BOTH(rollback_by_recovery_is_not_taken_for_a_repeated_settlement),
		BOTH(steps_and_plain_jobs_settle_in_one_call),
		BOTH(an_end_of_a_step_whose_statement_fails_is_an_error),
		BOTH(kinds_that_were_not_named_stay_queued),
		BOTH(next_step_is_claimed_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
