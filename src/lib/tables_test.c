/* SPDX-License-Identifier: Apache-2.0
 * A program that works on its own table through the library: handlers on rows, an instance with its
 * clean-up, heartbeats by a watch, and ending a job.
 */
#include "ledger/schema.h"
#include "recover/recover_test.h"
#include "store/dialect.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

static const char config[] =
	"watches:\n"
	"  - name: rows\n"
	"    table: rows\n"
	"    key: id\n"
	"    kind: kind\n"
	"    running: status = 'running'\n"
	"    owner: worker\n"
	"    time_type: epoch\n"
	"    alive_at: beat_at\n"
	"    stuck_after: 1h\n"
	"    requeue: status = 'queued'\n"
	"    fail: status = 'failed', error = :reason\n"
	"    end_when: status = 'running'\n"
	"    end: status = 'ending'\n"
	"    startup: {do: fail, reason: restart}\n"
	"    work:\n"
	"      enabled: %s\n"
	"      ready: status = 'queued'\n"
	"      claim: status = 'running', worker = :worker, beat_at = :now\n"
	"      done: status = 'done', error = :result.said\n"
	"      failed: status = 'failed', error = :error\n"
	"      release: status = 'queued'\n"
	"      poll: 10ms\n"
	"      pools: [{kind: a, concurrency: 2}, {kind: b, concurrency: 1}]\n";

static void prepare(struct rig *g)
{
	AUTO_BUF sql = BUF_INIT;
	buf_addf(&sql,
	         "CREATE TABLE rows (id INTEGER PRIMARY KEY, status TEXT, kind TEXT, worker TEXT, "
	         "error TEXT, beat_at INTEGER DEFAULT %lld)",
	         (long long)(clock_wall_us() / 1000000 - 60));
	rig_sql(g, buf_text(&sql));
}

RIG(prepare)

static void expect(defib_err err, defib_err wanted, const defib_message *m)
{
	if (err != wanted)
		fail_msg("%s: %s", defib_err_name(err), m->what);
}

static defib_watches *watches_of(struct rig *g, const char *enabled)
{
	defib_watches *ws = NULL;
	defib_message m;
	AUTO_BUF yaml = BUF_INIT;
	buf_addf(&yaml, config, enabled);
	expect(defib_watches_new(g->url, &ws, &m), DEFIB_OK, &m);
	expect(defib_watches_load_string(ws, buf_text(&yaml), &m), DEFIB_OK, &m);
	return ws;
}

static int64_t count(struct rig *g, const char *where)
{
	AUTO_BUF sql = BUF_INIT;
	buf_addf(&sql, "SELECT count(*) FROM rows WHERE %s", where);
	return number(g->other, buf_text(&sql));
}

/* ---- a worker on a watch ---- */

static defib_outcome say_key(defib_job *job, void *ctx)
{
	(void)ctx;
	char said[64];
	assert_string_equal(defib_job_queue(job), "rows");
	assert_int_equal(defib_job_lost(job), 0);
	defib_job_session(job, 1);
	if (defib_job_id(job) == 3) {
		defib_job_error(job, "no luck");
		return DEFIB_PERMANENT;
	}
	snprintf(said, sizeof said, "{\"said\": \"%s %s\"}", defib_job_key(job), defib_job_kind(job));
	return defib_job_result(job, said) ? DEFIB_FAILED : DEFIB_DONE;
}

static void *end_later(void *job)
{
	poll(NULL, 0, 5);
	assert_int_equal(defib_job_result(job, "{\"said\": \"later\"}"), DEFIB_OK);
	defib_job_finish(job, DEFIB_DONE);
	return NULL;
}

/* Rows with even keys end in a thread of their own, others before the handler returns. */
static defib_outcome take_time(defib_job *job, void *ctx)
{
	pthread_t *threads = ctx;
	int64_t id = defib_job_id(job);
	if (id % 2 == 0)
		assert_int_equal(pthread_create(&threads[id], NULL, end_later, job), 0);
	else
		defib_job_finish(job, DEFIB_PERMANENT);
	return DEFIB_LATER;
}

