/* SPDX-License-Identifier: Apache-2.0
 * Workflows whose steps are functions of a C program: their order, the outputs they read, rollback,
 * and steps that are settled in the program's own transaction. Each function writes to the trace
 * what it was called for.
 */
#include "worker/worker_test.h"

#define STEPS_TABLE "PG(defib.step|defib_step)"

static char trace[512];

static struct bench *with_trace(void **state)
{
	struct bench *b = bench_of(state);
	scene_open(b);
	trace[0] = '\0';
	bench_sql(b, "CREATE TABLE effect (step text NOT NULL, epoch bigint NOT NULL)");
	return b;
}

static void say(const char *before, const char *text)
{
	pthread_mutex_lock(&scene.lock);
	size_t used = strlen(trace);
	snprintf(trace + used, sizeof trace - used, "%s%s%s", used ? " " : "", before, text);
	pthread_mutex_unlock(&scene.lock);
}

static void say_step(defib_job *job)
{
	say(defib_job_undoing(job) ? "-" : "+", defib_job_step(job));
}

static defib_outcome does(defib_job *job, void *ctx)
{
	(void)ctx;
	say_step(job);
	return DEFIB_DONE;
}

static defib_outcome breaks(defib_job *job, void *ctx)
{
	(void)ctx;
	say_step(job);
	defib_job_error(job, "no");
	return DEFIB_PERMANENT;
}

static const defib_step broken_order[] = {
	DEFIB_STEP("reserve", does, does),
	DEFIB_STEP("note", does, NULL),
	DEFIB_STEP("charge", does, does),
	DEFIB_STEP("ship", breaks, does),
};

static defib_pool pool_of(const defib_step *steps, int n)
{
	defib_pool p = quick_pool(NULL);
	p.kind = "order";
	p.steps = steps;
	p.nsteps = n;
	p.saga = 1;
	return p;
}

static void drain_steps(struct bench *b, const defib_step *steps, int n)
{
	defib_worker_options o = quick_options(b);
	defib_pool pool = pool_of(steps, n);
	o.drain = 1;
	struct beside w = beside_start(&o, &pool, 1);
	beside_end(&w);
}

static int64_t steps_in(struct bench *b, const char *state)
{
	char sql[128];
	snprintf(sql, sizeof sql, "SELECT count(*) FROM " STEPS_TABLE " WHERE state = '%s'", state);
	return bench_number(b, sql);
}

#define N(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- forward ---- */

static defib_outcome gives_one(defib_job *job, void *ctx)
{
	(void)ctx;
	say_step(job);
	return defib_job_result(job, "{\"n\": 1}") ? DEFIB_PERMANENT : DEFIB_DONE;
}

static defib_outcome reads_one(defib_job *job, void *ctx)
{
	const char *one = defib_job_output(job, "one"), *self = defib_job_output(job, "two");
	(void)ctx;
	say_step(job);
	if (!one || self || defib_job_output(job, "none") || !strstr(defib_job_payload(job), "\"n\""))
		return DEFIB_PERMANENT;
	return defib_job_result(job, one) ? DEFIB_PERMANENT : DEFIB_DONE;
}

static void steps_run_in_order_and_see_earlier_outputs(void **state)
{
	static const defib_step steps[] = {DEFIB_STEP("one", gives_one, NULL),
	                                   DEFIB_STEP("two", reads_one, NULL)};
	struct bench *b = with_trace(state);
	enqueue_kind(b, "q", "order");
	drain_steps(b, steps, N(steps));
	assert_string_equal(trace, "+one +two");
	assert_int_equal(in_state(b, "done"), 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " DATA_TABLE
	                                 " WHERE CAST(result AS text) = '{\"n\": 1}'"),
	                 1);
}

static defib_outcome breaks_at_first(defib_job *job, void *ctx)
{
	defib_job_retry_in(job, 0);
	return defib_job_attempt(job) == 1 ? (say("!", defib_job_step(job)), DEFIB_FAILED)
	                                   : does(job, ctx);
}

