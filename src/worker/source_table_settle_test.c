/* SPDX-License-Identifier: Apache-2.0
 * source_table_settle_test.c: how jobs of a user's table end: by the user's own lists, once, and
 * only by the holder of the lease; and how jobs of a dead worker are recovered.
 */
#include "store/fault_test.h"
#include "worker/tables_test.h"

#include <pthread.h>
#include <sched.h>

/* ---- settling ---- */

static void wait_is_over(struct bench *b)
{
	bench_sql(b, "UPDATE " LEASES " SET run_at = NULL");
}

static void done_writes_both_contents_at_once(void **state)
{
	struct bench *b = bench_of(state);
	open_ocr(b);
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_int_equal(bench_number(b,
	                              "SELECT count(*) FROM extraction_queue WHERE status_id = 6 AND "
	                              "ocr_worker_id = 'w1' AND ocr_started_at IS NOT NULL"),
	                 1);
	assert_true(bench_settle(b, w, &job, SETTLE_DONE,
	                         "{\"text\":\"it's \\\"x\\\"\",\"boosted\":\"y\"}", NULL));
	assert_int_equal(bench_number(b,
	                              "SELECT count(*) FROM extraction_queue WHERE status_id = 5 AND "
	                              "file_content = 'it''s \"x\"' AND boosted_file_content = 'y' AND "
	                              "ocr_completed_at = updated_at AND ocr_error IS NULL"),
	                 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEASES " WHERE owner IS NOT NULL"), 0);
}

static void attempts_are_counted_at_claim_and_bound_it(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	open_ocr(b);
	int64_t w = bench_worker(b);
	for (int attempt = 1; attempt <= 3; attempt++) {
		struct claimed job = bench_one(b, w);
		assert_int_equal(job.attempt, attempt);
		assert_int_equal(job.max_attempts, 3);
		assert_int_equal(job.epoch, attempt);
		assert_true(bench_settle(b, w, &job, SETTLE_FAILED, NULL, "no text"));
		assert_int_equal(bench_number(b,
		                              "SELECT count(*) FROM extraction_queue WHERE status_id = 3 "
		                              "AND ocr_error = 'no text' AND ocr_worker_id IS NULL"),
		                 1);
		wait_is_over(b);
	}
	assert_int_equal(bench_claim(b, w, 9, &jobs), 0);
}

static void release_hands_the_job_back_with_its_attempt(void **state)
{
	struct bench *b = bench_of(state);
	open_jobs(b, "crawl");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_RELEASED, NULL, NULL));
	assert_int_equal(bench_number(b, "SELECT count(*) FROM jobs WHERE status = 'queued'"), 2);
	struct claimed again = bench_one(b, w);
	assert_string_equal(again.key, job.key);
	assert_int_equal(again.epoch, 2);
	assert_int_equal(again.attempt, 1);
}

static void time_out_is_told_from_an_error(void **state)
{
	struct bench *b = bench_of(state);
	open_labs(b);
	int64_t w = bench_worker(b);
	struct claimed one = bench_one(b, w), two = bench_one(b, w), three = bench_one(b, w);
	assert_true(bench_settle(b, w, &one, SETTLE_TIMED_OUT, NULL, "killed"));
	assert_true(bench_settle(b, w, &two, SETTLE_CRASHED, NULL, "signal 9"));
	assert_true(bench_settle(b, w, &three, SETTLE_DONE, NULL, NULL));
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM labs WHERE id = 5 AND status = 'failed' AND "
	                    "error = 'teardown timed out'"),
		1);
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM labs WHERE id = 3 AND status = 'failed' AND "
	                    "error = 'signal 9'"),
		1);
	assert_int_equal(bench_number(b,
	                              "SELECT count(*) FROM labs WHERE id = 1 AND status = 'finished' "
	                              "AND finished_at IS NOT NULL"),
	                 1);
}

