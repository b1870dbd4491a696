/* enqueue_test.c: what is put into the built-in queue, on both engines. */
#include "worker/enqueue.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_job_is_queued_with_the_usual_values),
		BOTH(a_job_is_queued_with_the_values_that_are_given),
		BOTH(a_delayed_job_is_scheduled_for_later),
		BOTH(ids_come_in_the_order_of_the_jobs),
		BOTH(a_unique_key_that_waits_or_runs_is_not_put_in_again),
		BOTH(a_unique_key_that_is_over_is_free_again),
		BOTH(a_unique_key_counts_within_its_queue),
		BOTH(a_unique_key_that_stands_twice_in_one_batch_is_one_job),
		BOTH(in_the_caller_s_transaction_it_stands_and_falls_with_it),
		BOTH(a_batch_with_a_bad_job_puts_in_nothing),
		BOTH(a_waiting_job_is_cancelled_and_a_running_one_asked_to_stop),
		BOTH(what_is_over_or_unknown_cannot_be_cancelled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
