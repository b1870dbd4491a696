/* SPDX-License-Identifier: Apache-2.0
 * source_table_settle_test.c: how jobs of a user's table end: by the user's own lists, once, and
 * only by the holder of the lease; and how jobs of a dead worker are recovered.
 */
#include "worker/tables_test.h"

#include <pthread.h>
#include <sched.h>

/* ---- settling ---- */

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

static void failure_waits_for_its_backoff_and_ends_at_the_maximum(void **state)
{
	struct bench *b = bench_of(state);
	struct claimed *jobs;
	fill_labs(b);
	bench_sql(b, "DELETE FROM labs WHERE id > 1");
	labs_with("    max_attempts: 2\n    backoff: {base: 1h, factor: 2}\n"
	          "    work: {ready: \"status = 'ending'\", failed: \"status = 'failed', error = "
	          ":error\"}\n");
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
	          "    work: {ready: \"status = 'ending'\"}\n");
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
	                    "'sitemaps' AND job = '2' AND actor = 'worker:1'"),
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
	job = bench_one(b, w);
	assert_true(bench_settle(b, w, &job, SETTLE_DONE, "\"\\u0000\"", NULL));
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
		BOTH(failure_waits_for_its_backoff_and_ends_at_the_maximum),
		BOTH(job_that_only_kills_its_workers_is_left_for_a_person),
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
