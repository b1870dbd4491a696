/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan_builtin_test.c: the built-in queue through the pipeline: jobs of dead workers, recovered
 * once.
 */
#include "ledger/schema.h"
#include "recover/recover_test.h"
#include "watch/settings.h"

#define NOW_MS "(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))"

static const struct {
	const char *alive, *dead, *running, *queued, *entries;
} sql[] = {
	[STORE_POSTGRES] =
		{"INSERT INTO defib.worker (name, incarnation, expires_at) SELECT n, n, now() + interval "
         "'1 hour' FROM unnest(ARRAY['a', 'b']) n",
         "UPDATE defib.worker SET state = 'dead' WHERE name = 'a'",
         "INSERT INTO defib.job (queue, kind, state, owner, epoch, attempts) SELECT 'q', 'k', "
         "'running', w.id, 1, 1 FROM defib.worker w",
         "SELECT count(*) FROM defib.job WHERE state = 'queued' AND owner IS NULL AND crashes = 1",
         "SELECT count(*) FROM defib.ledger WHERE watch = 'queue' AND verdict = 'dead'"},
	[STORE_SQLITE] =
		{"INSERT INTO defib_worker (name, incarnation, started_at, renewed_at, expires_at) VALUES "
         "('a', 'a', " NOW_MS ", " NOW_MS ", " NOW_MS " + 3600000), ('b', 'b', " NOW_MS ", " NOW_MS
         ", " NOW_MS " + 3600000)",
         "UPDATE defib_worker SET state = 'dead' WHERE name = 'a'",
         "INSERT INTO defib_job (queue, kind, state, owner, epoch, attempts, created_at, run_at) "
         "SELECT 'q', 'k', 'running', w.id, 1, 1, 0, 0 FROM defib_worker w",
         "SELECT count(*) FROM defib_job WHERE state = 'queued' AND owner IS NULL AND crashes = 1",
         "SELECT count(*) FROM defib_ledger WHERE watch = 'queue' AND verdict = 'dead'"},
};

static void prepare(struct rig *g)
{
	rig_sql(g, sql[g->engine].alive);
	rig_sql(g, sql[g->engine].running);
}

RIG(prepare)

static int64_t recovered(struct rig *g)
{
	struct session session = rig_session(g);
	struct scan_options o = {.fix = true, .actor = "test"};
	struct scan_result r;
	if (scan_watch(&session, builtin_watch(g->engine, &g->arena), &o, &r))
		fail_msg("%s", r.failure.what);
	store_close(session.store);
	return r.outcomes[OUTCOME_RECOVERED];
}

static void jobs_of_living_workers_are_left_alone(void **state)
{
	struct rig *g = rig_of(state);
	assert_int_equal(recovered(g), 0);
	assert_int_equal(number(g->other, sql[g->engine].queued), 0);
}

static void a_dead_worker_s_job_is_recovered_exactly_once(void **state)
{
	struct rig *g = rig_of(state);
	rig_sql(g, sql[g->engine].dead);
	assert_int_equal(recovered(g), 1);
	assert_int_equal(recovered(g), 0);
	assert_int_equal(number(g->other, sql[g->engine].queued), 1);
	assert_int_equal(number(g->other, sql[g->engine].entries), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(jobs_of_living_workers_are_left_alone),
		BOTH(a_dead_worker_s_job_is_recovered_exactly_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