static void a_handler_may_end_later(void **state)
{
	struct rig *g = *state;
	defib_watches *ws = watches_of(g, "true");
	defib_worker_options o = DEFIB_WORKER_OPTIONS_INIT;
	defib_pool pool = DEFIB_POOL_INIT;
	pthread_t threads[5];
	defib_worker *w = NULL;
	defib_message m;
	rig_sql(g, "INSERT INTO rows (id, status, kind) VALUES (1, 'queued', 'a'), (2, 'queued', 'a'), "
	           "(3, 'queued', 'a'), (4, 'queued', 'a')");
	o.watches = ws;
	o.drain = 1;
	pool.watch = "rows";
	pool.kind = "a";
	pool.concurrency = 4;
	pool.handler = take_time;
	pool.ctx = threads;
	o.threads = 1;
	expect(defib_worker_new(&o, &pool, 1, &w, &m), DEFIB_OK, &m);
	defib_worker_run(w);
	defib_worker_free(w);
	pthread_join(threads[2], NULL);
	pthread_join(threads[4], NULL);
	assert_int_equal(count(g, "id IN (2, 4) AND status = 'done' AND error = 'later'"), 2);
	assert_int_equal(count(g, "id IN (1, 3) AND status = 'failed'"), 2);
	defib_watches_free(ws);
}

static defib_err start(defib_watches *ws, const char *watch, defib_worker **out, defib_message *m)
{
	defib_worker_options o = DEFIB_WORKER_OPTIONS_INIT;
	defib_pool pool = DEFIB_POOL_INIT;
	o.watches = ws;
	o.drain = 1;
	pool.watch = watch;
	pool.handler = say_key;
	return defib_worker_new(&o, &pool, 1, out, m);
}

static void handlers_work_on_the_rows_of_a_watch(void **state)
{
	struct rig *g = *state;
	defib_watches *ws = watches_of(g, "true");
	defib_worker *w = NULL;
	defib_message m;
	rig_sql(g, "INSERT INTO rows (id, status, kind) VALUES (1, 'queued', 'a'), (2, 'queued', 'b'), "
	           "(3, 'queued', 'a'), (4, 'queued', 'c')");
	expect(start(ws, "rows", &w, &m), DEFIB_OK, &m);
	assert_int_equal(defib_watches_set(ws, "rows", "stuck_after", "2h", &m), DEFIB_REFUSED);
	assert_int_equal(defib_worker_resize(w, 0, 2, 10), DEFIB_USAGE); /* it is two pools */
	defib_worker_run(w);
	defib_worker_free(w);
	assert_int_equal(count(g, "status = 'done' AND error = '1 a'"), 1);
	assert_int_equal(count(g, "status = 'done' AND error = '2 b'"), 1);
	assert_int_equal(count(g, "id = 3 AND status = 'failed' AND error = 'no luck'"), 1);
	assert_int_equal(count(g, "id = 4 AND status = 'queued'"), 1);
	expect(defib_watches_set(ws, "rows", "stuck_after", "2h", &m), DEFIB_OK, &m);
	defib_watches_free(ws);
}

static void work_that_is_off_ends_at_once(void **state)
{
	struct rig *g = *state;
	defib_watches *ws = watches_of(g, "false");
	defib_counts counts = DEFIB_COUNTS_INIT;
	defib_worker *w = NULL;
	defib_message m;
	rig_sql(g, "INSERT INTO rows (id, status, kind) VALUES (1, 'queued', 'a')");
	expect(start(ws, "rows", &w, &m), DEFIB_OK, &m);
	defib_worker_run(w);
	defib_worker_stop(w);
	assert_int_equal(defib_worker_counts(w, &counts), DEFIB_OK);
	assert_int_equal(counts.settled, 0);
	defib_worker_free(w);
	defib_watches_free(ws);
	assert_int_equal(count(g, "status = 'queued'"), 1);
}

