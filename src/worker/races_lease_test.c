/* SPDX-License-Identifier: Apache-2.0
 * races_lease_test.c: the same races with leases beside the table (recover/races_test.h). Rivals do
 * what defib's own workers do: settle through the table's source, renew through the registry, claim
 * a job whose worker was declared dead. The row itself does not show a renewal or a new claim: only
 * leases and workers do.
 *
 * Three sorts of jobs, by id % 3:
 *   CLAIMABLE  its worker was declared dead; any rival may claim it again
 *   SILENT     its worker was silent for an hour, and comes back to renew or to settle
 *   DEAD       its worker was declared dead, and comes back with a result
 */
#include "ledger/schema.h"
#include "life/registry.h"
#include "recover/races_test.h"
#include "worker/source.h"
#include "worker/source_table.h"

enum sort { CLAIMABLE, SILENT, DEAD, SORTS };

/* What each rival has: the table's source, and a live worker for new claims. */
struct claimer {
	struct source *source;
	int64_t worker;
};

static int64_t workers[RACE_JOBS]; /* of the round's jobs */

/* Outside a transaction: the database decides which jobs are claimed. */
static defib_err claim_any(struct rival *by, struct failure *f)
{
	struct claimer *own = by->own;
	struct claimed *jobs;
	int n = 0;
	defib_err err =
		own->source->ops->claim(own->source, by->store, own->worker, 1, &by->arena, &jobs, &n, f);
	for (int i = 0; i < n && !err; i++) {
		int64_t at = strtoll(jobs[i].key, NULL, 10) - by->race->first;
		by->race->fates[at] = (struct fate){LOOK_CLAIMED, true, true};
	}
	return err;
}

static defib_err settle(struct rival *by, int at, struct failure *f)
{
	struct fate *fate = &by->race->fates[at];
	struct claimer *own = by->own;
	struct settlement s = {
		.key = arena_printf(&by->arena, "%d", by->race->first + at), .epoch = 1, .as = SETTLE_DONE};
	fate->meant = LOOK_DONE;
	defib_err err =
		own->source->ops->settle(own->source, by->store, workers[at], &s, 1, &by->arena, f);
	fate->tried = !err;
	fate->took = !err && s.accepted;
	return err;
}

/* Renew, and only then ask whether the job is still ours. */
static defib_err renew_in_tx(struct rival *by, int at, bool *took, struct failure *f)
{
	static const char *const ours[] = {
		[STORE_POSTGRES] = "SELECT 1 FROM defib.lease WHERE watch = 'jobs' AND job = $1::text AND "
						   "owner = $2",
		[STORE_SQLITE] = "SELECT 1 FROM defib_lease WHERE watch = 'jobs' AND job = ?1 AND owner "
						 "= ?2",
	};
	struct store_param params[] = {P_TEXT(arena_printf(&by->arena, "%d", by->race->first + at)),
	                               P_INT(workers[at])};
	struct store_rows rows = {0};
	int64_t owned;
	defib_err err = registry_renew(by->store, workers[at], NULL, 1, NULL, &owned, f);
	race_blink_in(by->store, &by->chance);
	if (!err)
		err = store_exec(by->store, ours[by->store->engine], params, 2, &by->arena, &rows, f);
	*took = !err && rows.nrows > 0;
	return err;
}

static defib_err renew(struct rival *by, int at, struct failure *f)
{
	struct fate *fate = &by->race->fates[at];
	bool thinks_better = race_draw(&by->chance, 8) == 0, took = false;
	fate->meant = LOOK_BEATEN;
	defib_err err = store_begin(by->store, TX_WRITE, f);
	if (err)
		return err;
	err = renew_in_tx(by, at, &took, f);
	race_blink_in(by->store, &by->chance);
	if (err || thinks_better) {
		store_rollback(by->store);
		return err;
	}
	err = store_commit(by->store, f);
	fate->tried = !err;
	fate->took = !err && took;
	return err;
}

static defib_err act(struct rival *by, int at, struct failure *f)
{
	switch ((enum sort)((by->race->first + at) % SORTS)) {
	case CLAIMABLE:
		return claim_any(by, f);
	case SILENT:
		return race_draw(&by->chance, 2) ? renew(by, at, f) : settle(by, at, f);
	default:
		return settle(by, at, f);
	}
}

/* ---- jobs, workers and leases ---- */

static const char *const fill_sql[][3] = {
	[STORE_POSTGRES] =
		{
			"INSERT INTO jobs SELECT i, 'running', 'w' || i, CASE i % 3 WHEN 0 THEN 'c' ELSE 'a' "
			"END, 1, 0, 1577836800, NULL FROM generate_series($1::int, $2::int) AS i",
			"INSERT INTO defib.worker (name, incarnation, state, expires_at) SELECT 'w' || id, "
			"'job ' || id, CASE id % 3 WHEN 1 THEN 'alive' ELSE 'dead' END, clock_timestamp() - "
			"interval '1 hour' FROM jobs WHERE id BETWEEN $1 AND $2",
			"INSERT INTO defib.lease (watch, job, owner) SELECT 'jobs', j.id::text, w.id FROM jobs "
			"j JOIN defib.worker w ON w.incarnation = 'job ' || j.id WHERE j.id BETWEEN $1 AND $2",
		},
	[STORE_SQLITE] =
		{
			"WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) INSERT "
			"INTO jobs SELECT i, 'running', 'w' || i, CASE i % 3 WHEN 0 THEN 'c' ELSE 'a' END, 1, "
			"0, 1577836800, NULL FROM n",
			"INSERT INTO defib_worker (name, incarnation, state, started_at, renewed_at, "
			"expires_at) SELECT 'w' || id, 'job ' || id, CASE id % 3 WHEN 1 THEN 'alive' ELSE "
			"'dead' END, 0, 0, 0 FROM jobs WHERE id BETWEEN ?1 AND ?2",
			"INSERT INTO defib_lease (watch, job, owner, claimed_at) SELECT 'jobs', CAST(j.id AS "
			"TEXT), w.id, 0 FROM jobs j JOIN defib_worker w ON w.incarnation = 'job ' || j.id "
			"WHERE j.id BETWEEN ?1 AND ?2",
		},
};

