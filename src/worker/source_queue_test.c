/* SPDX-License-Identifier: Apache-2.0
 * source_queue_test.c: the built-in queue as a source: one set of rules on both engines, although
 * one has functions and the other statements.
 */
#include "worker/source_queue.h"
#include "worker/source_test.h"

static struct bench *queue_of(void **state)
{
	struct bench *b = bench_of(state);
	b->source = source_queue("q", NULL);
	return b;
}

/* A job that is ready; `more` are further columns and their values. */
static void enqueue(struct bench *b, const char *columns, const char *values)
{
	struct buf sql = BUF_INIT;
	buf_addf(&sql, "INSERT INTO %s (queue, kind%s%s) VALUES ('q', 'k'%s%s)",
	         b->rig.engine == STORE_POSTGRES ? "defib.job" : "defib_job",
	         b->rig.engine == STORE_POSTGRES ? "" : ", created_at, run_at", columns,
	         b->rig.engine == STORE_POSTGRES ? "" : ", 0, 0", values);
	rig_sql(&b->rig, buf_text(&sql));
	buf_release(&sql);
}

static int64_t in_state(struct bench *b, const char *name)
{
	char sql[128];
	snprintf(sql, sizeof sql, "SELECT count(*) FROM " JOBS_TABLE " WHERE state = '%s'", name);
	return bench_number(b, sql);
}

static void greater_priority_goes_first_then_the_older(void **state)
{
	struct bench *b = queue_of(state);
	struct claimed *jobs;
	enqueue(b, "", "");
	enqueue(b, ", priority", ", 5");
	enqueue(b, ", priority", ", 5");
	enqueue(b, ", priority", ", -5");
	int64_t w = bench_worker(b);
	assert_int_equal(bench_claim(b, w, 3, &jobs), 3);
	assert_string_equal(jobs[0].key, "2");
	assert_string_equal(jobs[1].key, "3");
	assert_string_equal(jobs[2].key, "1");
	assert_int_equal(jobs[0].epoch, 1);
	assert_int_equal(jobs[0].attempt, 1);
	assert_int_equal(jobs[0].max_attempts, 5);
	assert_string_equal(jobs[0].queue, "q");
	assert_string_equal(bench_one(b, w).key, "4");
	assert_int_equal(bench_claim(b, w, 3, &jobs), 0);
}

static void late_urgent_job_is_not_passed_over(void **state)
{
	struct bench *b = queue_of(state);
	enqueue(b, "", "");
	enqueue(b, "", "");
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	assert_string_equal(bench_one(b, w).key, "1");
	/* Claims may skip a part of the index for a moment, but everything is found in the end. */
	enqueue(b, ", priority", ", 9");
	struct claimed *jobs;
	int n = 0;
	for (int look = 0; look < 4; look++)
		n += bench_claim(b, w, 1, &jobs);
	assert_int_equal(n, 3);
	assert_int_equal(in_state(b, "running"), 4);
}

static void only_its_queue_and_kind_are_claimed(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	enqueue(b, "", "");
	bench_sql(b, "UPDATE " JOBS_TABLE " SET kind = 'other'");
	enqueue(b, "", "");
	b->source = source_queue("q", "k");
	int64_t w = bench_worker(b);
	assert_int_equal(bench_claim(b, w, 9, &jobs), 1);
	assert_string_equal(jobs[0].key, "2");
	b->source->ops->free(b->source);
	b->source = source_queue("elsewhere", NULL);
	assert_int_equal(bench_claim(b, w, 9, &jobs), 0);
}

static void row_that_somebody_has_locked_is_passed_over(void **state)
{
	struct bench *b = queue_of(state);
	struct claimed *jobs;
	struct failure f = {0};
	enqueue(b, "", "");
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	assert_int_equal(store_begin(b->two, TX_WRITE, &f), DEFIB_OK);
	assert_int_equal(run(b->two, "SELECT 1 FROM defib.job WHERE id = 1 FOR UPDATE", &f), DEFIB_OK);
	assert_int_equal(bench_claim(b, w, 2, &jobs), 1);
	assert_string_equal(jobs[0].key, "2");
	store_rollback(b->two);
	assert_string_equal(bench_one(b, w).key, "1");
}

