/* SPDX-License-Identifier: Apache-2.0
 * The public library as a C program uses it: jobs enqueued and settled inside the program's own
 * transactions, options of other versions, wrong usage.
 */
#include "worker/worker_test.h"

static struct bench *with_effects(void **state)
{
	struct bench *b = bench_of(state);
	scene_open(b);
	bench_sql(b, "CREATE TABLE effect (job bigint NOT NULL, epoch bigint NOT NULL)");
	return b;
}

static int64_t effects(struct bench *b)
{
	return bench_number(b, "SELECT count(*) FROM effect");
}

/* Begins, writes the effect of this run and settles in the same transaction. */
static defib_err write_and_settle(struct own *o, defib_job *job)
{
	char sql[128];
	snprintf(sql, sizeof sql, "INSERT INTO effect VALUES (%lld, %lld)",
	         (long long)defib_job_id(job), (long long)defib_job_epoch(job));
	return own_begin(o) && own_sql(o, sql) ? own_settle(o, job) : DEFIB_DATABASE;
}

/* ---- enqueueing ---- */

static void enqueue_in_own_transaction(struct bench *b, const char *end)
{
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	struct own o = own_open(b->rig.url);
	defib_message m;
	int64_t id = 0;
	job.queue = "q";
	job.kind = "k";
	job.payload = "{\"a\": 1}";
	job.tags = "[\"red\"]";
	assert_true(own_begin(&o));
	expect_ok(own_enqueue(&o, &job, &id, &m), &m);
	assert_true(id > 0);
	assert_int_equal(in_state(b, "queued"), 0);
	assert_true(own_sql(&o, end));
	own_close(&o);
}

static void a_job_is_there_when_the_callers_transaction_commits(void **state)
{
	struct bench *b = bench_of(state);
	enqueue_in_own_transaction(b, "COMMIT");
	assert_int_equal(in_state(b, "queued"), 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " DATA_TABLE
	                                 " WHERE payload IS NOT NULL AND tags IS NOT NULL"),
	                 1);
}

static void a_job_is_not_there_when_the_callers_transaction_rolls_back(void **state)
{
	struct bench *b = bench_of(state);
	enqueue_in_own_transaction(b, "ROLLBACK");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE), 0);
}

static void without_a_transaction_the_callers_handle_is_refused(void **state)
{
	struct bench *b = bench_of(state);
	struct own o = own_open(b->rig.url);
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	defib_message m;
	job.queue = "q";
	job.kind = "k";
	assert_int_equal(own_enqueue(&o, &job, NULL, &m), DEFIB_USAGE);
	assert_string_equal(m.what, "the connection has no open transaction");
	assert_true(m.next[0] != '\0');
	own_close(&o);
}

static void a_unique_key_gives_the_job_that_has_it(void **state)
{
	struct bench *b = bench_of(state);
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	job.queue = "q";
	job.kind = "k";
	job.unique_key = "one";
	assert_int_equal(enqueue_job(b, &job), enqueue_job(b, &job));
	assert_int_equal(in_state(b, "queued"), 1);
}

static void what_no_database_should_see_is_refused(void **state)
{
	static const struct {
		const char *queue, *kind, *payload, *tags;
		int64_t priority;
	} wrong[] = {
		{NULL, "k", NULL, NULL, 0},         {"q", NULL, NULL, NULL, 0}, {"q", "k", "{", NULL, 0},
		{"q", "k", "\"\\u0000\"", NULL, 0}, {"q", "k", NULL, "[1]", 0}, {"q", "k", NULL, "{}", 0},
		{"q", "k", NULL, NULL, 40000},
	};
	struct bench *b = bench_of(state);
	defib_message m;
	defib_db *db = NULL;
	expect_ok(defib_open(b->rig.url, 0, &db, &m), &m);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		defib_job_spec job = DEFIB_JOB_SPEC_INIT;
		job.queue = wrong[i].queue;
		job.kind = wrong[i].kind;
		job.payload = wrong[i].payload;
		job.tags = wrong[i].tags;
		job.priority = wrong[i].priority;
		assert_int_equal(defib_enqueue(db, &job, NULL, &m), DEFIB_USAGE);
	}
	defib_close(db);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE), 0);
}

