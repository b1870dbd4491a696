/* SPDX-License-Identifier: Apache-2.0
 * worker_beat_test.c: the beats of a whole worker for its jobs in hand: as often as the watch says,
 * sooner after a failure, and never at a job's expense. The table is real; only the call of a beat
 * can be made to fail.
 */
#include "watch/settings.h"
#include "worker/tables_test.h"
#include "worker/worker.h"
#include "worker/worker_state.h"
#include "worker/worker_test.h"

#define BEAT_MS 100

/* A beat that fails as often as the test says, and then calls the source's own. */
static struct {
	const struct source_ops *real;
	int calls, fails; /* guarded by the scene's lock */
	int64_t at_ms[8]; /* of the first calls */
} faulty;

static defib_err beat(struct source *src, struct store *s, int64_t worker, struct beat *all, int n,
                      struct arena *a, struct failure *f)
{
	int left = scene_read(&faulty.fails), nth = scene_read(&faulty.calls);
	if (nth < 8)
		faulty.at_ms[nth] = clock_boot_ms();
	scene_add(&faulty.fails, left > 0 ? -1 : 0);
	defib_err err = left > 0 ? fail(f, DEFIB_TIMEOUT, "no answer in time")
	                         : faulty.real->beat(src, s, worker, all, n, a, f);
	scene_add(&faulty.calls, 1);
	return err;
}

static enum settle_as wait_for_go(struct handler_job *j, void *ctx)
{
	(void)j;
	(void)ctx;
	scene_add(&scene.begun, 1);
	scene_wait_go();
	return SETTLE_DONE;
}

static void *run_worker(void *arg)
{
	worker_run(arg);
	return NULL;
}

/* One lab in hand of a worker whose beats fail `fails` times. */
struct shift {
	struct worker *worker;
	pthread_t thread;
	struct worker_pool pool;
	const struct watch *watches[2];
	struct source_ops ops;
};

static struct bench *open_lab(void **state)
{
	struct bench *b = bench_of(state);
	scene_open(b);
	fill_labs(b);
	bench_sql(b, "DELETE FROM labs WHERE id > 1");
	bench_sql(b, "CREATE TABLE beats (id INTEGER, worker TEXT)");
	labs_with("    beat: 100ms\n    work:\n      ready: status = 'ending'\n"
	          "      done: status = 'finished'\n      failed: status = 'failed'\n"
	          "      beat: [\"INSERT INTO beats SELECT id, worker FROM work\"]\n");
	open_source(b, "labs", NULL);
	return b;
}

static void start(struct shift *w, struct bench *b, int fails)
{
	struct failure f = {0};
	w->watches[0] = builtin_watch(b->rig.engine, &b->arena);
	w->watches[1] = named("labs");
	w->pool = (struct worker_pool){.source = b->source,
	                               .concurrency = 1,
	                               .handler = wait_for_go,
	                               .poll_ms = 20,
	                               .grace_ms = TEST_HANGS_MS};
	struct worker_options o = {.name = "w",
	                           .store = {.url = b->rig.url, .name = "rig"},
	                           .pools = &w->pool,
	                           .npools = 1,
	                           .watches = w->watches,
	                           .nwatches = 2,
	                           .lease = lease_rules_of(60000),
	                           .grace_ms = TEST_HANGS_MS,
	                           .beat_retry_ms = 1};
	w->ops = *b->source->ops;
	w->ops.beat = beat;
	faulty.real = b->source->ops;
	faulty.calls = 0;
	faulty.fails = fails;
	b->source->ops = &w->ops;
	if (worker_open(&o, &w->worker, &f))
		fail_msg("%s", f.what);
	assert_int_equal(pthread_create(&w->thread, NULL, run_worker, w->worker), 0);
}

/* The job is released and must have succeeded. */
static void finish(struct shift *w, struct bench *b)
{
	scene_go();
	becomes(b, "SELECT count(*) FROM labs WHERE status = 'finished'", 1);
	worker_stop(w->worker);
	assert_int_equal(pthread_join(w->thread, NULL), 0);
	worker_close(w->worker);
	b->source->ops = faulty.real;
	assert_int_equal(scene.begun, 1);
}

static void a_job_in_hand_beats_again_and_again(void **state)
{
	struct bench *b = open_lab(state);
	struct shift w;
	start(&w, b, 0);
	scene_reaches(&faulty.calls, 3);
	assert_true(bench_number(b, "SELECT count(*) FROM beats WHERE id = 1 AND worker = 'w'") > 3);
	finish(&w, b);
}

static void a_beat_that_failed_is_tried_again(void **state)
{
	struct bench *b = open_lab(state);
	struct shift w;
	start(&w, b, 2);
	scene_reaches(&faulty.calls, 3);
	finish(&w, b);
	/* That of the claim, and each call but the two that failed. */
	assert_int_equal(bench_number(b, "SELECT count(*) FROM beats"), 1 + faulty.calls - 2);
}

static void a_beat_is_tried_three_times_more_and_then_left_to_the_next(void **state)
{
	struct bench *b = open_lab(state);
	struct shift w;
	start(&w, b, 100);
	scene_reaches(&faulty.calls, 5);
	finish(&w, b);
	assert_true(faulty.at_ms[4] - faulty.at_ms[3] >= BEAT_MS);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM beats"), 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(a_job_in_hand_beats_again_and_again),
		BOTH(a_beat_that_failed_is_tried_again),
		BOTH(a_beat_is_tried_three_times_more_and_then_left_to_the_next),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	reading_release(&reading);
	return failed;
}