static void dead_worker_claims_nothing(void **state)
{
	struct bench *b = queue_of(state);
	struct claimed *jobs;
	struct failure f = {0};
	int n;
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	bench_dies(b, w);
	assert_int_equal(b->source->ops->claim(b->source, b->two, w, 9, &b->arena, &jobs, &n, &f),
	                 DEFIB_LEASE_LOST);
	assert_int_equal(n, 0);
	assert_int_equal(in_state(b, "queued"), 1);
}

static void done_keeps_the_result(void **state)
{
	struct bench *b = queue_of(state);
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_DONE, "{\"n\":7}", NULL));
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE
	                                 " WHERE state = 'done' AND owner "
	                                 "IS NULL AND finished_at IS NOT NULL"),
	                 1);
	assert_int_equal(bench_number(b, "SELECT result->>'n' FROM "
	                                 "PG(defib.job_data|defib_job_data)"),
	                 7);
}

static void failure_is_scheduled_until_attempts_are_exhausted(void **state)
{
	struct bench *b = queue_of(state);
	enqueue(b, ", max_attempts", ", 2");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_FAILED, NULL, "e1"));
	assert_int_equal(in_state(b, "scheduled"), 1);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET run_at = PG('2026-01-01'|0)");
	struct failure f = {0};
	assert_int_equal(b->source->ops->promote(b->source, b->two, &f), 0);
	job = bench_one(b, w);
	assert_int_equal(job.attempt, 2);
	assert_int_equal(job.epoch, 2);
	assert_true(bench_settle(b, w, &job, SETTLE_FAILED, NULL, "e2"));
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE
	                                 " WHERE state = 'failed' AND cause "
	                                 "= 'error' AND error = 'e2'"),
	                 1);
}

static void time_out_and_crash_are_told_from_an_error(void **state)
{
	struct bench *b = queue_of(state);
	enqueue(b, ", max_attempts", ", 1");
	enqueue(b, ", max_attempts", ", 1");
	int64_t w = bench_worker(b);
	struct claimed one = bench_one(b, w), two = bench_one(b, w);
	assert_true(bench_settle(b, w, &one, SETTLE_TIMED_OUT, NULL, NULL));
	assert_true(bench_settle(b, w, &two, SETTLE_CRASHED, NULL, "signal 9"));
	assert_int_equal(in_state(b, "timed_out"), 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE
	                                 " WHERE state = 'failed' AND cause "
	                                 "= 'crash' AND crashes = 1"),
	                 1);
}

static void permanent_failure_is_not_tried_again(void **state)
{
	struct bench *b = queue_of(state);
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_PERMANENT, NULL, "never"));
	assert_int_equal(in_state(b, "failed"), 1);
}

static void retry_waits_for_the_time_that_the_job_asked_for(void **state)
{
	struct bench *b = queue_of(state);
	struct failure f = {0};
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	struct settlement s = {
		.key = job.key, .epoch = job.epoch, .as = SETTLE_RETRY, .delay_ms = 3600000};
	assert_int_equal(b->source->ops->settle(b->source, b->two, w, &s, 1, &b->arena, &f), 0);
	assert_true(s.accepted);
	assert_int_equal(b->source->ops->promote(b->source, b->two, &f), 0);
	assert_int_equal(in_state(b, "scheduled"), 1);
}

static void release_returns_the_attempt(void **state)
{
	struct bench *b = queue_of(state);
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_RELEASED, NULL, NULL));
	assert_int_equal(bench_number(b, "SELECT attempts FROM " JOBS_TABLE), 0);
	struct claimed again = bench_one(b, w);
	assert_int_equal(again.attempt, 1);
	assert_int_equal(again.epoch, 2);
}