static void a_pool_needs_a_watch_that_exists(void **state)
{
	struct rig *g = *state;
	defib_watches *ws = watches_of(g, "true");
	defib_worker_options o = DEFIB_WORKER_OPTIONS_INIT;
	defib_pool pool = DEFIB_POOL_INIT;
	defib_worker *w = NULL;
	defib_message m;
	expect(start(ws, "none", &w, &m), DEFIB_NOT_FOUND, &m);
	expect(start(NULL, "rows", &w, &m), DEFIB_CONFIG, &m); /* no URL either */
	o.watches = ws;
	pool.handler = say_key;
	expect(defib_worker_new(&o, &pool, 1, &w, &m), DEFIB_USAGE, &m);
	pool.watch = pool.queue = "rows";
	expect(defib_worker_new(&o, &pool, 1, &w, &m), DEFIB_USAGE, &m);
	assert_null(w);
	defib_watches_free(ws);
}

/* ---- the steps of a watch's workflow ---- */

static const char step_config[] = "watches:\n"
								  "  - name: rows\n"
								  "    table: rows\n"
								  "    key: id\n"
								  "    running: status = 'running'\n"
								  "    time_type: epoch\n"
								  "    alive_at: beat_at\n"
								  "    stuck_after: 1h\n"
								  "    steps_done: kind\n"
								  "    requeue: status = 'queued'\n"
								  "    rollback: status = 'failed'\n"
								  "    work:\n"
								  "      workflow: order\n"
								  "      ready: status = 'queued'\n"
								  "      claim: status = 'running', beat_at = :now\n"
								  "      step: status = 'queued'\n"
								  "      done: status = 'done'\n"
								  "      failed: status = 'failed'\n"
								  "      release: status = 'queued'\n"
								  "      rollback_ready: status = 'failed'\n"
								  "      rolled_back: status = 'undone'\n"
								  "      poll: 10ms\n"
								  "workflows:\n"
								  "  - name: order\n"
								  "    steps:\n"
								  "      - {name: one, run: [x]}\n"
								  "      - {name: two, run: [x]}\n"
								  "      - {name: three, run: [x]}\n";

static char trace[256];

static defib_outcome trace_step(defib_job *job, void *ctx)
{
	(void)ctx;
	size_t len = strlen(trace);
	snprintf(trace + len, sizeof trace - len, "%s%s.%s ", defib_job_undoing(job) ? "undo " : "",
	         defib_job_key(job), defib_job_step(job));
	return DEFIB_DONE;
}

static defib_err work_steps(struct rig *g, const defib_step *steps, int n, defib_message *m)
{
	defib_watches *ws = NULL;
	defib_worker_options o = DEFIB_WORKER_OPTIONS_INIT;
	defib_pool pool = DEFIB_POOL_INIT;
	defib_worker *w = NULL;
	expect(defib_watches_new(g->url, &ws, m), DEFIB_OK, m);
	expect(defib_watches_load_string(ws, step_config, m), DEFIB_OK, m);
	o.watches = ws;
	o.drain = 1;
	pool.watch = "rows";
	pool.steps = steps;
	pool.nsteps = n;
	trace[0] = '\0';
	defib_err err = defib_worker_new(&o, &pool, 1, &w, m);
	if (!err)
		defib_worker_run(w);
	defib_worker_free(w);
	defib_watches_free(ws);
	return err;
}

static void functions_run_and_undo_the_steps_of_a_watch(void **state)
{
	struct rig *g = *state;
	static const defib_step steps[] = {DEFIB_STEP("one", trace_step, trace_step),
	                                   DEFIB_STEP("two", trace_step, trace_step),
	                                   DEFIB_STEP("three", trace_step, NULL)};
	defib_message m;
	/* Its column says which step it is at: those before it are finished. */
	rig_sql(g, "INSERT INTO rows (id, status, kind) VALUES (1, 'queued', 'two')");
	expect(work_steps(g, steps, 3, &m), DEFIB_OK, &m);
	assert_string_equal(trace, "1.two 1.three ");
	assert_int_equal(count(g, "status = 'done'"), 1);
	rig_sql(g, "INSERT INTO rows (id, status, kind) VALUES (2, 'failed', 'three')");
	expect(work_steps(g, steps, 3, &m), DEFIB_OK, &m);
	assert_string_equal(trace, "undo 2.two undo 2.one ");
	assert_int_equal(count(g, "status = 'undone'"), 1);
}