static void a_step_that_fails_is_tried_again_at_that_step(void **state)
{
	static const defib_step steps[] = {DEFIB_STEP("one", breaks_at_first, NULL),
	                                   DEFIB_STEP("two", breaks_at_first, NULL)};
	struct bench *b = with_trace(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = pool_of(steps, N(steps));
	enqueue_kind(b, "q", "order");
	struct beside w = beside_start(&o, &pool, 1);
	becomes(b, "SELECT count(*) FROM " JOBS_TABLE " WHERE state = 'done'", 1);
	beside_stop(&w);
	assert_string_equal(trace, "!one +one !two +two");
}

static defib_outcome waits_for_its_limit(defib_job *job, void *ctx)
{
	(void)ctx;
	while (!defib_job_should_stop(job))
		pause_ms(1);
	return DEFIB_STOPPED;
}

static void a_time_limit_is_the_steps_own(void **state)
{
	defib_step steps[] = {DEFIB_STEP("one", does, NULL),
	                      DEFIB_STEP("two", waits_for_its_limit, NULL)};
	struct bench *b = with_trace(state);
	defib_job_spec job = DEFIB_JOB_SPEC_INIT;
	job.queue = "q";
	job.kind = "order";
	job.timeout_ms = 3600000;
	job.max_attempts = 1;
	steps[1].timeout_ms = 30;
	enqueue_job(b, &job);
	defib_worker_options o = quick_options(b);
	defib_pool pool = pool_of(steps, N(steps));
	o.drain = 1;
	pool.saga = 0;
	struct beside w = beside_start(&o, &pool, 1);
	beside_end(&w);
	assert_int_equal(in_state(b, "timed_out"), 1);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE
	                                 " WHERE error = 'two: over its time limit'"),
	                 1);
}

static defib_outcome has_no_step(defib_job *job, void *ctx)
{
	(void)ctx;
	say(defib_job_undoing(job) ? "-" : "+", defib_job_step(job) ? "step" : "none");
	return defib_job_output(job, "one") ? DEFIB_PERMANENT : DEFIB_DONE;
}

static void a_job_that_is_no_workflow_has_no_step(void **state)
{
	struct bench *b = with_trace(state);
	enqueue_kind(b, "q", "mail");
	drain_with(b, has_no_step);
	assert_string_equal(trace, "+none");
	assert_int_equal(in_state(b, "done"), 1);
}

/* ---- earlier records ---- */

/* A job whose step was done in an earlier epoch. */
static void enqueue_with_done(struct bench *b, const char *step)
{
	char sql[512];
	enqueue_kind(b, "q", "order");
	bench_sql(b, "UPDATE " JOBS_TABLE " SET epoch = 1");
	snprintf(sql, sizeof sql,
	         "INSERT INTO " STEPS_TABLE " (watch, job, step, position, state, epoch, finished_at) "
	         "SELECT 'queue', CAST(id AS text), '%s', 0, 'done', 1, created_at FROM " JOBS_TABLE,
	         step);
	bench_sql(b, sql);
}

static void a_step_that_is_recorded_is_not_run_again(void **state)
{
	static const defib_step steps[] = {DEFIB_STEP("one", does, NULL),
	                                   DEFIB_STEP("two", does, NULL)};
	struct bench *b = with_trace(state);
	enqueue_with_done(b, "one");
	drain_steps(b, steps, N(steps));
	assert_string_equal(trace, "+two");
	assert_int_equal(in_state(b, "done"), 1);
}

static void a_job_with_nothing_left_to_run_is_done(void **state)
{
	static const defib_step steps[] = {DEFIB_STEP("one", does, NULL)};
	struct bench *b = with_trace(state);
	enqueue_with_done(b, "one");
	drain_steps(b, steps, N(steps));
	assert_string_equal(trace, "");
	assert_int_equal(in_state(b, "done"), 1);
}

