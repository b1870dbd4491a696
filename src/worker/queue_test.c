/* SPDX-License-Identifier: Apache-2.0 */
/* queue_test.c: enqueueing into the built-in queue, on both engines. */
#include "worker/queue.h"

#include "store/fault_test.h"
#include "worker/queue_statements.h"
#include "worker/source_test.h"

#define DATA "PG(defib.job_data|defib_job_data)"

static void put(struct bench *b, const struct enqueue *jobs, int n, int64_t *ids)
{
	struct failure f = {0};
	if (enqueue_jobs(b->rig.other, jobs, n, ids, &f))
		fail_msg("%s", f.what);
}

static int64_t put_one(struct bench *b, struct enqueue job)
{
	int64_t id = 0;
	job.queue = job.queue ? job.queue : "q";
	job.kind = "k";
	put(b, &job, 1, &id);
	assert_true(id > 0);
	return id;
}

static int64_t jobs_with(struct bench *b, const char *where)
{
	char sql[256];
	snprintf(sql, sizeof sql, "SELECT count(*) FROM " JOBS_TABLE " WHERE %s", where);
	return bench_number(b, sql);
}

static const char *cancelled(struct bench *b, int64_t id)
{
	static char state[16];
	struct failure f = {0};
	if (cancel_job(b->rig.other, id, state, &f))
		fail_msg("%s", f.what);
	return state;
}

static void set_state(struct bench *b, int64_t id, const char *state, int64_t owner)
{
	char sql[160], text[24] = "NULL";
	if (owner)
		snprintf(text, sizeof text, "%lld", (long long)owner);
	snprintf(sql, sizeof sql, "UPDATE " JOBS_TABLE " SET state = '%s', owner = %s WHERE id = %lld",
	         state, text, (long long)id);
	bench_sql(b, sql);
}

static void a_job_is_queued_with_the_usual_values(void **state)
{
	struct bench *b = bench_of(state);
	put_one(b, (struct enqueue){0});
	assert_int_equal(jobs_with(b, "state = 'queued' AND attempts = 0 AND max_attempts = 5 AND "
	                              "priority = 0 AND timeout_ms IS NULL AND owner IS NULL"),
	                 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " DATA), 0);
}

static void a_job_is_queued_with_the_values_that_are_given(void **state)
{
	struct bench *b = bench_of(state);
	put_one(b, (struct enqueue){.payload = "{\"to\": \"anna\"}",
	                            .tags = "[\"red\", \"blue\"]",
	                            .priority = -3,
	                            .max_attempts = 9,
	                            .timeout_ms = 1500});
	assert_int_equal(jobs_with(b, "priority = -3 AND max_attempts = 9 AND timeout_ms = 1500"), 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " DATA
	                                 " WHERE PG(payload::text|payload) LIKE '%anna%' AND "
	                                 "PG(tags::text|tags) LIKE '%blue%'"),
	                 1);
}

/* In words, before a column of 32 bits refuses it on one engine and takes it on the other. */
static void a_number_beyond_the_limits_is_refused_with_the_limit(void **state)
{
	static const struct {
		struct enqueue job;
		const char *says;
	} wrong[] = {
		{{.timeout_ms = INT64_C(25) * 86400000}, "from 0 to 2147483647, not 2160000000"},
		{{.timeout_ms = -1}, "from 0 to 2147483647, not -1"},
		{{.max_attempts = INT64_C(1) << 31}, "from 0 to 2147483647, not 2147483648"},
		{{.max_attempts = -1}, "not -1"},
		{{.priority = 32767}, "from -32768 to 32766, not 32767"},
		{{.priority = -32769}, "not -32769"},
		{{.delay_ms = INT64_MAX}, "from 0 to 3155760000000"},
		{{.delay_ms = -1}, "not -1"},
	};
	struct bench *b = bench_of(state);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct enqueue jobs[] = {{.queue = "q", .kind = "k"}, wrong[i].job};
		struct failure f = {0};
		int64_t ids[2];
		jobs[1].queue = "q";
		jobs[1].kind = "k";
		assert_int_equal(enqueue_jobs(b->rig.other, jobs, 2, ids, &f), DEFIB_USAGE);
		assert_non_null(strstr(f.what, wrong[i].says));
	}
	assert_int_equal(jobs_with(b, "true"), 0);
	put_one(b, (struct enqueue){.timeout_ms = INT32_MAX,
	                            .max_attempts = INT32_MAX,
	                            .priority = 32766,
	                            .delay_ms = DELAY_MOST_MS});
	assert_int_equal(jobs_with(b, "timeout_ms = 2147483647 AND max_attempts = 2147483647 AND "
	                              "priority = 32766 AND state = 'scheduled'"),
	                 1);
}

