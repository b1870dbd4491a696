/* SPDX-License-Identifier: Apache-2.0
 * carry_test.c: the second half of a retry is written only to a job that is as the first half left
 * it.
 */
#include "recover/carry.h"
#include "recover/faulty_test.h"

#include "recover/recover_test.h"

#define TWO_PHASES                                                                                 \
	"    remedies: [{do: retry}]\n    backoff: {base: 1h}\n    retry: {now: \"status = "           \
	"'waits'\", "                                                                                  \
	"then: \"status = 'queued'\"}\n"

/* Of each engine: the same statement. */
struct both {
	const char *sql[2];
};

static void rig_run(struct rig *g, const struct both *b)
{
	rig_sql(g, b->sql[g->engine]);
}

static const struct both due = {{
	[STORE_POSTGRES] = "UPDATE defib.retry SET due_at = clock_timestamp()",
	[STORE_SQLITE] = "UPDATE defib_retry SET due_at = 0",
}};
static const char *const waiting[] = {
	[STORE_POSTGRES] = "SELECT count(*) FROM defib.retry",
	[STORE_SQLITE] = "SELECT count(*) FROM defib_retry",
};
static const char *const changed[] = {
	[STORE_POSTGRES] = "SELECT count(*) FROM defib.ledger WHERE event = 'CHANGED_MEANWHILE'",
	[STORE_SQLITE] = "SELECT count(*) FROM defib_ledger WHERE event = 'CHANGED_MEANWHILE'",
};

static void prepare(struct rig *g)
{
	rig_fill(g, 2);
}

RIG(prepare)

static defib_err try_pass(struct rig *g, const struct watch *w, struct scan_result *r)
{
	static const struct scan_options o = {.fix = true, .actor = "test"};
	struct session session = rig_session(g);
	session.open = open_faulty;
	defib_err err = scan_watch(&session, w, &o, r);
	session_close(&session);
	return err;
}

static int64_t pass(struct rig *g, const struct watch *w)
{
	struct scan_result r;
	if (try_pass(g, w, &r))
		fail_msg("%s", r.failure.what);
	return r.retried;
}

static int64_t in_state(struct rig *g, const char *state)
{
	char sql[100];
	snprintf(sql, sizeof sql, "SELECT count(*) FROM jobs WHERE status = '%s'", state);
	return number(g->other, sql);
}

static void a_job_that_ended_while_its_retry_waited_is_left_alone(void **state)
{
	struct rig *g = rig_of(state);
	const struct watch *w = rig_watch(g, "beat_at", TWO_PHASES);
	assert_int_equal(pass(g, w), 0);
	assert_int_equal(in_state(g, "waits"), 2);
	rig_sql(g, "UPDATE jobs SET status = 'done' WHERE id = 1");
	rig_run(g, &due);
	assert_int_equal(pass(g, w), 1);
	assert_int_equal(in_state(g, "done"), 1);
	assert_int_equal(in_state(g, "queued"), 1);
	assert_int_equal(number(g->other, waiting[g->engine]), 0);
	assert_int_equal(number(g->other, changed[g->engine]), 1);
}

/* The old worker says so elsewhere: the job's own row does not show it. */
static void a_retry_is_cancelled_if_the_old_worker_went_on_after_all(void **state)
{
	struct rig *g = rig_of(state);
	const struct watch *w = rig_watch(
		g, "beat_at",
		TWO_PHASES
		"    late_when: EXISTS (SELECT 1 FROM beats b WHERE b.job = t.id AND b.at = 7)\n");
	assert_int_equal(pass(g, w), 0);
	rig_sql(g, "UPDATE beats SET at = 7 WHERE job = 1");
	rig_run(g, &due);
	assert_int_equal(pass(g, w), 1);
	assert_int_equal(number(g->other, "SELECT id FROM jobs WHERE status = 'waits'"), 1);
	assert_int_equal(number(g->other, waiting[g->engine]), 0);
	assert_int_equal(number(g->other, changed[g->engine]), 1);
	assert_int_equal(pass(g, w), 0);
}

/* Whichever statement of the pass fails: a job that is due is written, or the pass says why not. */
static void a_retry_that_cannot_be_written_is_an_error(void **state)
{
	struct rig *g = rig_of(state);
	const struct watch *w = rig_watch(g, "beat_at", TWO_PHASES "    crash_budget: off\n");
	for (int nth = 1, fired = 1; fired; nth++) {
		struct fault_plan p = {.call = FAULT_EXEC, .nth = nth, .code = DEFIB_BAD_SQL};
		struct scan_result r;
		do {
			rig_sql(g, "UPDATE jobs SET status = 'running' WHERE status = 'queued'");
			(void)pass(g, w);
		} while (in_state(g, "waits") < 2);
		rig_run(g, &due);
		plan = &p;
		defib_err err = try_pass(g, w, &r);
		plan = NULL;
		fired = p.fired;
		assert_true(err || in_state(g, "queued") == 2);
		assert_true(fired || !err);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_job_that_ended_while_its_retry_waited_is_left_alone),
		BOTH(a_retry_is_cancelled_if_the_old_worker_went_on_after_all),
		BOTH(a_retry_that_cannot_be_written_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