/* Jobs of kinds "a", "b" and "c"; their unique keys are these, NULL for none. */
static defib_err enqueue_three(struct bench *b, const char *const keys[3], const char *payload,
                               int64_t ids[3], defib_message *m)
{
	static const char *const kinds[] = {"a", "b", "c"};
	defib_job_spec jobs[3] = {DEFIB_JOB_SPEC_INIT, DEFIB_JOB_SPEC_INIT, DEFIB_JOB_SPEC_INIT};
	defib_db *db = NULL;
	expect_ok(defib_open(b->rig.url, 0, &db, m), m);
	for (int i = 0; i < 3; i++) {
		jobs[i].queue = "q";
		jobs[i].kind = kinds[i];
		jobs[i].unique_key = keys[i];
		jobs[i].payload = i == 2 ? payload : NULL;
	}
	defib_err err = defib_enqueue_many(db, jobs, 3, ids, m);
	defib_close(db);
	return err;
}

static void many_jobs_go_in_at_once_and_have_numbers_in_their_order(void **state)
{
	struct bench *b = bench_of(state);
	const char *const none[3] = {0};
	int64_t ids[3] = {0};
	defib_message m;
	char sql[160];
	expect_ok(enqueue_three(b, none, "{\"a\": 1}", ids, &m), &m);
	assert_int_equal(in_state(b, "queued"), 3);
	for (int i = 0; i < 3; i++) {
		snprintf(sql, sizeof sql,
		         "SELECT count(*) FROM " JOBS_TABLE " WHERE id = %lld AND kind = '%c'",
		         (long long)ids[i], 'a' + i);
		assert_int_equal(bench_number(b, sql), 1);
	}
	snprintf(sql, sizeof sql, "SELECT count(*) FROM " DATA_TABLE " WHERE job = %lld",
	         (long long)ids[2]);
	assert_int_equal(bench_number(b, sql), 1);
}

static void many_jobs_with_unique_keys_get_the_number_of_who_has_it(void **state)
{
	struct bench *b = bench_of(state);
	const char *const keys[3] = {"one", "two", "one"};
	int64_t ids[3] = {0};
	defib_message m;
	expect_ok(enqueue_three(b, keys, NULL, ids, &m), &m);
	assert_int_equal(in_state(b, "queued"), 2);
	assert_int_equal(ids[0], ids[2]);
	assert_int_not_equal(ids[0], ids[1]);
}

static void of_many_jobs_none_is_there_when_one_is_wrong(void **state)
{
	struct bench *b = bench_of(state);
	const char *const none[3] = {0};
	int64_t ids[3] = {0};
	defib_message m;
	assert_int_equal(enqueue_three(b, none, "{", ids, &m), DEFIB_USAGE);
	assert_string_equal(m.what, "job 2 of 3: the payload is not JSON");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE), 0);
}

static void an_array_of_jobs_that_is_none_is_refused(void **state)
{
	struct bench *b = bench_of(state);
	defib_job_spec jobs[2] = {DEFIB_JOB_SPEC_INIT, DEFIB_JOB_SPEC_INIT};
	defib_message m;
	defib_db *db = NULL;
	expect_ok(defib_open(b->rig.url, 0, &db, &m), &m);
	jobs[0].queue = jobs[1].queue = jobs[0].kind = jobs[1].kind = "q";
	jobs[1].size = 8;
	assert_int_equal(defib_enqueue_many(db, jobs, 2, NULL, &m), DEFIB_USAGE);
	assert_int_equal(defib_enqueue_many(db, jobs, -1, NULL, &m), DEFIB_USAGE);
	assert_int_equal(defib_enqueue_many(db, NULL, 1, NULL, &m), DEFIB_USAGE);
	expect_ok(defib_enqueue_many(db, NULL, 0, NULL, &m), &m);
	expect_ok(defib_enqueue_many(db, jobs, 1, NULL, &m), &m);
	defib_close(db);
	assert_int_equal(in_state(b, "queued"), 1);
}

static void a_job_that_waits_is_cancelled_once(void **state)
{
	struct bench *b = bench_of(state);
	int64_t id = enqueue_kind(b, "q", "k");
	defib_message m;
	defib_db *db = NULL;
	expect_ok(defib_open(b->rig.url, 0, &db, &m), &m);
	expect_ok(defib_cancel(db, id, &m), &m);
	assert_int_equal(defib_cancel(db, id, &m), DEFIB_NOT_FOUND);
	defib_close(db);
	assert_int_equal(in_state(b, "cancelled"), 1);
}

/* ---- settling ---- */

static defib_outcome commits(defib_job *job, void *ctx)
{
	struct own o = own_open(scene.url);
	(void)ctx;
	if (defib_job_result(job, "{\"by\": \"own\"}"))
		return DEFIB_FAILED;
	scene_answer(write_and_settle(&o, job));
	own_sql(&o, "COMMIT");
	own_close(&o);
	return DEFIB_SETTLED;
}