static void steps_of_a_watch_are_those_of_its_workflow(void **state)
{
	struct rig *g = *state;
	static const defib_step steps[] = {DEFIB_STEP("one", trace_step, NULL),
	                                   DEFIB_STEP("three", trace_step, NULL),
	                                   DEFIB_STEP("two", trace_step, NULL)};
	defib_watches *plain = watches_of(g, "true");
	defib_worker_options o = DEFIB_WORKER_OPTIONS_INIT;
	defib_pool pool = DEFIB_POOL_INIT;
	defib_worker *w = NULL;
	defib_message m;
	expect(work_steps(g, steps, 2, &m), DEFIB_CONFIG, &m);
	expect(work_steps(g, steps, 3, &m), DEFIB_CONFIG, &m);
	o.watches = plain;
	pool.watch = "rows";
	pool.steps = steps;
	pool.nsteps = 3;
	expect(defib_worker_new(&o, &pool, 1, &w, &m), DEFIB_CONFIG, &m); /* it has no workflow */
	defib_watches_free(plain);
}

/* ---- an instance ---- */

static defib_instance *instance_with_lease(defib_watches *ws, int64_t lease_ms, int64_t cleaned)
{
	defib_instance_options o = DEFIB_INSTANCE_OPTIONS_INIT;
	defib_result r = DEFIB_RESULT_INIT;
	defib_instance *i = NULL;
	defib_message m;
	o.watches = ws;
	o.lease_ms = lease_ms;
	expect(defib_instance_start(&o, &i, &r, &m), DEFIB_OK, &m);
	assert_int_equal(r.recovered, cleaned);
	return i;
}

static defib_instance *instance(defib_watches *ws, int64_t cleaned)
{
	return instance_with_lease(ws, 0, cleaned);
}

static void the_first_instance_cleans_up_and_the_second_leaves_its_rows(void **state)
{
	struct rig *g = *state;
	defib_watches *ws = watches_of(g, "true"), *others = watches_of(g, "true");
	rig_sql(g, "INSERT INTO rows (id, status) VALUES (1, 'running'), (2, 'queued')");
	defib_instance *first = instance(ws, 1);
	assert_int_equal(count(g, "status = 'failed' AND error = 'restart'"), 1);
	rig_sql(g, "INSERT INTO rows (id, status) VALUES (3, 'running')");
	defib_instance *second = instance(others, 0);
	defib_instance_stop(second);
	defib_instance_stop(first);
	assert_int_equal(count(g, "id = 3 AND status = 'running'"), 1);
	defib_instance_stop(instance(ws, 1));
	defib_watches_free(ws);
	defib_watches_free(others);
	defib_instance_stop(NULL);
}

static void five_sessions_that_were_not_there_open_the_breaker(void **state)
{
	struct rig *g = *state;
	defib_watches *ws = watches_of(g, "true");
	defib_instance *i = instance(ws, 0);
	assert_int_equal(defib_instance_wait_ms(i), 0);
	for (int k = 0; k < 5; k++)
		defib_instance_session(i, 0);
	EVENTUALLY(defib_instance_wait_ms(i) == 0); /* the pause ends: this is the probe … */
	assert_true(defib_instance_wait_ms(i) > 0); /* … and nobody else asks meanwhile */
	defib_instance_session(i, 1);
	assert_int_equal(defib_instance_wait_ms(i), 0);
	defib_instance_stop(i);
	defib_watches_free(ws);
}

/* ---- heartbeats by a watch ---- */

static defib_beat_options beat_of(defib_watches *ws)
{
	defib_beat_options o = DEFIB_BEAT_OPTIONS_INIT;
	o.watches = ws;
	o.key = "1";
	o.worker = "me";
	o.every_ms = 10;
	o.retry_ms = 10;
	return o;
}

static void hear(void *ctx, defib_err err, const defib_message *message)
{
	(void)message;
	if (err == DEFIB_LEASE_LOST)
		atomic_fetch_add((atomic_int *)ctx, 1);
}