static void several_endings_settle_in_one_call(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	struct failure f = {0};
	open_labs(b);
	int64_t w = bench_worker(b);
	assert_int_equal(bench_claim(b, w, 3, &jobs), 3);
	struct settlement all[] = {
		{.key = jobs[0].key, .epoch = 1, .as = SETTLE_DONE, .delay_ms = -1},
		{.key = "99", .epoch = 1, .as = SETTLE_DONE, .delay_ms = -1},
		{.key = jobs[1].key, .epoch = 1, .as = SETTLE_FAILED, .error = "e", .delay_ms = -1},
		{.key = jobs[2].key, .epoch = 1, .as = SETTLE_RELEASED, .delay_ms = -1},
	};
	assert_int_equal(b->source->ops->settle(b->source, b->two, w, all, 4, &b->arena, &f), 0);
	assert_true(all[0].accepted && !all[1].accepted && all[2].accepted && all[3].accepted);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM labs WHERE status = 'finished'"), 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM labs WHERE error = 'e'"), 1);
	assert_int_equal(bench_late(b), 1);
}

/* Whichever statement fails, of ends of several kinds and of one that comes too late. */
static void an_end_whose_statement_fails_is_an_error(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	struct failure f = {0};
	open_labs(b);
	int64_t w = bench_worker(b);
	assert_int_equal(bench_claim(b, w, 3, &jobs), 3);
	for (int nth = 1, fired = 1; fired; nth++) {
		struct fault_plan plan = {.call = FAULT_EXEC, .nth = nth, .code = DEFIB_BAD_SQL};
		struct fault_store *s = (struct fault_store *)fault_wrap(b->two, &plan);
		struct settlement all[] = {
			{.key = jobs[0].key, .epoch = 1, .as = SETTLE_DONE, .delay_ms = -1},
			{.key = "99", .epoch = 1, .as = SETTLE_DONE, .delay_ms = -1},
			{.key = jobs[1].key, .epoch = 1, .as = SETTLE_FAILED, .error = "e", .delay_ms = -1},
			{.key = jobs[2].key, .epoch = 1, .as = SETTLE_RELEASED, .delay_ms = -1},
		};
		assert_int_equal(store_begin(&s->base, TX_WRITE, &f), DEFIB_OK);
		defib_err err = b->source->ops->settle(b->source, &s->base, w, all, 4, &b->arena, &f);
		fired = plan.fired;
		assert_int_equal(err, fired ? DEFIB_BAD_SQL : DEFIB_OK);
		store_rollback(&s->base);
		free(s);
	}
	assert_int_equal(bench_late(b), 0);
}

static void failure_waits_for_its_backoff_and_ends_at_the_maximum(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	fill_labs(b);
	bench_sql(b, "DELETE FROM labs WHERE id > 1");
	labs_with(
		"    max_attempts: 2\n    backoff: {base: 1h, factor: 2}\n"
		"    work: {ready: \"status = 'ending'\", done: status = 'x', failed: \"status = 'failed', "
		"error = :error\"}\n");
	open_source(b, "labs", NULL);
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_FAILED, NULL, "busy"));
	assert_int_equal(bench_number(b, "SELECT count(*) FROM labs WHERE status = 'ending'"), 1);
	assert_int_equal(bench_claim(b, w, 9, &jobs), 0);
	assert_int_equal(
		bench_number(
			b, b->rig.engine == STORE_POSTGRES
				   ? "SELECT count(*) FROM defib.lease WHERE run_at BETWEEN clock_timestamp() + "
					 "interval '50 minutes' AND clock_timestamp() + interval '61 minutes'"
				   : "SELECT count(*) FROM defib_lease WHERE run_at - " SQLITE_NOW
					 " BETWEEN 3000000 AND 3660000"),
		1);
	bench_sql(b, b->rig.engine == STORE_POSTGRES
	                 ? "UPDATE defib.lease SET run_at = clock_timestamp() - interval '1 second'"
	                 : "UPDATE defib_lease SET run_at = " SQLITE_NOW " - 1000");
	job = bench_one(b, w);
	assert_int_equal(job.attempt, 2);
	assert_true(bench_settle(b, w, &job, SETTLE_FAILED, NULL, "busy"));
	assert_int_equal(bench_number(b,
	                              "SELECT count(*) FROM labs WHERE status = 'failed' AND error = "
	                              "'busy'"),
	                 1);
}

static void job_that_only_kills_its_workers_is_left_for_a_person(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	fill_labs(b);
	bench_sql(b, "DELETE FROM labs WHERE id > 1");
	labs_with("    max_attempts: 2\n    backoff: {base: 60s}\n"
	          "    work: {" ENDS "ready: \"status = 'ending'\"}\n");
	open_source(b, "labs", NULL);
	for (int attempt = 1; attempt <= 2; attempt++) {
		int64_t w = bench_worker(b);
		assert_int_equal(bench_one(b, w).attempt, attempt);
		bench_dies(b, w);
	}
	assert_int_equal(bench_claim(b, bench_worker(b), 9, &jobs), 0);
	assert_int_equal(scan(b, "labs").found, 1);
}