static void a_plain_handler_leaves_a_workflow_under_way_to_others(void **state)
{
	struct bench *b = with_trace(state);
	enqueue_with_done(b, "one");
	drain_with(b, has_no_step);
	assert_string_equal(trace, "");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE
	                                 " WHERE state = 'scheduled' AND error LIKE '%workflow%'"),
	                 1);
}

/* ---- rollback ---- */

static void a_saga_is_undone_in_reverse(void **state)
{
	struct bench *b = with_trace(state);
	enqueue_kind(b, "q", "order");
	drain_steps(b, broken_order, N(broken_order));
	assert_string_equal(trace, "+reserve +note +charge +ship -charge -reserve");
	assert_int_equal(in_state(b, "rolled_back"), 1);
	assert_int_equal(steps_in(b, "undone"), 3);
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM " JOBS_TABLE " WHERE error = 'ship: no'"), 1);
}

static void without_saga_what_was_done_stays_done(void **state)
{
	struct bench *b = with_trace(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = pool_of(broken_order, N(broken_order));
	o.drain = 1;
	pool.saga = 0;
	enqueue_kind(b, "q", "order");
	struct beside w = beside_start(&o, &pool, 1);
	beside_end(&w);
	assert_int_equal(in_state(b, "failed"), 1);
	assert_int_equal(steps_in(b, "done"), 3);
}

static void an_undo_that_fails_is_recorded_and_the_rest_goes_on(void **state)
{
	static const defib_step steps[] = {DEFIB_STEP("one", does, does),
	                                   DEFIB_STEP("two", does, breaks),
	                                   DEFIB_STEP("three", breaks, NULL)};
	struct bench *b = with_trace(state);
	enqueue_kind(b, "q", "order");
	drain_steps(b, steps, N(steps));
	assert_string_equal(trace, "+one +two +three -two -one");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM " JOBS_TABLE
	                                 " WHERE error = 'three: no; could not undo: two (no)'"),
	                 1);
}

static defib_outcome undoes_what_it_gave(defib_job *job, void *ctx)
{
	const char *own = defib_job_output(job, defib_job_step(job));
	return own && strstr(own, "1") ? does(job, ctx) : DEFIB_PERMANENT;
}

static void an_undo_sees_what_its_step_gave(void **state)
{
	static const defib_step steps[] = {DEFIB_STEP("one", gives_one, undoes_what_it_gave),
	                                   DEFIB_STEP("two", breaks, NULL)};
	struct bench *b = with_trace(state);
	enqueue_kind(b, "q", "order");
	drain_steps(b, steps, N(steps));
	assert_string_equal(trace, "+one +two -one");
	assert_int_equal(steps_in(b, "undone"), 1);
}

/* ---- settling in the handler's own transaction ---- */

/* Begins, writes the effect of this step and settles in the same transaction. */
static defib_err write_and_settle(struct own *o, defib_job *job)
{
	char sql[128];
	snprintf(sql, sizeof sql, "INSERT INTO effect VALUES ('%s%s', %lld)",
	         defib_job_undoing(job) ? "-" : "+", defib_job_step(job),
	         (long long)defib_job_epoch(job));
	return own_begin(o) && own_sql(o, sql) ? own_settle(o, job) : DEFIB_DATABASE;
}

static defib_outcome commits(defib_job *job, void *ctx)
{
	struct own o = own_open(scene.url);
	(void)ctx;
	say_step(job);
	if (!defib_job_undoing(job) && defib_job_result(job, "1"))
		return DEFIB_PERMANENT;
	scene_answer(write_and_settle(&o, job));
	own_sql(&o, "COMMIT");
	own_close(&o);
	return DEFIB_SETTLED;
}