static void an_effect_and_its_settlement_commit_together(void **state)
{
	struct bench *b = with_effects(state);
	enqueue_kind(b, "q", "k");
	drain_with(b, commits);
	assert_int_equal(scene.answers[0], DEFIB_OK);
	assert_int_equal(effects(b), 1);
	assert_int_equal(in_state(b, "done"), 1);
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM " DATA_TABLE " WHERE result IS NOT NULL"), 1);
	assert_int_equal(bench_late(b), 0);
}

static defib_outcome rolls_back_at_first(defib_job *job, void *ctx)
{
	struct own o = own_open(scene.url);
	bool first = defib_job_attempt(job) == 1;
	(void)ctx;
	scene_answer(write_and_settle(&o, job));
	own_sql(&o, first ? "ROLLBACK" : "COMMIT");
	own_close(&o);
	defib_job_retry_in(job, 0);
	return first ? DEFIB_FAILED : DEFIB_SETTLED;
}

static void a_rollback_leaves_neither_effect_nor_settlement(void **state)
{
	struct bench *b = with_effects(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(rolls_back_at_first);
	enqueue_kind(b, "q", "k");
	struct beside w = beside_start(&o, &pool, 1);
	scene_reaches(&scene.nanswers, 2);
	becomes(b, "SELECT count(*) FROM " JOBS_TABLE " WHERE state = 'done'", 1);
	beside_stop(&w);
	assert_int_equal(effects(b), 1);
	assert_int_equal(bench_number(b, "SELECT epoch FROM effect"), 2);
}

static defib_outcome forgets_to_commit_at_first(defib_job *job, void *ctx)
{
	struct own o = own_open(scene.url);
	(void)ctx;
	scene_answer(write_and_settle(&o, job));
	own_sql(&o, defib_job_epoch(job) == 1 ? "ROLLBACK" : "COMMIT");
	own_close(&o);
	return DEFIB_SETTLED;
}

static void a_job_said_to_be_settled_that_is_not_is_handed_back(void **state)
{
	struct bench *b = with_effects(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(forgets_to_commit_at_first);
	o.lease_ms = 15000; /* compared at every renewal */
	enqueue_kind(b, "q", "k");
	struct beside w = beside_start(&o, &pool, 1);
	becomes(b, "SELECT count(*) FROM " JOBS_TABLE " WHERE state = 'done'", 1);
	beside_stop(&w);
	assert_int_equal(effects(b), 1);
	assert_int_equal(bench_number(b, "SELECT attempts FROM " JOBS_TABLE), 1);
}

static defib_outcome settles_what_was_taken(defib_job *job, void *ctx)
{
	struct own o = own_open(scene.url);
	(void)ctx;
	scene_add(&scene.begun, 1);
	scene_wait_go();
	defib_err err = write_and_settle(&o, job);
	scene_answer(err);
	own_sql(&o, err ? "ROLLBACK" : "COMMIT");
	own_close(&o);
	return DEFIB_SETTLED;
}

static void a_lost_lease_refuses_the_settlement_and_keeps_it_as_evidence(void **state)
{
	struct bench *b = with_effects(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(settles_what_was_taken);
	o.lease_ms = TEST_HANGS_MS; /* so that only the settlement finds out */
	enqueue_kind(b, "q", "k");
	struct beside w = beside_start(&o, &pool, 1);
	scene_reaches(&scene.begun, 1);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET state = 'held', owner = NULL");
	scene_go();
	scene_reaches(&scene.nanswers, 1);
	becomes(b, "SELECT count(*) FROM " LEDGER " WHERE event = 'LATE_COMPLETION'", 1);
	beside_stop(&w);
	assert_int_equal(scene.answers[0], DEFIB_LEASE_LOST);
	assert_int_equal(effects(b), 0);
	assert_int_equal(in_state(b, "held"), 1);
}

static defib_outcome commits_and_tries_again(defib_job *job, void *ctx)
{
	struct own o = own_open(scene.url);
	(void)ctx;
	scene_answer(write_and_settle(&o, job));
	own_sql(&o, "COMMIT");
	/* As if the reply to that COMMIT had been lost. */
	scene_answer(write_and_settle(&o, job));
	own_sql(&o, "ROLLBACK");
	own_close(&o);
	return DEFIB_SETTLED;
}

static void a_commit_whose_answer_was_lost_is_not_done_twice(void **state)
{
	struct bench *b = with_effects(state);
	enqueue_kind(b, "q", "k");
	drain_with(b, commits_and_tries_again);
	assert_int_equal(scene.answers[0], DEFIB_OK);
	assert_int_equal(scene.answers[1], DEFIB_LEASE_LOST);
	assert_int_equal(effects(b), 1);
	assert_int_equal(in_state(b, "done"), 1);
	assert_int_equal(bench_late(b), 0);
}

static defib_outcome only_says_settled(defib_job *job, void *ctx)
{
	(void)job;
	(void)ctx;
	return DEFIB_SETTLED;
}

static void a_handler_that_only_says_settled_has_failed(void **state)
{
	struct bench *b = bench_of(state);
	enqueue_kind(b, "q", "k");
	drain_with(b, only_says_settled);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE
	                                 " WHERE state = 'scheduled' AND error LIKE '%but it is not'"),
	                 1);
}

static defib_outcome returns_an_error_code(defib_job *job, void *ctx)
{
	(void)job;
	(void)ctx;
	return (defib_outcome)DEFIB_CONNECTION;
}

static void an_error_code_is_no_outcome(void **state)
{
	struct bench *b = bench_of(state);
	enqueue_kind(b, "q", "k");
	drain_with(b, returns_an_error_code);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE
	                                 " WHERE state = 'scheduled' AND error LIKE "
	                                 "'%returned 3 (CONNECTION), which is an error code%'"),
	                 1);
}