static void repeated_settlement_is_accepted_and_writes_nothing(void **state)
{
	struct bench *b = bench_of(state);
	open_sitemaps(b);
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_DONE, NULL, NULL));
	bench_sql(b, "UPDATE sitemap_files SET updated_at = '2026-01-01 00:00:00' WHERE id = 2");
	assert_true(bench_settle(b, w, &job, SETTLE_DONE, NULL, NULL));
	assert_int_equal(bench_number(b, "SELECT count(*) FROM sitemap_files WHERE updated_at = "
	                                 "'2026-01-01 00:00:00'"),
	                 1);
	assert_int_equal(bench_late(b), 0);
	/* The same settlement by another worker is refused. */
	assert_false(bench_settle(b, bench_worker(b), &job, SETTLE_DONE, NULL, NULL));
	assert_int_equal(bench_late(b), 1);
}

static void released_job_stays_settled_after_another_claims_it(void **state)
{
	struct bench *b = bench_of(state);
	open_sitemaps(b);
	bench_sql(b, "DELETE FROM sitemap_files WHERE id <> 2");
	int64_t one = bench_worker(b), two = bench_worker(b);
	struct claimed job = bench_one(b, one);
	assert_true(bench_settle(b, one, &job, SETTLE_RETRY, NULL, "again"));
	wait_is_over(b);
	assert_string_equal(bench_one(b, two).key, "2");
	assert_true(bench_settle(b, one, &job, SETTLE_RETRY, NULL, "again"));
	assert_int_equal(bench_number(b, "SELECT owner FROM " LEASES " WHERE job = '2'"), two);
}

/* The row runs again, with the same worker: only the epoch distinguishes its claims. */
static void end_of_an_earlier_claim_of_the_same_worker_is_refused(void **state)
{
	struct bench *b = bench_of(state);
	open_jobs(b, "crawl");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	bench_sql(b, "UPDATE jobs SET status = 'queued' WHERE status <> 'queued'");
	bench_sql(b, "UPDATE " LEASES " SET owner = NULL");
	struct claimed again = bench_one(b, w);
	assert_string_equal(again.key, job.key);
	assert_int_equal(again.epoch, 2);
	assert_false(bench_settle(b, w, &job, SETTLE_DONE, NULL, NULL));
	assert_int_equal(bench_number(b, "SELECT owner FROM " LEASES " WHERE owner IS NOT NULL"), w);
	assert_true(bench_settle(b, w, &again, SETTLE_DONE, NULL, NULL));
}

static void row_that_moved_on_is_left_alone_and_its_lease_ends(void **state)
{
	struct bench *b = bench_of(state);
	open_sitemaps(b);
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	bench_sql(b, "UPDATE sitemap_files SET sitemap_import_status = 'Stopped by hand' WHERE id = 2");
	assert_false(bench_settle(b, w, &job, SETTLE_DONE, "{\"n\":1}", NULL));
	assert_int_equal(bench_number(b,
	                              "SELECT count(*) FROM sitemap_files WHERE sitemap_import_status "
	                              "= 'Stopped by hand'"),
	                 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEASES " WHERE owner IS NOT NULL"), 0);
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM " LEDGER " WHERE event = 'LATE_COMPLETION' "
	                    "AND PG(evidence::text|evidence) LIKE '%had changed%' AND watch = "
	                    "'sitemaps' AND job = '2' AND actor LIKE 'worker:%'"),
		1);
}

/* A malformed result must not prevent its job, and those settled with it, from being settled. */
static void any_bytes_can_be_settled(void **state)
{
	struct bench *b = bench_of(state);
	open_ocr(b);
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_FAILED, "{not \xff json", "bad \xff\xfe byte"));
	assert_int_equal(bench_number(b, "SELECT count(*) FROM extraction_queue WHERE ocr_error LIKE "
	                                 "'bad %byte'"),
	                 1);
	wait_is_over(b);
	job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_DONE, "\"\\u0000\"", NULL));
}

/* ---- attempts ---- */

#define TRIES 8