static void a_step_and_its_effect_commit_together_and_the_next_follows_at_once(void **state)
{
	static const defib_step steps[] = {DEFIB_STEP("one", commits, NULL),
	                                   DEFIB_STEP("two", commits, NULL),
	                                   DEFIB_STEP("three", commits, NULL)};
	struct bench *b = with_trace(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = pool_of(steps, N(steps));
	pool.poll_ms = 3600000; /* so that no poll finds it */
	enqueue_kind(b, "q", "order");
	struct beside w = beside_start(&o, &pool, 1);
	becomes(b, "SELECT count(*) FROM " JOBS_TABLE " WHERE state = 'done'", 1);
	beside_stop(&w);
	assert_string_equal(trace, "+one +two +three");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM effect"), 3);
	assert_int_equal(
		bench_number(b, "SELECT count(*) FROM " STEPS_TABLE " WHERE output IS NOT NULL"), 3);
	assert_int_equal(bench_late(b), 0);
}

static void an_undo_and_its_effect_commit_together(void **state)
{
	static const defib_step steps[] = {DEFIB_STEP("one", commits, commits),
	                                   DEFIB_STEP("two", commits, commits),
	                                   DEFIB_STEP("three", breaks, NULL)};
	struct bench *b = with_trace(state);
	enqueue_kind(b, "q", "order");
	drain_steps(b, steps, N(steps));
	assert_string_equal(trace, "+one +two +three -two -one");
	assert_int_equal(bench_number(b, "SELECT count(*) FROM effect WHERE step LIKE '-%'"), 2);
	assert_int_equal(in_state(b, "rolled_back"), 1);
	assert_int_equal(steps_in(b, "undone"), 2);
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

static void a_rollback_leaves_neither_effect_nor_record(void **state)
{
	static const defib_step steps[] = {DEFIB_STEP("one", rolls_back_at_first, NULL),
	                                   DEFIB_STEP("two", does, NULL)};
	struct bench *b = with_trace(state);
	defib_worker_options o = quick_options(b);
	defib_pool pool = pool_of(steps, N(steps));
	enqueue_kind(b, "q", "order");
	struct beside w = beside_start(&o, &pool, 1);
	becomes(b, "SELECT count(*) FROM " JOBS_TABLE " WHERE state = 'done'", 1);
	beside_stop(&w);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM effect"), 1);
	assert_int_equal(bench_number(b, "SELECT epoch FROM effect"), 2);
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

static void a_step_whose_commit_was_not_answered_is_not_done_twice(void **state)
{
	static const defib_step steps[] = {
		DEFIB_STEP("one", commits_and_tries_again, commits_and_tries_again),
		DEFIB_STEP("two", breaks, NULL)};
	struct bench *b = with_trace(state);
	enqueue_kind(b, "q", "order");
	drain_steps(b, steps, N(steps));
	for (int i = 0; i < 4; i++)
		assert_int_equal(scene.answers[i], i % 2 ? DEFIB_LEASE_LOST : DEFIB_OK);
	assert_int_equal(bench_number(b, "SELECT count(*) FROM effect"), 2);
	assert_int_equal(in_state(b, "rolled_back"), 1);
	assert_int_equal(bench_late(b), 0);
}

/* ---- options ---- */

static void steps_of_an_older_program_have_our_defaults(void **state)
{
	/* As if that program's steps ended before the time limit. */
	static const struct {
		size_t size;
		const char *name;
		defib_handler run, undo;
	} older[] = {{sizeof older[0], "one", does, NULL}, {sizeof older[0], "two", does, NULL}};
	struct bench *b = with_trace(state);
	enqueue_kind(b, "q", "order");
	drain_steps(b, (const defib_step *)older, 2);
	assert_string_equal(trace, "+one +two");
}

static void refused(const defib_pool *pools, int n, const char *what)
{
	defib_worker_options o = DEFIB_WORKER_OPTIONS_INIT;
	defib_worker *w;
	defib_message m;
	o.url = "sqlite:/nonexistent/x.db";
	assert_int_equal(defib_worker_new(&o, pools, n, &w, &m), DEFIB_USAGE);
	assert_null(w);
	assert_string_equal(m.what, what);
}

static void wrong_steps_are_refused(void **state)
{
	static const struct {
		defib_step steps[2];
		const char *what;
	} wrong[] = {
		{{DEFIB_STEP(NULL, does, NULL)}, "step 0 of order needs a name in UTF-8"},
		{{DEFIB_STEP("a", does, NULL), DEFIB_STEP("", does, NULL)},
	     "step 1 of order needs a name in UTF-8"},
		{{DEFIB_STEP("\xff", does, NULL)}, "step 0 of order needs a name in UTF-8"},
		{{DEFIB_STEP("a", NULL, does)}, "step a of order has no function to run"},
		{{DEFIB_STEP("a", does, NULL), DEFIB_STEP("a", does, NULL)},
	     "two steps of order are named a"},
		{{{sizeof(defib_step), "a", does, NULL, -1}},
	     "step a of order has a time limit out of range"},
		{{{0, "a", does, NULL, 0}}, "defib_step: the first member must be the struct's size"},
	};
	(void)state;
	for (int i = 0; i < N(wrong); i++) {
		defib_pool pool = pool_of(wrong[i].steps, 2);
		refused(&pool, 1, wrong[i].what);
	}
}

static void wrong_pools_of_steps_are_refused(void **state)
{
	static const defib_step steps[] = {DEFIB_STEP("a", does, NULL)};
	defib_pool pools[2] = {pool_of(steps, 1), quick_pool(does)};
	(void)state;
	refused(pools, 2, "pool 1 would take jobs of kind order, which belong to the steps of pool 0");
	pools[1].kind = "order";
	refused(pools, 2, "pool 1 would take jobs of kind order, which belong to the steps of pool 0");
	pools[0].handler = does;
	refused(pools, 1, "pool 0 has a handler and steps: give one of them");
	pools[0] = pool_of(steps, 1);
	pools[0].kind = NULL;
	refused(pools, 1, "pool 0 has steps and needs the kind of their jobs");
	pools[0] = pool_of(steps, 0);
	refused(pools, 1, "pool 0 needs its steps and their number");
	pools[0] = pool_of(NULL, 1);
	refused(pools, 1, "pool 0 needs its steps and their number");
	pools[0] = quick_pool(does);
	pools[0].saga = 1;
	refused(pools, 1, "pool 0 needs its steps and their number");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(steps_run_in_order_and_see_earlier_outputs),
		BOTH(a_step_that_fails_is_tried_again_at_that_step),
		BOTH(a_time_limit_is_the_steps_own),
		BOTH(a_job_that_is_no_workflow_has_no_step),
		BOTH(a_step_that_is_recorded_is_not_run_again),
		BOTH(a_job_with_nothing_left_to_run_is_done),
		BOTH(a_plain_handler_leaves_a_workflow_under_way_to_others),
		BOTH(a_saga_is_undone_in_reverse),
		BOTH(without_saga_what_was_done_stays_done),
		BOTH(an_undo_that_fails_is_recorded_and_the_rest_goes_on),
		BOTH(an_undo_sees_what_its_step_gave),
		BOTH(a_step_and_its_effect_commit_together_and_the_next_follows_at_once),
		BOTH(an_undo_and_its_effect_commit_together),
		BOTH(a_rollback_leaves_neither_effect_nor_record),
		BOTH(a_step_whose_commit_was_not_answered_is_not_done_twice),
		BOTH(steps_of_an_older_program_have_our_defaults),
		cmocka_unit_test(wrong_steps_are_refused),
		cmocka_unit_test(wrong_pools_of_steps_are_refused),
	};
	return cmocka_run_group_tests_name("worker/lib_steps", tests, NULL, NULL);
}