/* ---- options ---- */

static void options_of_an_older_program_have_our_defaults(void **state)
{
	struct bench *b = bench_of(state);
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	job.queue = "q";
	job.kind = "k";
	job.priority = 40000; /* beyond what that program knows */
	job.size = offsetof(defib_job_spec, payload);
	assert_true(enqueue_job(b, &job) > 0);
}

static void options_that_we_do_not_know_are_refused_when_they_are_used(void **state)
{
	struct {
		defib_worker_options known;
		long more;
	} newer = {DEFIB_WORKER_OPTIONS_INIT, 0};
	defib_pool pool = quick_pool(only_says_settled);
	defib_worker *w;
	defib_message m;
	(void)state;
	newer.known.size = sizeof newer;
	assert_int_equal(defib_worker_new(&newer.known, &pool, 1, &w, &m), DEFIB_CONFIG);
	newer.more = 1;
	assert_int_equal(defib_worker_new(&newer.known, &pool, 1, &w, &m), DEFIB_USAGE);
	assert_null(w);
}

static void a_worker_without_pools_or_handlers_is_refused(void **state)
{
	defib_worker_options o = DEFIB_WORKER_OPTIONS_INIT;
	defib_pool pool = quick_pool(NULL);
	defib_worker *w;
	(void)state;
	o.url = "sqlite:/nonexistent/x.db";
	assert_int_equal(defib_worker_new(&o, NULL, 0, &w, NULL), DEFIB_USAGE);
	assert_int_equal(defib_worker_new(&o, &pool, 1, &w, NULL), DEFIB_USAGE);
	pool = quick_pool(only_says_settled);
	assert_int_equal(defib_worker_new(&o, &pool, 1, &w, NULL), DEFIB_CONNECTION);
	o.lease_ms = 100;
	assert_int_equal(defib_worker_new(&o, &pool, 1, &w, NULL), DEFIB_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_job_is_there_when_the_callers_transaction_commits),
		BOTH(a_job_is_not_there_when_the_callers_transaction_rolls_back),
		BOTH(without_a_transaction_the_callers_handle_is_refused),
		BOTH(a_unique_key_gives_the_job_that_has_it),
		BOTH(what_no_database_should_see_is_refused),
		BOTH(many_jobs_go_in_at_once_and_have_numbers_in_their_order),
		BOTH(many_jobs_with_unique_keys_get_the_number_of_who_has_it),
		BOTH(of_many_jobs_none_is_there_when_one_is_wrong),
		BOTH(an_array_of_jobs_that_is_none_is_refused),
		BOTH(a_job_that_waits_is_cancelled_once),
		BOTH(an_effect_and_its_settlement_commit_together),
		BOTH(a_rollback_leaves_neither_effect_nor_settlement),
		BOTH(a_job_said_to_be_settled_that_is_not_is_handed_back),
		BOTH(a_lost_lease_refuses_the_settlement_and_keeps_it_as_evidence),
		BOTH(a_commit_whose_answer_was_lost_is_not_done_twice),
		BOTH(a_handler_that_only_says_settled_has_failed),
		BOTH(an_error_code_is_no_outcome),
		BOTH(options_of_an_older_program_have_our_defaults),
		cmocka_unit_test(options_that_we_do_not_know_are_refused_when_they_are_used),
		cmocka_unit_test(a_worker_without_pools_or_handlers_is_refused),
	};
	return cmocka_run_group_tests_name("lib/worker", tests, NULL, NULL);
}