static void a_heartbeat_sets_the_sign_of_life_until_the_row_is_lost(void **state)
{
	struct rig *g = *state;
	defib_watches *ws = watches_of(g, "true");
	defib_beat_options o = beat_of(ws);
	atomic_int lost = 0;
	defib_beat *beat = NULL;
	defib_message m;
	o.failed = hear;
	o.ctx = &lost;
	rig_sql(g, "INSERT INTO rows (id, status, worker, beat_at) VALUES (1, 'running', 'me', 1)");
	expect(defib_beat_start(&o, &beat, &m), DEFIB_OK, &m);
	EVENTUALLY(count(g, "beat_at > 1000000000") == 1);
	rig_sql(g, "UPDATE rows SET beat_at = 1"); /* and again */
	EVENTUALLY(count(g, "beat_at > 1000000000") == 1);
	assert_int_equal(defib_beat_step(beat, "two", "not an object"), DEFIB_USAGE);
	assert_int_equal(defib_beat_step(beat, "two", "{}"), DEFIB_OK);
	rig_sql(g, "UPDATE rows SET worker = 'another'");
	EVENTUALLY(atomic_load(&lost) == 1);
	defib_beat_stop(beat);
	defib_watches_free(ws);
}

static void the_first_heartbeat_takes_a_row_over(void **state)
{
	struct rig *g = *state;
	defib_watches *ws = watches_of(g, "true");
	defib_beat_options o = beat_of(ws);
	defib_beat *beat = NULL;
	defib_message m;
	o.every_ms = 3600000;
	rig_sql(g, "INSERT INTO rows (id, status, worker) VALUES (1, 'running', 'another')");
	expect(defib_beat_start(&o, &beat, &m), DEFIB_OK, &m);
	assert_int_equal(count(g, "beat_at > 1000000000"), 1);
	defib_beat_stop(beat);
	defib_watches_free(ws);
}

static int64_t leased(struct rig *g)
{
	AUTO_BUF sql = BUF_INIT;
	buf_addf(&sql, "SELECT count(*) FROM %slease WHERE owner IS NOT NULL",
	         dialect_of(g->engine)->own);
	return number(g->other, buf_text(&sql));
}

static defib_beat *beat_on(defib_watches *ws, const char *key)
{
	defib_beat_options o = beat_of(ws);
	defib_beat *beat = NULL;
	defib_message m;
	o.key = key;
	expect(defib_beat_start(&o, &beat, &m), DEFIB_OK, &m);
	return beat;
}

/* The second instance has the rows that have heartbeats, and the first one lives on. */
static void rows_of_an_instance_are_freed_when_it_ends(void **state)
{
	struct rig *g = *state;
	defib_watches *ws = watches_of(g, "true"), *others = watches_of(g, "true");
	defib_instance *lives = instance(others, 0), *ends = instance(ws, 0);
	rig_sql(g, "INSERT INTO rows (id, status) VALUES (1, 'running'), (2, 'running'), "
	           "(3, 'running'), (4, 'running')");
	defib_beat *in_hand = beat_on(ws, "1"), *again = beat_on(ws, "3"), *done = beat_on(ws, "4");
	assert_int_equal(leased(g), 3);
	defib_beat_stop(done);
	assert_int_equal(leased(g), 2);
	defib_beat_leave(in_hand);
	defib_beat_leave(again);
	assert_int_equal(leased(g), 2);
	/* A sign that the instance cannot have given: the row was claimed again. */
	rig_sql(g, "UPDATE rows SET beat_at = beat_at + 3600 WHERE id = 3");
	defib_instance_stop(ends);
	EVENTUALLY(count(g, "id = 1 AND status = 'queued'") == 1);
	assert_int_equal(count(g, "id IN (2, 3, 4) AND status = 'running'"), 3);
	defib_instance_stop(lives);
	defib_watches_free(ws);
	defib_watches_free(others);
}

