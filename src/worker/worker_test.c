/* SPDX-License-Identifier: Apache-2.0
 * A whole worker with handlers in threads, on both engines: outcomes of jobs, stopping in all its
 * forms, lost leases, and the cost of many jobs in hand.
 */

#include "worker/worker_test.h"

#include "base/text.h"
#include "life/registry.h"

#include <sys/wait.h>

#define STATE_IS(s) "SELECT count(*) FROM " JOBS_TABLE " WHERE state = '" s "'"

static struct bench *stage(void **state)
{
	struct bench *b = bench_of(state);
	scene_open(b);
	return b;
}

/* ---- outcomes ---- */

static defib_outcome echoes(defib_job *job, void *ctx)
{
	(void)ctx;
	scene_add(&scene.ended, 1);
	return defib_job_result(job, defib_job_payload(job)) ? DEFIB_FAILED : DEFIB_DONE;
}

static void handlers_run_and_their_results_are_stored(void **state)
{
	struct bench *b = stage(state);
	for (int i = 0; i < 20; i++)
		enqueue_kind(b, "q", "k");
	drain_with(b, echoes);
	assert_int_equal(scene.ended, 20);
	assert_int_equal(in_state(b, "done"), 20);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " DATA_TABLE " WHERE result = payload"),
	                 20);
}

static defib_outcome fails(defib_job *job, void *ctx)
{
	(void)ctx;
	defib_job_error(job, "no such \xff page");
	defib_job_retry_in(job, 3600000);
	return DEFIB_FAILED;
}

static void a_failed_job_waits_for_another_try_with_its_error(void **state)
{
	struct bench *b = stage(state);
	enqueue_kind(b, "q", "k");
	drain_with(b, fails);
	assert_int_equal(
		bench_number(
			b,
			STATE_IS(
				"scheduled") " AND error = 'no such ? page' AND cause = 'error' AND attempts = 1"),
		1);
}

static defib_outcome wants_a_retry_at_once(defib_job *job, void *ctx)
{
	(void)ctx;
	scene_add(&scene.begun, 1);
	defib_job_retry_in(job, 0);
	return defib_job_attempt(job) < 3 ? DEFIB_RETRY : DEFIB_DONE;
}

static void a_retry_does_not_ask_how_many_attempts_are_left(void **state)
{
	struct bench *b = stage(state);
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(wants_a_retry_at_once);
	job.queue = "q";
	job.kind = "k";
	job.max_attempts = 1;
	enqueue_job(b, &job);
	struct beside w = beside_start(&o, &pool, 1);
	becomes(b, STATE_IS("done"), 1);
	beside_stop(&w);
	assert_int_equal(scene.begun, 3);
}

static void the_last_attempt_fails_for_good(void **state)
{
	struct bench *b = stage(state);
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	job.queue = "q";
	job.kind = "k";
	job.max_attempts = 1;
	enqueue_job(b, &job);
	drain_with(b, fails);
	assert_int_equal(bench_number(b, STATE_IS("failed") " AND cause = 'error'"), 1);
}

static defib_outcome never_again(defib_job *job, void *ctx)
{
	(void)ctx;
	defib_job_error(job, "it cannot be");
	return DEFIB_PERMANENT;
}

static void a_permanent_failure_is_not_tried_again(void **state)
{
	struct bench *b = stage(state);
	enqueue_kind(b, "q", "k");
	drain_with(b, never_again);
	assert_int_equal(in_state(b, "failed"), 1);
}

/* ---- pools ---- */

static defib_outcome counts_into(defib_job *job, void *ctx)
{
	(void)job;
	scene_add(ctx, 1);
	return DEFIB_DONE;
}

static void each_pool_takes_its_own_queue_and_kind(void **state)
{
	struct bench *b = stage(state);
	defib_worker_options o = quick_options(b);
	defib_pool pools[3];
	int counts[3] = {0};
	for (int i = 0; i < 3; i++) {
		pools[i] = quick_pool(counts_into);
		pools[i].ctx = &counts[i];
	}
	pools[0].kind = "a";
	pools[1].kind = "b";
	pools[2].queue = "other";
	for (int i = 0; i < 6; i++)
		enqueue_kind(b, i < 4 ? "q" : "other", i < 3 ? "a" : "b");
	o.drain = 1;
	struct beside w = beside_start(&o, pools, 3);
	beside_end(&w);
	assert_int_equal(counts[0], 3);
	assert_int_equal(counts[1], 1);
	assert_int_equal(counts[2], 2);
}

static defib_outcome waits(defib_job *job, void *ctx)
{
	(void)job;
	(void)ctx;
	scene_add(&scene.begun, 1);
	scene_wait_go();
	return DEFIB_DONE;
}