/* Rows that wait to be tried, of a watch that counts attempts in them and gives no backoff. */
static void open_tries(struct bench *b, const char *more, const char *work)
{
	struct buf yaml = BUF_INIT;
	bench_sql(b, "CREATE TABLE tries (id PG(bigint|INTEGER) PRIMARY KEY, status TEXT, n INTEGER "
	             "DEFAULT 0, error TEXT, at " TIME ")");
	for (int i = 1; i <= TRIES; i++) {
		char sql[128];
		snprintf(sql, sizeof sql, "INSERT INTO tries (id, status) VALUES (%d, 'queued')", i);
		bench_sql(b, sql);
	}
	buf_addf(&yaml,
	         "databases: [{name: main, url: 'sqlite:jobs.db'}]\nwatches:\n  - name: tries\n"
	         "    table: tries\n    key: id\n    running: status = 'running'\n    alive_at: at\n"
	         "    stuck_after: 1h\n    requeue: status = 'queued'\n%s"
	         "    work:\n      ready: status = 'queued'\n%s",
	         more, work);
	read_yaml(buf_text(&yaml));
	open_source(b, "tries", NULL);
	buf_release(&yaml);
}

#define COUNTED "    attempts: n\n    max_attempts: 3\n"
#define TRY_LISTS                                                                                  \
	"      claim: status = 'running', n = n + 1, error = NULL\n      done: status = 'done'\n"      \
	"      failed: status = 'failed', error = :error\n"

/* All rows once more; each ends with the attempt's number as its error. */
static void try_all(struct bench *b, int64_t w, enum settle_as as, int attempt)
{
	struct claimed *jobs;
	char error[8];
	snprintf(error, sizeof error, "e%d", attempt);
	assert_int_equal(bench_claim(b, w, TRIES, &jobs), TRIES);
	for (int i = 0; i < TRIES; i++) {
		assert_int_equal(jobs[i].attempt, attempt);
		assert_int_equal(jobs[i].max_attempts, 3);
		assert_true(bench_settle(b, w, &jobs[i], as, NULL, error));
	}
}

static int64_t rows_with(struct bench *b, const char *status, int attempt)
{
	char sql[160];
	snprintf(sql, sizeof sql,
	         "SELECT count(*) FROM tries WHERE status = '%s' AND error = 'e%d' AND n = %d", status,
	         attempt, attempt);
	return bench_number(b, sql);
}

/* Of the waits for the next attempt; one of several is long, however they are drawn. */
static int64_t longest_wait_ms(struct bench *b)
{
	return bench_number(
		b, b->rig.engine == STORE_POSTGRES
			   ? "SELECT (extract(epoch FROM max(run_at) - clock_timestamp()) * 1000)::bigint FROM "
				 "defib.lease"
			   : "SELECT max(run_at) - " SQLITE_NOW " FROM defib_lease");
}

static void each_bad_end_is_tried_again(struct bench *b, const char *work)
{
	static const enum settle_as ends[] = {SETTLE_FAILED, SETTLE_TIMED_OUT, SETTLE_CRASHED,
	                                      SETTLE_RETRY};
	struct claimed *jobs;
	open_tries(b, COUNTED, work);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		int64_t w = bench_worker(b);
		bench_sql(b, "UPDATE tries SET status = 'queued', n = 0");
		for (int attempt = 1; attempt < 3; attempt++) {
			try_all(b, w, ends[i], attempt);
			assert_int_equal(rows_with(b, "queued", attempt), TRIES);
			assert_in_range(longest_wait_ms(b), 50, 1000 << (attempt - 1));
			wait_is_over(b);
		}
		try_all(b, w, ends[i], 3);
		assert_int_equal(rows_with(b, "failed", 3), TRIES);
		assert_int_equal(bench_claim(b, w, TRIES, &jobs), 0);
	}
}

static void attempts_are_honoured_without_a_backoff(void **state)
{
	each_bad_end_is_tried_again(bench_of(state), TRY_LISTS "      release: status = 'queued'\n");
}

/* A release takes the attempt back and clears the error; an attempt that failed does neither. */
static void a_release_that_uncounts_does_not_uncount_a_failure(void **state)
{
	each_bad_end_is_tried_again(bench_of(state), TRY_LISTS
	                            "      release: status = 'queued', n = n - 1, error = NULL\n");
}

static void without_a_release_a_retry_is_written_as_requeue_does(void **state)
{
	each_bad_end_is_tried_again(bench_of(state), TRY_LISTS);
}