static void fill(struct race *r)
{
	struct store *s = r->rig->other;
	struct store_param range[] = {P_INT(r->first), P_INT(r->first + RACE_JOBS - 1)};
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	struct store_rows rows;
	for (int i = 0; i < 3; i++)
		if (store_exec(s, fill_sql[s->engine][i], range, 2, &a, NULL, &f))
			fail_msg("%s", f.what);
	const char *sql = s->engine == STORE_POSTGRES ? "SELECT job, owner FROM defib.lease"
	                                              : "SELECT job, owner FROM defib_lease";
	if (store_exec(s, sql, NULL, 0, &a, &rows, &f))
		fail_msg("%s", f.what);
	assert_int_equal(rows.nrows, RACE_JOBS);
	for (int i = 0; i < rows.nrows; i++)
		workers[row_int(&rows, i, 0, 0) - r->first] = row_int(&rows, i, 1, 0);
	for (int i = 0; i < RACE_JOBS; i++)
		r->fates[i].meant = LOOK_CLAIMED; /* unless a rival intends something else */
	arena_release(&a);
}

#define LOOKS(lease, worker, now)                                                                  \
	"SELECT j.id, j.status = 'done' AND l.owner IS NULL AND l.settled_epoch = 1, "                 \
	"j.status = 'running' AND l.epoch = 1 AND w.name = 'w' || j.id AND w.expires_at > " now ", "   \
	"j.status = 'running' AND l.epoch = 2 AND w.name = 'rival', "                                  \
	"j.status = 'queued' AND j.error = 'it was stuck' AND l.owner IS NULL AND l.epoch = 1, "       \
	"j.status = 'running' AND l.epoch = 1 AND w.name = 'w' || j.id AND w.expires_at <= " now       \
	" FROM jobs j JOIN " lease                                                                     \
	" l ON l.watch = 'jobs' AND CAST(j.id AS TEXT) = l.job LEFT JOIN " worker                      \
	" w ON w.id = l.owner"

static const struct race_kind beside = {
	.fill = fill,
	.act = act,
	.looks = {[STORE_POSTGRES] = LOOKS("defib.lease", "defib.worker", "clock_timestamp()"),
              [STORE_SQLITE] = LOOKS("defib_lease", "defib_worker", SQLITE_NOW_MS)},
	.clear = {[STORE_POSTGRES] = {"DELETE FROM jobs", "DELETE FROM defib.lease",
                                  "DELETE FROM defib.worker WHERE name <> 'rival'"},
              [STORE_SQLITE] = {"DELETE FROM jobs", "DELETE FROM defib_lease",
                                "DELETE FROM defib_worker WHERE name <> 'rival'"}},
};

/* ---- the test ---- */

#define LEASE_MS 3600000

static void hire(struct race *r, const struct watch *w, struct claimer *all)
{
	for (int i = 0; i < RACE_RIVALS; i++) {
		struct incarnation who = {.pid = 1000 + i, .host = "here"};
		struct rival *by = &r->rivals[i];
		if (source_table(w, NULL, by->store, &all[i].source, &by->failure) ||
		    registry_register(by->store, "rival", &who, LEASE_MS, NULL, &all[i].worker,
		                      &by->failure))
			fail_msg("%s", by->failure.what);
		by->own = &all[i];
	}
}

static void race(void **state, const char *alive_at)
{
	struct rig *g = *state;
	struct claimer claimers[RACE_RIVALS] = {{0}};
	struct race r;
	if (!g->other)
		need_env("DEFIB_TEST_PG");
	rig_fill(g, 0);
	const struct watch *w = rig_watch(g, alive_at,
	                                  "    batch: 10\n" RIG_REQUEUE "    work:\n"
	                                  "      ready: status = 'running' AND kind = 'c'\n"
	                                  "      done: status = 'done'\n"
	                                  "      failed: status = 'failed'\n");
	race_init(&r, g, &beside);
	hire(&r, w, claimers);
	race_run(&r, w);
	for (int i = 0; i < RACE_RIVALS; i++)
		claimers[i].source->ops->free(claimers[i].source);
	race_release(&r);
}

static void no_worker_is_overwritten_with_the_lease_in_the_side_table(void **state)
{
	race(state, "beat_at");
}

/* The leases are ours, and locked whatever the sign of life is. */
static void nor_beside_a_sign_of_life_that_cannot_be_locked(void **state)
{
	race(state, "(SELECT max(x.beat_at) FROM jobs x WHERE x.id = t.id)");
}

RIG(NULL)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(no_worker_is_overwritten_with_the_lease_in_the_side_table),
		BOTH(nor_beside_a_sign_of_life_that_cannot_be_locked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