static void a_delayed_job_is_scheduled_for_later(void **state)
{
	struct bench *b = bench_of(state);
	put_one(b, (struct enqueue){.delay_ms = 3600000});
	assert_int_equal(jobs_with(b, "state = 'scheduled' AND run_at > created_at"), 1);
}

static void ids_come_in_the_order_of_the_jobs(void **state)
{
	struct bench *b = bench_of(state);
	static const char *const kinds[] = {"a", "b", "c"};
	struct enqueue jobs[3];
	int64_t ids[3];
	for (int i = 0; i < 3; i++)
		jobs[i] = (struct enqueue){.queue = "q", .kind = kinds[i], .payload = "{}"};
	put(b, jobs, 3, ids);
	assert_true(ids[0] < ids[1] && ids[1] < ids[2]);
	for (int i = 0; i < 3; i++) {
		char where[64];
		snprintf(where, sizeof where, "id = %lld AND kind = '%s'", (long long)ids[i], kinds[i]);
		assert_int_equal(jobs_with(b, where), 1);
	}
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " DATA), 3);
}

static void a_unique_key_that_waits_or_runs_is_not_put_in_again(void **state)
{
	static const char *const states[] = {"scheduled", "queued", "running", "cancelling"};
	struct bench *b = bench_of(state);
	struct enqueue job = {.unique_key = "u", .payload = "{}"};
	int64_t first = put_one(b, job), worker = bench_worker(b);
	for (int i = 0; i < 4; i++) {
		set_state(b, first, states[i], i >= 2 ? worker : 0);
		assert_int_equal(put_one(b, job), first);
	}
	assert_int_equal(jobs_with(b, "true"), 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " DATA), 1);
}

static void a_unique_key_that_is_over_is_free_again(void **state)
{
	struct bench *b = bench_of(state);
	int64_t first = put_one(b, (struct enqueue){.unique_key = "u"});
	set_state(b, first, "done", 0);
	assert_true(put_one(b, (struct enqueue){.unique_key = "u"}) != first);
}

static void a_unique_key_counts_within_its_queue(void **state)
{
	struct bench *b = bench_of(state);
	int64_t first = put_one(b, (struct enqueue){.unique_key = "u"});
	assert_true(put_one(b, (struct enqueue){.queue = "other", .unique_key = "u"}) != first);
}

static void a_unique_key_that_stands_twice_in_one_batch_is_one_job(void **state)
{
	struct bench *b = bench_of(state);
	const struct enqueue jobs[] = {{.queue = "q", .kind = "k", .unique_key = "u"},
	                               {.queue = "q", .kind = "k"},
	                               {.queue = "q", .kind = "k", .unique_key = "u"}};
	int64_t ids[3];
	put(b, jobs, 3, ids);
	assert_int_equal(ids[0], ids[2]);
	assert_true(ids[1] != ids[0]);
	assert_int_equal(jobs_with(b, "true"), 2);
}

static void in_the_caller_s_transaction_it_stands_and_falls_with_it(void **state)
{
	struct bench *b = bench_of(state);
	struct failure f = {0};
	assert_int_equal(store_begin(b->rig.other, TX_WRITE, &f), DEFIB_OK);
	put_one(b, (struct enqueue){.payload = "{}"});
	store_rollback(b->rig.other);
	assert_int_equal(jobs_with(b, "true"), 0);
	assert_int_equal(store_begin(b->rig.other, TX_WRITE, &f), DEFIB_OK);
	put_one(b, (struct enqueue){.payload = "{}"});
	assert_int_equal(store_commit(b->rig.other, &f), DEFIB_OK);
	assert_int_equal(jobs_with(b, "true"), 1);
}

static void a_batch_with_a_bad_job_puts_in_nothing(void **state)
{
	struct bench *b = bench_of(state);
	const struct enqueue jobs[] = {{.queue = "q", .kind = "k"}, {.queue = NULL, .kind = "k"}};
	struct failure f = {0};
	int64_t ids[2];
	assert_int_equal(enqueue_jobs(b->rig.other, jobs, 2, ids, &f), DEFIB_CONSTRAINT);
	assert_int_equal(jobs_with(b, "true"), 0);
	assert_false(b->rig.other->in_tx);
}

/* ---- never without an id (PostgreSQL) ---- */

/* What the holder of key "u" does just before and after an insert found its key taken. */
static void when_tried(struct bench *b, const char *before, const char *after)
{
	const char *parts[] = {before, after}, *const when[] = {"BEFORE", "AFTER"};
	for (int i = 0; i < 2; i++) {
		char sql[1024];
		snprintf(
			sql, sizeof sql,
			"CREATE FUNCTION defib.meanwhile_%d() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
			"IF pg_trigger_depth() < 2 THEN %s; END IF; RETURN NULL; END $$",
			i, parts[i]);
		bench_sql(b, sql);
		snprintf(sql, sizeof sql,
		         "CREATE TRIGGER meanwhile_%d %s INSERT ON defib.job FOR EACH STATEMENT EXECUTE "
		         "FUNCTION defib.meanwhile_%d()",
		         i, when[i], i);
		bench_sql(b, sql);
	}
}

/*
 * The insert conflicts with the holder; the holder ends; none is found: the result used to be NULL.
 */
static void a_unique_key_whose_holder_ends_at_that_moment_is_enqueued(void **state)
{
	struct bench *b = bench_of(state);
	const struct enqueue job = {.unique_key = "u", .payload = "{}"};
	int64_t first = put_one(b, job);
	set_state(b, first, "running", bench_worker(b));
	when_tried(b, "NULL",
	           "UPDATE defib.job SET state = 'done', owner = NULL WHERE unique_key = 'u' AND state "
	           "= 'running'");
	int64_t second = put_one(b, job);
	assert_true(second > first);
	assert_int_equal(jobs_with(b, "unique_key = 'u' AND state = 'queued'"), 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " DATA), 2);
}

static void what_can_neither_be_inserted_nor_found_is_an_error(void **state)
{
	struct bench *b = bench_of(state);
	const struct enqueue job = {.queue = "q", .kind = "k", .unique_key = "u"};
	struct failure f = {0};
	int64_t id = 7;
	when_tried(b, "INSERT INTO defib.job (queue, kind, unique_key) VALUES ('q', 'k', 'u')",
	           "UPDATE defib.job SET state = 'done' WHERE unique_key = 'u'");
	assert_int_equal(enqueue_jobs(b->rig.other, &job, 1, &id, &f), DEFIB_LOCKED);
	assert_non_null(strstr(f.what, "nothing was enqueued"));
	assert_int_equal(jobs_with(b, "true"), 0);
}

/* After a restore or a failover: an id of the past, without a record of it. */
static void a_sequence_behind_its_table_is_said_and_nothing_enqueued(void **state)
{
	struct bench *b = bench_of(state);
	struct enqueue job = {.queue = "q", .kind = "k"};
	put_one(b, job);
	for (int unique = 0; unique < 2; unique++) {
		struct failure f = {0};
		int64_t id = 7;
		job.unique_key = unique ? "u" : NULL;
		bench_sql(b, "SELECT setval(pg_get_serial_sequence('defib.job', 'id'), 1, false)");
		assert_int_equal(enqueue_jobs(b->rig.other, &job, 1, &id, &f), DEFIB_DATABASE);
		assert_non_null(strstr(f.what, "the sequence of defib.job is behind its table"));
		assert_int_equal(f.reason, REASON_SEQUENCE_BEHIND);
		assert_int_equal(f.advice, unique ? ADVISE_NONE : ADVISE_MEND_SEQUENCE);
		assert_true(!unique || strstr(f.next, "setval"));
		assert_false(store_blames_rows(&f));
		assert_int_equal(jobs_with(b, "true"), 1);
	}
}

static void a_waiting_job_is_cancelled_and_a_running_one_asked_to_stop(void **state)
{
	struct bench *b = bench_of(state);
	int64_t queued = put_one(b, (struct enqueue){0});
	int64_t later = put_one(b, (struct enqueue){.delay_ms = 3600000});
	int64_t running = put_one(b, (struct enqueue){0});
	set_state(b, running, "running", bench_worker(b));
	assert_string_equal(cancelled(b, queued), "cancelled");
	assert_string_equal(cancelled(b, later), "cancelled");
	assert_string_equal(cancelled(b, running), "cancelling");
	assert_string_equal(cancelled(b, running), "cancelling");
	assert_int_equal(jobs_with(b, "state = 'cancelled' AND finished_at IS NOT NULL"), 2);
}

static void what_is_over_or_unknown_cannot_be_cancelled(void **state)
{
	struct bench *b = bench_of(state);
	int64_t id = put_one(b, (struct enqueue){0});
	set_state(b, id, "done", 0);
	assert_string_equal(cancelled(b, id), "");
	assert_string_equal(cancelled(b, 4711), "");
	assert_int_equal(jobs_with(b, "state = 'done'"), 1);
}

/* ---- the statements of SQLite ---- */

static void an_end_whose_statement_fails_is_an_error(void **state)
{
	struct bench *b = bench_of(state);
	int64_t worker = bench_worker(b), id = put_one(b, (struct enqueue){0});
	struct failure f = {0};
	struct store_rows rows;
	assert_int_equal(queue_statements_claim(b->two, "q", NULL, worker, 1, &b->arena, &rows, &f),
	                 DEFIB_OK);
	assert_int_equal(jobs_with(b, "state = 'running'"), 1);
	for (int nth = 1, fired = 1; fired; nth++) {
		struct fault_plan plan = {.call = FAULT_EXEC, .nth = nth, .code = DEFIB_BAD_SQL};
		struct fault_store *s = (struct fault_store *)fault_wrap(b->two, &plan);
		struct settlement end = {.key = arena_printf(&b->arena, "%lld", (long long)id),
		                         .epoch = 1,
		                         .as = SETTLE_DONE,
		                         .delay_ms = -1};
		assert_int_equal(store_begin(&s->base, TX_WRITE, &f), DEFIB_OK);
		defib_err err = queue_statements_settle(&s->base, worker, &end, 1, &b->arena, &f);
		fired = plan.fired;
		assert_int_equal(err, fired ? DEFIB_BAD_SQL : DEFIB_OK);
		assert_true(fired || end.accepted);
		store_rollback(&s->base);
		free(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_job_is_queued_with_the_usual_values),
		BOTH(a_job_is_queued_with_the_values_that_are_given),
		BOTH(a_number_beyond_the_limits_is_refused_with_the_limit),
		BOTH(a_delayed_job_is_scheduled_for_later),
		BOTH(ids_come_in_the_order_of_the_jobs),
		BOTH(a_unique_key_that_waits_or_runs_is_not_put_in_again),
		BOTH(a_unique_key_that_is_over_is_free_again),
		BOTH(a_unique_key_counts_within_its_queue),
		BOTH(a_unique_key_that_stands_twice_in_one_batch_is_one_job),
		BOTH(in_the_caller_s_transaction_it_stands_and_falls_with_it),
		BOTH(a_batch_with_a_bad_job_puts_in_nothing),
		cmocka_unit_test_setup_teardown(a_unique_key_whose_holder_ends_at_that_moment_is_enqueued,
	                                    setup_postgres, teardown),
		cmocka_unit_test_setup_teardown(what_can_neither_be_inserted_nor_found_is_an_error,
	                                    setup_postgres, teardown),
		cmocka_unit_test_setup_teardown(a_sequence_behind_its_table_is_said_and_nothing_enqueued,
	                                    setup_postgres, teardown),
		BOTH(a_waiting_job_is_cancelled_and_a_running_one_asked_to_stop),
		BOTH(what_is_over_or_unknown_cannot_be_cancelled),
		ON_SQLITE(an_end_whose_statement_fails_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