static void stale_epoch_is_refused_and_kept_as_evidence(void **state)
{
	struct bench *b = queue_of(state);
	enqueue(b, "", "");
	int64_t one = bench_worker(b), two = bench_worker(b);
	struct claimed job = bench_one(b, one);
	/* It was recovered and another worker has it by now. */
	bench_sql(b, "UPDATE " JOBS_TABLE " SET state = 'queued', owner = NULL, cause = 'lost'");
	struct claimed again = bench_one(b, two);
	assert_false(bench_settle(b, one, &job, SETTLE_DONE, NULL, NULL));
	assert_int_equal(bench_late(b), 1);
	assert_int_equal(bench_number(b, "SELECT owner FROM " JOBS_TABLE), two);
	assert_true(bench_settle(b, two, &again, SETTLE_DONE, NULL, NULL));
	assert_int_equal(in_state(b, "done"), 1);
}

static void recovered_job_is_not_taken_for_a_repeated_settlement(void **state)
{
	struct bench *b = queue_of(state);
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET state = 'scheduled', owner = NULL, cause = 'lost'");
	assert_false(bench_settle(b, w, &job, SETTLE_FAILED, NULL, "e"));
	assert_int_equal(bench_late(b), 1);
}

static void repeated_settlement_is_accepted(void **state)
{
	struct bench *b = queue_of(state);
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_DONE, NULL, NULL));
	assert_true(bench_settle(b, w, &job, SETTLE_DONE, NULL, NULL));
	/* What it says now is not what it said then. */
	assert_false(bench_settle(b, w, &job, SETTLE_FAILED, NULL, "e"));
	assert_int_equal(in_state(b, "done"), 1);
	assert_int_equal(bench_late(b), 1);
}

/* Its reply was lost, and its next attempt became due before it was repeated. */
static void repeated_failure_is_accepted_when_the_job_is_queued_again(void **state)
{
	struct bench *b = queue_of(state);
	struct failure f = {0};
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_FAILED, NULL, "e"));
	bench_sql(b, "UPDATE " JOBS_TABLE " SET run_at = PG('2026-01-01'|0)");
	assert_int_equal(b->source->ops->promote(b->source, b->two, &f), 0);
	assert_int_equal(in_state(b, "queued"), 1);
	assert_true(bench_settle(b, w, &job, SETTLE_FAILED, NULL, "e"));
	assert_int_equal(bench_late(b), 0);
	/* A different end is not a repetition. */
	assert_false(bench_settle(b, w, &job, SETTLE_TIMED_OUT, NULL, "e"));
	assert_int_equal(bench_late(b), 1);
}

static void repeated_release_is_accepted(void **state)
{
	struct bench *b = queue_of(state);
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_RELEASED, NULL, NULL));
	assert_true(bench_settle(b, w, &job, SETTLE_RELEASED, NULL, NULL));
	assert_int_equal(bench_number(b, "SELECT attempts FROM " JOBS_TABLE), 0);
}

static void cancelled_job_is_told_and_ends_cancelled(void **state)
{
	struct bench *b = queue_of(state);
	struct settlement *asked;
	struct failure f = {0};
	int n;
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET state = 'cancelling'");
	assert_int_equal(b->source->ops->cancelling(b->source, b->two, w, &b->arena, &asked, &n, &f),
	                 0);
	assert_int_equal(n, 1);
	assert_string_equal(asked[0].key, job.key);
	assert_true(bench_settle(b, w, &job, SETTLE_STOPPED, NULL, NULL));
	assert_int_equal(in_state(b, "cancelled"), 1);
}

static void owned_and_progress_follow_the_lease(void **state)
{
	struct bench *b = queue_of(state);
	struct settlement *mine;
	struct failure f = {0};
	int n;
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_int_equal(b->source->ops->owned(b->source, b->two, w, &b->arena, &mine, &n, &f), 0);
	assert_int_equal(n, 1);
	assert_int_equal(mine[0].epoch, job.epoch);
	assert_int_equal(b->source->ops->progress(b->source, b->two, w, job.key, 1, "parse", "50", &f),
	                 0);
	assert_int_equal(b->source->ops->progress(b->source, b->two, w, job.key, 1, NULL, "60", &f), 0);
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM PG(defib.progress|defib_progress) WHERE step = "
	                    "'parse' AND progress = '60'"),
		1);
	assert_int_equal(b->source->ops->progress(b->source, b->two, w, job.key, 2, "x", "1", &f),
	                 DEFIB_LEASE_LOST);
}