static void an_instance_that_was_declared_dead_writes_no_heartbeat(void **state)
{
	struct rig *g = *state;
	defib_watches *ws = watches_of(g, "true");
	/* It does not find out by itself: its lease is renewed hours later. */
	defib_instance *i = instance_with_lease(ws, 86400000, 0);
	defib_beat_options o = beat_of(ws);
	atomic_int lost = 0;
	defib_beat *beat = NULL, *another = NULL;
	defib_message m;
	o.failed = hear;
	o.ctx = &lost;
	rig_sql(g, "INSERT INTO rows (id, status) VALUES (1, 'running'), (2, 'running')");
	expect(defib_beat_start(&o, &beat, &m), DEFIB_OK, &m);
	AUTO_BUF sql = BUF_INIT;
	buf_addf(&sql, "UPDATE %sworker SET state = 'dead'", dialect_of(g->engine)->own);
	rig_sql(g, buf_text(&sql));
	o.key = "2";
	expect(defib_beat_start(&o, &another, &m), DEFIB_LEASE_LOST, &m);
	EVENTUALLY(atomic_load(&lost) == 1);
	defib_beat_stop(beat);
	defib_instance_stop(i);
	defib_watches_free(ws);
}

static void a_row_that_does_not_run_gets_no_heartbeat(void **state)
{
	struct rig *g = *state;
	defib_watches *ws = watches_of(g, "true");
	defib_beat_options o = beat_of(ws);
	defib_beat *beat = NULL;
	defib_message m;
	expect(defib_beat_start(&o, &beat, &m), DEFIB_NOT_FOUND, &m);
	rig_sql(g, "INSERT INTO rows (id, status, beat_at) VALUES (1, 'queued', 1)");
	expect(defib_beat_start(&o, &beat, &m), DEFIB_LEASE_LOST, &m);
	o.metadata = "[]";
	expect(defib_beat_start(&o, &beat, &m), DEFIB_USAGE, &m);
	assert_int_equal(count(g, "beat_at = 1"), 1);
	defib_watches_free(ws);
}

/* ---- ending a job ---- */

static void a_job_is_ended_once(void **state)
{
	struct rig *g = *state;
	defib_watches *ws = watches_of(g, "true");
	defib_message m;
	rig_sql(g, "INSERT INTO rows (id, status) VALUES (1, 'running'), (2, 'done')");
	expect(defib_end(ws, "rows", "1", "asked", "ada", &m), DEFIB_OK, &m);
	expect(defib_end(ws, "rows", "1", NULL, NULL, &m), DEFIB_OK, &m);
	expect(defib_end(ws, "rows", "2", NULL, NULL, &m), DEFIB_OK, &m);
	expect(defib_end(ws, "rows", "3", NULL, NULL, &m), DEFIB_NOT_FOUND, &m);
	expect(defib_end(ws, "rows", NULL, NULL, NULL, &m), DEFIB_USAGE, &m);
	assert_int_equal(count(g, "id = 1 AND status = 'ending'"), 1);
	assert_int_equal(count(g, "id = 2 AND status = 'done'"), 1);
	defib_watches_free(ws);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(handlers_work_on_the_rows_of_a_watch),
		BOTH(a_handler_may_end_later),
		BOTH(work_that_is_off_ends_at_once),
		BOTH(a_pool_needs_a_watch_that_exists),
		BOTH(functions_run_and_undo_the_steps_of_a_watch),
		BOTH(steps_of_a_watch_are_those_of_its_workflow),
		BOTH(the_first_instance_cleans_up_and_the_second_leaves_its_rows),
		BOTH(five_sessions_that_were_not_there_open_the_breaker),
		BOTH(a_heartbeat_sets_the_sign_of_life_until_the_row_is_lost),
		BOTH(the_first_heartbeat_takes_a_row_over),
		BOTH(a_row_that_does_not_run_gets_no_heartbeat),
		BOTH(rows_of_an_instance_are_freed_when_it_ends),
		BOTH(an_instance_that_was_declared_dead_writes_no_heartbeat),
		BOTH(a_job_is_ended_once),
	};
	return cmocka_run_group_tests_name("lib/tables", tests, NULL, NULL);
}