static void a_retry_list_of_one_s_own_is_written(void **state)
{
	struct bench *b = bench_of(state);
	open_tries(b, COUNTED,
	           TRY_LISTS "      retry: status = 'queued', error = 'again ' || :error\n");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_FAILED, NULL, "x"));
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM tries WHERE status = 'queued' AND error = 'again x'"),
		1);
}

/* Without a limit an error is final, as ever, and only a job that asks for it runs again. */
static void without_max_attempts_an_error_is_final(void **state)
{
	struct bench *b = bench_of(state);
	open_tries(b, "    backoff: {base: 1h}\n", TRY_LISTS);
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w), other = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_FAILED, NULL, "e1"));
	assert_int_equal(rows_with(b, "failed", 1), 1);
	assert_true(bench_settle(b, w, &other, SETTLE_RETRY, NULL, "e1"));
	assert_int_equal(rows_with(b, "queued", 1), 1);
	assert_in_range(longest_wait_ms(b), 3000 * 1000, 3600 * 1000);
}

static void the_lease_counts_where_the_claim_does_not(void **state)
{
	struct bench *b = bench_of(state);
	open_tries(b, COUNTED,
	           "      claim: status = 'running'\n      done: status = 'done'\n"
	           "      failed: status = 'failed', error = :error\n");
	bench_sql(b, "DELETE FROM tries WHERE id > 1");
	int64_t w = bench_worker(b);
	for (int attempt = 1; attempt <= 3; attempt++) {
		struct claimed job = bench_one(b, w);
		assert_int_equal(job.attempt, attempt);
		assert_true(bench_settle(b, w, &job, SETTLE_RETRY, NULL, "x"));
		wait_is_over(b);
	}
	assert_int_equal(bench_number(b, "SELECT count(*) FROM tries WHERE status = 'failed'"), 1);
}

/* The user's own way to try again: the row is ready at once, but its next attempt waits. */
static void a_row_that_failed_lists_make_ready_again_waits(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	open_tries(b, "",
	           "      claim: status = 'running'\n      done: status = 'done'\n"
	           "      failed: status = 'queued', error = :error\n");
	int64_t w = bench_worker(b);
	for (int attempt = 1; attempt <= 4; attempt++) {
		assert_int_equal(bench_claim(b, w, TRIES, &jobs), TRIES);
		for (int i = 0; i < TRIES; i++)
			assert_true(bench_settle(b, w, &jobs[i], SETTLE_FAILED, NULL, "x"));
		assert_in_range(longest_wait_ms(b), 50, 1000 << (attempt - 1));
		wait_is_over(b);
	}
}

static void a_job_that_others_recovered_is_claimed_beyond_the_lease_s_count(void **state)
{
	struct bench *b = bench_of(state);
	open_tries(b, "    max_attempts: 2\n",
	           "      claim: status = 'running'\n"
	           "      done: status = 'done'\n"
	           "      failed: status = 'failed', error = :error\n");
	bench_sql(b, "DELETE FROM tries WHERE id > 1");
	for (int i = 0; i < 3; i++) {
		int64_t w = bench_worker(b);
		bench_one(b, w);
		bench_dies(b, w);
		bench_sql(b, "UPDATE tries SET status = 'queued'"); /* as a remedy or a person does */
	}
}

/* ---- ends that do not show ---- */

/* The row, its lease and the steps are as before. */
static void refuses(struct bench *b, int64_t w, const struct claimed *job, enum settle_as as,
                    const char *said)
{
	struct failure f = {0};
	struct settlement one = {.key = job->key, .epoch = job->epoch, .as = as, .delay_ms = -1};
	assert_int_equal(b->source->ops->settle(b->source, b->rig.other, w, &one, 1, &b->arena, &f),
	                 DEFIB_CONSTRAINT);
	if (!strstr(f.what, said))
		fail_msg("%s, not %s", f.what, said);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM tries WHERE status = 'running'"), 1);
	assert_int_equal(bench_number(b, "SELECT owner FROM " LEASES " WHERE owner IS NOT NULL"), w);
}

