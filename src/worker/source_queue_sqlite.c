/* SPDX-License-Identifier: Apache-2.0 */
/* source_queue_sqlite.c: see source_queue_sqlite.h. */
#include "worker/source_queue_sqlite.h"

#include "ledger/events.h"
#include "ledger/seal.h"
#include "worker/source_queue_steps.h"
#include "worker/workflow.h"

#define NOW_MS SQLITE_NOW_MS

/* ---- claim ---- */

static defib_err must_live(struct store *s, int64_t worker, struct arena *a, struct failure *f)
{
	struct store_param param = P_INT(worker);
	struct store_rows rows;
	defib_err err = store_exec(s, "SELECT 1 FROM defib_worker WHERE id = ?1 AND state = 'alive'",
	                           &param, 1, a, &rows, f);
	if (!err && rows.nrows == 0)
		return fail(f, DEFIB_LEASE_LOST, "worker %lld was declared dead", (long long)worker);
	return err;
}

static const char claim_jobs[] =
	"UPDATE defib_job SET state = 'running', owner = ?1, epoch = epoch + 1, attempts = attempts + "
	"1, claimed_at = " NOW_MS " WHERE id IN (SELECT id FROM defib_job WHERE state = 'queued' AND "
	"queue = ?2 AND (?4 IS NULL OR kind IN (SELECT value FROM json_each(?4))) ORDER BY priority "
	"DESC, id LIMIT ?3) RETURNING id, epoch, attempts, max_attempts, kind, priority, timeout_ms, "
	"(SELECT d.payload FROM defib_job_data d WHERE d.job = id), CASE WHEN epoch > 1 THEN (SELECT "
	"p.step FROM defib_progress p WHERE p.job = id) END, undoing, CASE WHEN epoch > 1 THEN (SELECT "
	"json_group_array(json_object('step', s.step, 'state', s.state, 'output', s.output)) FROM "
	"(SELECT * FROM defib_step WHERE watch = 'queue' AND job = CAST(defib_job.id AS TEXT) ORDER BY "
	"position, finished_at) s HAVING count(*) > 0) END, crashes > 1 AND cause IS 'lost'";

defib_err queue_sqlite_claim(struct store *s, const char *queue, const char *kinds, int64_t worker,
                             int64_t n, struct arena *a, struct store_rows *rows, struct failure *f)
{
	/* An idle look must not take the write lock of the whole database. */
	struct store_param look[] = {P_TEXT(queue), P_TEXT(kinds)};
	struct store_param params[] = {P_INT(worker), P_TEXT(queue), P_INT(n), P_TEXT(kinds)};
	bool own = !s->in_tx;
	defib_err err =
		own ? store_exec(s,
	                     "SELECT 1 FROM defib_job WHERE state = 'queued' AND queue = ?1 AND "
	                     "(?2 IS NULL OR kind IN (SELECT value FROM json_each(?2))) LIMIT 1",
	                     look, 2, a, rows, f)
			: DEFIB_OK;
	if (err || (own && rows->nrows == 0))
		return err;
	err = own ? store_begin(s, TX_WRITE, f) : DEFIB_OK;
	if (err)
		return err;
	err = must_live(s, worker, a, f);
	if (!err)
		err = store_exec(s, claim_jobs, params, 4, a, rows, f);
	if (own && !err)
		err = store_commit(s, f);
	else if (own)
		store_rollback(s);
	return err;
}

/* ---- settle ---- */

#define IS_OURS " WHERE t.id = ?1 AND t.epoch = ?2 AND +t.owner = ?3"

/* The most common end needs no look at the job. */
static const char settle_done[] =
	"UPDATE defib_job AS t SET owner = NULL, state = 'done', finished_at = " NOW_MS
	", cause = NULL, error = ?4" IS_OURS;

static const char read_job[] =
	"SELECT t.state = 'cancelling', t.attempts, t.max_attempts FROM defib_job AS t" IS_OURS;

/* What settle_after() says. */
static const char settle_other[] =
	"UPDATE defib_job AS t SET owner = NULL, state = ?5, attempts = ?6, crashes = t.crashes + ?7, "
	"finished_at = CASE WHEN ?8 THEN " NOW_MS " END, run_at = CASE ?5 WHEN 'scheduled' THEN " NOW_MS
	" + coalesce(?10, " SQLITE_BACKOFF_MS ") ELSE t.run_at END, cause = CASE WHEN ?9 THEN t.cause "
	"ELSE ?11 END, error = CASE WHEN ?9 THEN t.error ELSE ?4 END" IS_OURS;

static const char keep_result[] = "INSERT INTO defib_job_data (job, result) VALUES (?1, ?2) "
								  "ON CONFLICT (job) DO UPDATE SET result = excluded.result";

