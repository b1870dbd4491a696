/* SPDX-License-Identifier: Apache-2.0
 * undo_test.c: an undo whose database fails at any statement. It says that it failed, and what it
 * says was undone is what was undone.
 */
#include "recover/by_hand.h"
#include "recover/faulty_test.h"

#include "recover/recover_test.h"
#include "recover/scan.h"
#include "recover/undo.h"

#define JOBS 3

static void prepare(struct rig *g)
{
	plan = NULL;
	rig_fill(g, JOBS);
}

RIG(prepare)

static const struct watch *watch(struct rig *g)
{
	return rig_watch(g, "beat_at", RIG_REQUEUE "    crash_budget: off\n");
}

/* All jobs are recovered; the name of the batch is in *r. */
static void recover(struct rig *g, struct scan_result *r)
{
	static const struct scan_options o = {.fix = true, .actor = "test"};
	struct session session = rig_session(g);
	rig_sql(g, "UPDATE jobs SET status = 'running', error = NULL, owner = 'w' || id");
	if (scan_watch(&session, watch(g), &o, r))
		fail_msg("%s", r->failure.what);
	session_close(&session);
	assert_int_equal(rig_requeued(g), JOBS);
}

static defib_err take_back(struct rig *g, const char *batch, const char *job,
                           struct by_hand_result *r)
{
	struct undo_options o = {.batch = batch, .job = job, .actor = "test", .reason = "a mistake"};
	struct session session = rig_session(g);
	session.open = open_faulty;
	defib_err err = undo(&session, watch(g), &o, r);
	session_close(&session);
	return err;
}

static int64_t outcomes(const struct by_hand_result *r)
{
	int64_t n = 0;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		n += r->outcomes[i];
	return n;
}

static void a_statement_that_fails_is_an_error(void **state)
{
	struct rig *g = rig_of(state);
	for (int one = 0; one < 2; one++)
		for (int nth = 1, fired = 1; fired; nth++) {
			struct fault_plan p = {.call = FAULT_EXEC, .nth = nth, .code = DEFIB_BAD_SQL};
			struct scan_result scanned;
			struct by_hand_result r;
			int jobs = one ? 1 : JOBS;
			recover(g, &scanned);
			plan = &p;
			defib_err err = take_back(g, one ? NULL : scanned.batch, one ? "2" : NULL, &r);
			plan = NULL;
			fired = p.fired;
			assert_int_equal(err != DEFIB_OK, fired);
			assert_true(fired || r.outcomes[OUTCOME_RECOVERED] == jobs);
			assert_int_equal(r.outcomes[OUTCOME_RECOVERED], JOBS - rig_requeued(g));
			/* An undone job is on hold. */
			rig_sql(g, g->engine == STORE_POSTGRES ? "DELETE FROM defib.hold"
			                                       : "DELETE FROM defib_hold");
		}
}

static void what_never_changed_has_nothing_to_undo(void **state)
{
	struct rig *g = rig_of(state);
	struct scan_result scanned;
	struct by_hand_result r;
	recover(g, &scanned);
	assert_int_equal(take_back(g, NULL, "4711", &r), DEFIB_OK);
	assert_int_equal(outcomes(&r), 0);
	assert_int_equal(take_back(g, "no such batch", NULL, &r), DEFIB_OK);
	assert_int_equal(outcomes(&r), 0);
	assert_int_equal(rig_requeued(g), JOBS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_statement_that_fails_is_an_error),
		BOTH(what_never_changed_has_nothing_to_undo),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