static void an_end_that_leaves_the_row_running_is_refused(void **state)
{
	static const struct {
		enum settle_as as;
		const char *said;
	} ends[] = {
		{SETTLE_DONE, "after work.done job 1 still matches running"},
		{SETTLE_PERMANENT, "after work.failed job 1 still matches running"},
		{SETTLE_FAILED, "after work.retry job 1 still matches running"},
		{SETTLE_RELEASED, "after work.release job 1 still matches running"},
	};
	struct bench *b = bench_of(state);
	open_tries(b, COUNTED,
	           "      claim: status = 'running'\n      done: error = 'x'\n"
	           "      failed: error = :error\n      release: error = NULL\n");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		refuses(b, w, &job, ends[i].as, ends[i].said);
}

static void an_end_after_which_it_would_run_again_for_ever_is_refused(void **state)
{
	struct bench *b = bench_of(state);
	open_tries(b, COUNTED,
	           "      claim: status = 'running', n = 3\n"
	           "      done: status = lower('QUEUED')\n      failed: status = 'queued'\n");
	int64_t w = bench_worker(b);
	struct claimed job = bench_one(b, w);
	refuses(b, w, &job, SETTLE_DONE, "after work.done job 1 still matches work.ready");
	refuses(b, w, &job, SETTLE_FAILED, "after work.failed job 1 still matches work.ready");
}

/* ---- recovery ---- */

static void row_of_a_dead_worker_is_recovered_at_once_and_the_worker_fenced(void **state)
{
	struct bench *b = bench_of(state);
	open_sitemaps(b);
	int64_t one = bench_worker(b), two = bench_worker(b);
	struct claimed job = bench_one(b, one);
	assert_int_equal(scan(b, "sitemaps").found, 0);
	bench_dies(b, one);
	struct scan_result r = scan(b, "sitemaps");
	assert_int_equal(r.found, 1);
	assert_int_equal(r.outcomes[OUTCOME_RECOVERED], 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " LEASES " WHERE owner IS NULL"), 1);
	assert_false(bench_settle(b, one, &job, SETTLE_DONE, NULL, NULL));
	assert_int_equal(bench_late(b), 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM sitemap_files WHERE id = 2 AND "
	                                 "sitemap_import_status = 'Queued'"),
	                 1);
	bench_sql(b, "UPDATE sitemap_files SET updated_at = '2025-01-01 00:00:00' WHERE id = 2");
	struct claimed again = bench_one(b, two);
	assert_string_equal(again.key, job.key);
	assert_int_equal(again.epoch, 2);
	assert_int_equal(again.attempt, 2);
	assert_false(bench_settle(b, one, &job, SETTLE_DONE, NULL, NULL));
	assert_true(bench_settle(b, two, &again, SETTLE_DONE, NULL, NULL));
}

struct waiter {
	struct bench *bench;
	struct store *store;
	int64_t worker;
	struct settlement settlement;
	defib_err err;
};

static void *settle_and_wait(void *arg)
{
	struct waiter *w = arg;
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct source *src = w->bench->source;
	w->err = src->ops->settle(src, w->store, w->worker, &w->settlement, 1, &a, &f);
	arena_release(&a);
	return NULL;
}

/* PostgreSQL: the state before the wait for a lock does not count. */
static void settlement_that_waited_for_a_recovery_is_refused(void **state)
{
	struct bench *b = bench_of(state);
	struct failure f = {0};
	pthread_t thread;
	open_sitemaps(b);
	int64_t one = bench_worker(b);
	struct claimed job = bench_one(b, one);
	struct waiter w = {.bench = b,
	                   .store = open_with((struct store_options){.url = b->rig.url}),
	                   .worker = one,
	                   .settlement = {.key = job.key, .epoch = job.epoch, .as = SETTLE_DONE}};
	assert_int_equal(store_begin(b->two, TX_WRITE, &f), 0);
	assert_int_equal(
		run(b->two, "UPDATE sitemap_files SET sitemap_import_status = 'Queued' WHERE id = 2", &f),
		0);
	assert_int_equal(pthread_create(&thread, NULL, settle_and_wait, &w), 0);
	while (bench_number(
			   b, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM "
				  "pg_stat_activity WHERE datname = current_database())") == 0)
		sched_yield();
	/* The remedy does not wait for the lease that the settlement has: no deadlock. */
	assert_int_equal(run(b->two,
	                     "UPDATE defib.lease SET owner = NULL WHERE job IN (SELECT job FROM "
	                     "defib.lease WHERE job = '2' FOR UPDATE SKIP LOCKED)",
	                     &f),
	                 0);
	assert_int_equal(store_commit(b->two, &f), 0);
	pthread_join(thread, NULL);
	store_close(w.store);
	assert_int_equal(w.err, DEFIB_OK);
	assert_false(w.settlement.accepted);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM sitemap_files WHERE id = 2 AND "
	                                 "sitemap_import_status = 'Queued'"),
	                 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM defib.lease WHERE owner IS NULL"), 1);
	assert_int_equal(bench_late(b), 1);
}