static void a_pool_that_grows_takes_more_at_once(void **state)
{
	struct bench *b = stage(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(waits);
	pool.concurrency = 1;
	for (int i = 0; i < 3; i++)
		enqueue_kind(b, "q", "k");
	struct beside w = beside_start(&o, &pool, 1);
	scene_reaches(&scene.begun, 1);
	assert_int_equal(in_state(b, "running"), 1);
	assert_int_equal(defib_worker_resize(w.worker, 0, 3, 50), DEFIB_OK);
	scene_reaches(&scene.begun, 3);
	scene_go();
	becomes(b, STATE_IS("done"), 3);
	beside_stop(&w);
}

/* ---- progress, cancel, time limit ---- */

static defib_outcome tells(defib_job *job, void *ctx)
{
	char longer[1200];
	(void)ctx;
	/* Cut in the middle of a character it would no longer be valid text. */
	memset(longer, 'x', sizeof longer);
	memcpy(longer + 1022, "é", 2);
	longer[sizeof longer - 1] = '\0';
	scene_answer(defib_job_progress(job, "page 7", longer));
	scene_wait_go();
	return DEFIB_DONE;
}

static void progress_is_stored_while_the_handler_runs(void **state)
{
	struct bench *b = stage(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(tells);
	enqueue_kind(b, "q", "k");
	struct beside w = beside_start(&o, &pool, 1);
	becomes(b,
	        "SELECT count(*) FROM " PROGRESS_TABLE
	        " WHERE step = 'page 7' AND length(progress) = 1022 AND epoch = 1",
	        1);
	scene_go();
	beside_stop(&w);
	assert_int_equal(scene.answers[0], DEFIB_OK);
}

static defib_outcome until_told(defib_job *job, void *ctx)
{
	(void)ctx;
	scene_add(&scene.begun, 1);
	while (!defib_job_should_stop(job))
		pause_ms(5);
	scene_add(&scene.stopped, 1);
	return DEFIB_STOPPED;
}

static void a_cancelled_job_is_told_and_ends_cancelled(void **state)
{
	struct bench *b = stage(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(until_told);
	int64_t id = enqueue_kind(b, "q", "k");
	defib_message m;
	defib_db *db = NULL;
	struct beside w = beside_start(&o, &pool, 1);
	scene_reaches(&scene.begun, 1);
	expect_ok(defib_open(b->rig.url, 0, &db, &m), &m);
	expect_ok(defib_cancel(db, id, &m), &m);
	defib_close(db);
	becomes(b, STATE_IS("cancelled"), 1);
	beside_stop(&w);
	assert_int_equal(scene.stopped, 1);
}

static void a_handler_over_its_time_limit_ends_timed_out(void **state)
{
	struct bench *b = stage(state);
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	job.queue = "q";
	job.kind = "k";
	job.max_attempts = 1;
	job.timeout_ms = 30;
	enqueue_job(b, &job);
	drain_with(b, until_told);
	assert_int_equal(bench_number(b, STATE_IS("timed_out") " AND cause = 'time-out'"), 1);
}

/* ---- stopping ---- */

static void a_stop_lets_handlers_finish_and_hands_back_what_has_not_begun(void **state)
{
	struct bench *b = stage(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(waits);
	o.threads = 1;
	for (int i = 0; i < 4; i++)
		enqueue_kind(b, "q", "k");
	struct beside w = beside_start(&o, &pool, 1);
	scene_reaches(&scene.begun, 1);
	becomes(b, STATE_IS("running"), 4);
	defib_worker_stop(w.worker);
	becomes(b, STATE_IS("queued") " AND attempts = 0", 3);
	scene_go();
	beside_end(&w);
	assert_int_equal(in_state(b, "done"), 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " WORKERS " WHERE state = 'left'"), 1);
}

static void a_second_stop_asks_handlers_to_stop_and_returns_the_attempt(void **state)
{
	struct bench *b = stage(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(until_told);
	o.grace_ms = TEST_HANGS_MS;
	enqueue_kind(b, "q", "k");
	struct beside w = beside_start(&o, &pool, 1);
	scene_reaches(&scene.begun, 1);
	defib_worker_stop(w.worker);
	beside_stop(&w);
	assert_int_equal(scene.stopped, 1);
	assert_int_equal(bench_number(b, STATE_IS("queued") " AND attempts = 0"), 1);
}

static void note_stuck(void *ctx, const char *queue, const char *job)
{
	(void)queue;
	(void)job;
	scene_add(ctx, 1);
}

static void a_handler_that_will_not_stop_is_reported_once(void **state)
{
	struct bench *b = stage(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(waits);
	int stuck = 0;
	o.grace_ms = 1;
	o.on_stuck = note_stuck;
	o.on_stuck_ctx = &stuck;
	pool.stop_ms = 1;
	enqueue_kind(b, "q", "k");
	struct beside w = beside_start(&o, &pool, 1);
	scene_reaches(&scene.begun, 1);
	defib_worker_stop(w.worker);
	scene_reaches(&stuck, 1);
	scene_go();
	beside_end(&w);
	assert_int_equal(stuck, 1);
	assert_int_equal(in_state(b, "done"), 1);
}

/* In a process of its own, which must not use the test's sessions. */
static int in_child(struct bench *b, int (*act)(struct bench *b))
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0)
		_exit(act(b));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int work_stuck(struct bench *b)
{
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(waits);
	defib_worker *w = NULL;
	pthread_t thread;
	o.exit_when_stuck = 1;
	o.grace_ms = 1;
	pool.stop_ms = 1;
	if (defib_worker_new(&o, &pool, 1, &w, NULL))
		return 1;
	pthread_create(&thread, NULL, beside_main, w);
	while (scene_read(&scene.begun) == 0)
		pause_ms(5);
	defib_worker_stop(w);
	pthread_join(thread, NULL);
	return 0;
}

static void a_handler_that_will_not_stop_ends_the_process_if_asked(void **state)
{
	struct bench *b = stage(state);
	enqueue_kind(b, "q", "k");
	assert_int_equal(in_child(b, work_stuck), 70);
}

/* ---- life ---- */

static defib_outcome stops_at_first(defib_job *job, void *ctx)
{
	return defib_job_epoch(job) == 1 ? until_told(job, ctx) : DEFIB_DONE;
}

static void a_worker_declared_dead_stops_its_work_and_registers_anew(void **state)
{
	struct bench *b = stage(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(stops_at_first);
	o.lease_ms = 15000; /* it learns it at its next renewal */
	enqueue_kind(b, "q", "k");
	struct beside w = beside_start(&o, &pool, 1);
	scene_reaches(&scene.begun, 1);
	bench_sql(b, "UPDATE " WORKERS " SET state = 'dead'");
	scene_reaches(&scene.stopped, 1);
	/* The jobs of the dead incarnation are recovered like any other, and the new one runs them. */
	becomes(b, STATE_IS("done"), 1);
	beside_stop(&w);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " WORKERS), 2);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " WORKERS " WHERE state = 'left'"), 1);
}

static void a_job_that_is_ours_but_not_in_hand_is_released_and_run(void **state)
{
	struct bench *b = stage(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(echoes);
	o.lease_ms = 15000; /* compared at every renewal */
	pool.kind = "k";
	/* With another kind at first, so that only the test can claim it. */
	enqueue_kind(b, "q", "lost");
	struct beside w = beside_start(&o, &pool, 1);
	becomes(b, "SELECT count(*) FROM " WORKERS " WHERE state = 'alive'", 1);
	bench_sql(b,
	          "UPDATE " JOBS_TABLE " SET state = 'running', epoch = 1, attempts = 1, kind = 'k', "
	          "owner = (SELECT max(id) FROM " WORKERS ")");
	becomes(b, STATE_IS("done") " AND epoch = 2 AND attempts = 1", 1);
	beside_stop(&w);
}

/* ---- cost ---- */

static int64_t resident_kib(void)
{
	char line[128];
	int64_t kib = -1;
	FILE *in = fopen("/proc/self/status", "re");
	while (in && kib < 0 && fgets(line, sizeof line, in))
		if (text_starts(line, "VmRSS:"))
			kib = strtoll(line + strlen("VmRSS:"), NULL, 10);
	if (in)
		fclose(in);
	return kib;
}

#define MANY 10000
#define MANY_SQL "10000"

static bool all_in_hand(struct bench *b)
{
	/* A session of the child's own. */
	struct failure f = {0};
	struct store *s = NULL;
	struct store_options so = patient((struct store_options){.url = b->rig.url});
	int64_t until = clock_boot_ms() + TEST_HANGS_MS, running = 0;
	if (store_open(&so, &s, &f))
		return false;
	while (running < MANY && clock_boot_ms() < until) {
		pause_ms(20);
		running = number(s, bench_text(b, STATE_IS("running")));
	}
	store_close(s);
	return running == MANY;
}

static int work_on_many(struct bench *b)
{
	defib_worker_options o = quick_options(b);
	defib_pool pool = quick_pool(waits);
	defib_worker *w = NULL;
	pthread_t thread;
	o.threads = 64;
	pool.concurrency = MANY;
	if (defib_worker_new(&o, &pool, 1, &w, NULL))
		return 1;
	pthread_create(&thread, NULL, beside_main, w);
	if (!all_in_hand(b))
		return 2;
	while (scene_read(&scene.begun) < 64)
		pause_ms(5);
	int64_t kib = resident_kib();
	fprintf(stderr, "with %d jobs in hand: %lld KiB\n", MANY, (long long)kib);
	if (kib < 0 || kib >= 64 * 1024)
		return 3;
	scene_go();
	defib_worker_stop(w);
	pthread_join(thread, NULL);
	defib_worker_free(w);
	return 0;
}

static void enqueue_many(struct bench *b)
{
	bench_sql(b, b->rig.engine == STORE_POSTGRES
	                 ? "INSERT INTO defib.job (queue, kind) SELECT 'q', 'k' FROM "
	                   "generate_series(1, " MANY_SQL ")"
	                 : "INSERT INTO defib_job (queue, kind, created_at, run_at) WITH RECURSIVE "
	                   "n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " MANY_SQL ") "
	                   "SELECT 'q', 'k', 0, 0 FROM n");
	bench_sql(b, b->rig.engine == STORE_POSTGRES
	                 ? "INSERT INTO defib.job_data (job, payload) SELECT id, "
	                   "'{\"to\": \"ada@example.org\"}' FROM defib.job"
	                 : "INSERT INTO defib_job_data (job, payload) SELECT id, "
	                   "'{\"to\": \"ada@example.org\"}' FROM defib_job");
}

#if defined(__has_feature)
#define CLANG_HAS(x) __has_feature(x)
#else
#define CLANG_HAS(x) 0
#endif

static void ten_thousand_jobs_in_hand_take_less_than_64_mib(void **state)
{
	struct bench *b = stage(state);
	if (CLANG_HAS(address_sanitizer) || CLANG_HAS(thread_sanitizer)) {
		print_message("a sanitizer's own memory would be measured\n");
		skip();
	}
	enqueue_many(b);
	assert_int_equal(in_child(b, work_on_many), 0);
	/* And none is left behind. */
	assert_int_equal(in_state(b, "running"), 0);
	assert_int_equal(in_state(b, "done") + in_state(b, "queued"), MANY);
}

/* A store that counts what is sent through it. */
struct watch_metrics {
	struct store base;
	struct store *real;
	size_t sent, calls;
};

static defib_err watch_metrics_exec(struct store *s, const char *sql,
                                    const struct store_param *params, int n, struct arena *a,
                                    struct store_rows *rows, struct failure *f)
{
	struct watch_metrics *m = (struct watch_metrics *)s;
	m->calls++;
	m->sent += strlen(sql);
	for (int i = 0; i < n; i++)
		m->sent += params[i].text ? strlen(params[i].text) : sizeof params[i].number;
	return store_exec(m->real, sql, params, n, a, rows, f);
}

static void a_renewal_costs_the_same_however_many_jobs_are_in_hand(void **state)
{
	static const struct store_ops ops = {.exec = watch_metrics_exec};
	struct bench *b = stage(state);
	struct watch_metrics m = {.base = {.ops = &ops, .engine = b->rig.engine}, .real = b->rig.other};
	struct failure f = {0};
	int64_t worker = bench_worker(b), owned = 0;
	size_t sent, calls;
	assert_int_equal(registry_renew(&m.base, worker, NULL, 0, NULL, &owned, &f), DEFIB_OK);
	sent = m.sent;
	calls = m.calls;
	enqueue_many(b);
	bench_sql(b, "UPDATE " JOBS_TABLE " SET state = 'running', epoch = 1, owner = (SELECT max(id) "
	             "FROM " WORKERS ")");
	assert_int_equal(registry_renew(&m.base, worker, NULL, MANY, NULL, &owned, &f), DEFIB_OK);
	assert_int_equal(owned, MANY);
	assert_int_equal(m.sent, 2 * sent);
	assert_int_equal(m.calls, 2 * calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(handlers_run_and_their_results_are_stored),
		BOTH(a_failed_job_waits_for_another_try_with_its_error),
		BOTH(a_retry_does_not_ask_how_many_attempts_are_left),
		BOTH(the_last_attempt_fails_for_good),
		BOTH(a_permanent_failure_is_not_tried_again),
		BOTH(each_pool_takes_its_own_queue_and_kind),
		BOTH(a_pool_that_grows_takes_more_at_once),
		BOTH(progress_is_stored_while_the_handler_runs),
		BOTH(a_cancelled_job_is_told_and_ends_cancelled),
		BOTH(a_handler_over_its_time_limit_ends_timed_out),
		BOTH(a_stop_lets_handlers_finish_and_hands_back_what_has_not_begun),
		BOTH(a_second_stop_asks_handlers_to_stop_and_returns_the_attempt),
		BOTH(a_handler_that_will_not_stop_is_reported_once),
		BOTH(a_handler_that_will_not_stop_ends_the_process_if_asked),
		BOTH(a_worker_declared_dead_stops_its_work_and_registers_anew),
		BOTH(a_job_that_is_ours_but_not_in_hand_is_released_and_run),
		BOTH(ten_thousand_jobs_in_hand_take_less_than_64_mib),
		BOTH(a_renewal_costs_the_same_however_many_jobs_are_in_hand),
	};
	return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