static void several_settle_in_one_call_each_with_its_answer(void **state)
{
	struct bench *b = queue_of(state);
	struct claimed *jobs;
	struct failure f = {0};
	for (int i = 0; i < 3; i++)
		enqueue(b, "", "");
	int64_t w = bench_worker(b);
	assert_int_equal(bench_claim(b, w, 3, &jobs), 3);
	struct settlement all[] = {
		{.key = jobs[2].key, .epoch = 1, .as = SETTLE_DONE, .result = "1", .delay_ms = -1},
		{.key = jobs[0].key, .epoch = 9, .as = SETTLE_DONE, .delay_ms = -1},
		{.key = jobs[1].key, .epoch = 1, .as = SETTLE_RELEASED, .delay_ms = -1},
	};
	assert_int_equal(b->source->ops->settle(b->source, b->two, w, all, 3, &b->arena, &f), 0);
	assert_true(all[0].accepted && !all[1].accepted && all[2].accepted);
	assert_int_equal(in_state(b, "done"), 1);
	assert_int_equal(in_state(b, "queued"), 1);
	assert_int_equal(in_state(b, "running"), 1);
}

/* Its worker was considered silent, and has claimed it again while the first run continues. */
static void two_epochs_of_a_job_in_one_call_are_told_apart(void **state)
{
	struct bench *b = queue_of(state);
	struct failure f = {0};
	enqueue(b, "", "");
	int64_t w = bench_worker(b);
	(void)bench_one(b, w);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET state = 'queued', owner = NULL, cause = 'lost'");
	struct claimed job = bench_one(b, w);
	struct settlement all[] = {
		{.key = job.key, .epoch = 2, .as = SETTLE_DONE, .result = "{\"n\":2}", .delay_ms = -1},
		{.key = job.key, .epoch = 1, .as = SETTLE_DONE, .result = "{\"n\":1}", .delay_ms = -1},
	};
	assert_int_equal(b->source->ops->settle(b->source, b->two, w, all, 2, &b->arena, &f), 0);
	assert_true(all[0].accepted && !all[1].accepted);
	assert_int_equal(bench_number(b, "SELECT result->>'n' FROM "
	                                 "PG(defib.job_data|defib_job_data)"),
	                 2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(greater_priority_goes_first_then_the_older),
		BOTH(late_urgent_job_is_not_passed_over),
		BOTH(only_its_queue_and_kind_are_claimed),
		{"row_that_somebody_has_locked_is_passed_over", row_that_somebody_has_locked_is_passed_over,
	     setup_postgres, teardown, NULL},
		BOTH(dead_worker_claims_nothing),
		BOTH(done_keeps_the_result),
		BOTH(failure_is_scheduled_until_attempts_are_exhausted),
		BOTH(time_out_and_crash_are_told_from_an_error),
		BOTH(permanent_failure_is_not_tried_again),
		BOTH(retry_waits_for_the_time_that_the_job_asked_for),
		BOTH(release_returns_the_attempt),
		BOTH(stale_epoch_is_refused_and_kept_as_evidence),
		BOTH(recovered_job_is_not_taken_for_a_repeated_settlement),
		BOTH(repeated_settlement_is_accepted),
		BOTH(repeated_failure_is_accepted_when_the_job_is_queued_again),
		BOTH(repeated_release_is_accepted),
		BOTH(cancelled_job_is_told_and_ends_cancelled),
		BOTH(owned_and_progress_follow_the_lease),
		BOTH(several_settle_in_one_call_each_with_its_answer),
		BOTH(two_epochs_of_a_job_in_one_call_are_told_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