static void live_lease_overrules_the_age_of_the_row(void **state)
{
	struct bench *b = bench_of(state);
	open_sitemaps(b);
	int64_t w = bench_worker(b);
	bench_one(b, w);
	bench_sql(b, "UPDATE sitemap_files SET updated_at = '2020-01-01 00:00:00' WHERE id = 2");
	assert_int_equal(scan(b, "sitemaps").found, 0);
	/* A worker that fell silent proves nothing: age decides again. */
	bench_sql(b,
	          b->rig.engine == STORE_POSTGRES
	              ? "UPDATE defib.worker SET expires_at = clock_timestamp() - interval '5 seconds'"
	              : "UPDATE defib_worker SET expires_at = " SQLITE_NOW " - 5000");
	assert_int_equal(scan(b, "sitemaps").outcomes[OUTCOME_RECOVERED], 1);
}

static void rows_without_a_lease_are_judged_as_ever(void **state)
{
	struct bench *b = bench_of(state);
	open_sitemaps(b);
	bench_sql(b, "UPDATE sitemap_files SET sitemap_import_status = 'Processing'");
	assert_int_equal(scan(b, "sitemaps").outcomes[OUTCOME_RECOVERED], 4);
}

static void lab_of_a_dead_worker_is_claimed_again(void **state)
{
	struct bench *b = bench_of(state);
	open_labs(b);
	int64_t one = bench_worker(b), two = bench_worker(b);
	struct claimed job = bench_one(b, one);
	bench_dies(b, one);
	struct claimed again = bench_one(b, two);
	assert_string_equal(again.key, job.key);
	assert_int_equal(again.epoch, 2);
	assert_false(bench_settle(b, one, &job, SETTLE_DONE, NULL, NULL));
	assert_int_equal(bench_number(b, "SELECT count(*) FROM labs WHERE status = 'finished'"), 0);
	assert_true(bench_settle(b, two, &again, SETTLE_DONE, NULL, NULL));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(done_writes_both_contents_at_once),
		BOTH(attempts_are_counted_at_claim_and_bound_it),
		BOTH(release_hands_the_job_back_with_its_attempt),
		BOTH(time_out_is_told_from_an_error),
		BOTH(several_endings_settle_in_one_call),
		BOTH(an_end_whose_statement_fails_is_an_error),
		BOTH(failure_waits_for_its_backoff_and_ends_at_the_maximum),
		BOTH(job_that_only_kills_its_workers_is_left_for_a_person),
		BOTH(attempts_are_honoured_without_a_backoff),
		BOTH(a_release_that_uncounts_does_not_uncount_a_failure),
		BOTH(without_a_release_a_retry_is_written_as_requeue_does),
		BOTH(a_retry_list_of_one_s_own_is_written),
		BOTH(without_max_attempts_an_error_is_final),
		BOTH(the_lease_counts_where_the_claim_does_not),
		BOTH(a_row_that_failed_lists_make_ready_again_waits),
		BOTH(a_job_that_others_recovered_is_claimed_beyond_the_lease_s_count),
		BOTH(an_end_that_leaves_the_row_running_is_refused),
		BOTH(an_end_after_which_it_would_run_again_for_ever_is_refused),
		BOTH(repeated_settlement_is_accepted_and_writes_nothing),
		BOTH(released_job_stays_settled_after_another_claims_it),
		BOTH(end_of_an_earlier_claim_of_the_same_worker_is_refused),
		BOTH(row_that_moved_on_is_left_alone_and_its_lease_ends),
		BOTH(any_bytes_can_be_settled),
		BOTH(row_of_a_dead_worker_is_recovered_at_once_and_the_worker_fenced),
		{"settlement_that_waited_for_a_recovery_is_refused",
	     settlement_that_waited_for_a_recovery_is_refused, setup_postgres, teardown, NULL},
		BOTH(live_lease_overrules_the_age_of_the_row),
		BOTH(rows_without_a_lease_are_judged_as_ever),
		BOTH(lab_of_a_dead_worker_is_claimed_again),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	reading_release(&reading);
	return failed;
}