/* A settlement that is only repeated, because its answer was lost, was accepted. */
static const char repeated[] =
	"SELECT (?3 = 'done' AND t.state = 'done' AND NOT ?4) OR "
	"(?3 NOT IN ('done', 'released', 'stopped') AND t.state IN ('scheduled', 'failed', "
	"'timed_out', 'cancelled') AND t.cause IS NOT 'lost') OR (?3 IN ('released', 'stopped') "
	"AND t.state IN ('queued', 'cancelled') AND t.cause IS NOT 'lost') FROM defib_job t "
	"WHERE t.id = ?1 AND t.epoch = ?2";

static const char note_late[] =
	"INSERT INTO defib_ledger (batch, watch, job, event, actor, evidence, epoch) "
	"SELECT 'late', 'queue', ?1, '" ENTRY_LATE_COMPLETION
	"', 'worker:' || ?3, json_object('outcome', "
	"?4, 'state', t.state, 'current_epoch', t.epoch), ?2 FROM (SELECT 1) LEFT JOIN defib_job t ON "
	"t.id = ?1";

static defib_err settle_by_rule(struct store *s, const struct settlement *e,
                                struct store_param params[11], struct arena *a,
                                struct store_rows *rows, struct failure *f)
{
	defib_err err = store_exec(s, read_job, params, 3, a, rows, f);
	if (err || rows->nrows == 0)
		return err;
	const struct settle_facts facts = {
		.as = e->as,
		.cancelling = row_bool(rows, 0, 0),
		.retried = true,
		.attempts = row_int(rows, 0, 1, 0),
		.max_attempts = row_int(rows, 0, 2, 0),
		.delay_ms = e->delay_ms,
	};
	const struct settle_result r = settle_after(&facts);
	params[4] = P_TEXT(r.state);
	params[5] = P_INT(r.attempts);
	params[6] = P_INT(r.crashed);
	params[7] = P_INT(r.over);
	params[8] = P_INT(r.kept);
	params[9] = r.wait_ms >= 0 ? P_INT(r.wait_ms) : P_TEXT(NULL);
	params[10] = P_TEXT(r.cause);
	return store_exec(s, settle_other, params, 11, a, rows, f);
}

static defib_err settle_one(struct store *s, int64_t worker, struct settlement *e, struct arena *a,
                            struct failure *f)
{
	struct store_param params[11] = {P_TEXT(e->key), P_INT(e->epoch), P_INT(worker),
	                                 P_TEXT(e->error)};
	struct store_param result[] = {P_TEXT(e->key), P_TEXT(e->result)};
	struct store_rows rows;
	defib_err err = e->as == SETTLE_DONE ? store_exec(s, settle_done, params, 4, a, &rows, f)
	                                     : settle_by_rule(s, e, params, a, &rows, f);
	e->accepted = !err && rows.affected > 0;
	if (e->accepted && e->result)
		err = store_exec(s, keep_result, result, 2, a, NULL, f);
	return err;
}

/* Of one that was not written: whether it was before; if not, it came too late. */
static defib_err look_again(struct store *s, int64_t worker, struct settlement *e, bool *late,
                            struct arena *a, struct failure *f)
{
	struct store_param was[] = {P_TEXT(e->key), P_INT(e->epoch), P_TEXT(settle_names[e->as]),
	                            P_INT(e->step.side != STEP_SIDE_NONE)};
	struct store_param note[] = {P_TEXT(e->key), P_INT(e->epoch), P_INT(worker),
	                             P_TEXT(settle_names[e->as])};
	struct store_rows rows;
	defib_err err = store_exec(s, repeated, was, 4, a, &rows, f);
	e->accepted = !err && rows.nrows > 0 && row_bool(&rows, 0, 0);
	if (err || e->accepted || e->as == SETTLE_RELEASED || e->as == SETTLE_STOPPED)
		return err;
	*late = true;
	return store_exec(s, note_late, note, 4, a, NULL, f);
}

defib_err queue_sqlite_settle(struct store *s, int64_t worker, struct settlement *all, int n,
                              struct arena *a, struct failure *f)
{
	defib_err err = DEFIB_OK;
	bool late = false;
	for (int i = 0; i < n && !err; i++)
		if (all[i].step.side == STEP_SIDE_NONE)
			err = settle_one(s, worker, &all[i], a, f);
	if (!err)
		err = queue_steps_settle(s, worker, all, n, a, f);
	for (int i = 0; i < n && !err; i++)
		if (!all[i].accepted)
			err = look_again(s, worker, &all[i], &late, a, f);
	return err || !late ? err : seal_added(s, a, f);
}
