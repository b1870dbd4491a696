/* SPDX-License-Identifier: Apache-2.0
 * source_queue_steps.c: see source_queue_steps.h.
 *
 * A settlement of a step is read, decided by the pure rules of workflow.h, and
 * written: the step's record, the job, and in the ledger what a person must
 * hear of. All in the caller's transaction, which on SQLite is alone.
 */
#include "worker/source_queue_steps.h"

#include "ledger/events.h"
#include "ledger/seal.h"
#include "worker/workflow.h"

#include <assert.h>

#define NOW_MS SQLITE_NOW_MS

struct ending {
	struct store *s;
	struct arena *a;
	int64_t worker;
	struct settlement *given;
	int64_t attempts;
	bool undoing;
	enum step_after after;
};

/* Every statement of an ending may use these, by number. */
#define JOB "?1"
#define EPOCH "?2"
#define WORKER "?3"
#define AFTER "?4"
#define OUTCOME "?5"
#define STEP "?6"
#define POSITION "?7"
#define SAGA "?8"
#define OUTPUT "?9"
#define ERROR "?10"
#define DELAY "?11"
#define PASSED "?12"
#define UNDO "?13"
#define ATTEMPTS "?14"
#define PARAMS 14

/* A statement takes the parameters up to the highest that it names. */
static int nparams_of(const char *sql)
{
	long most = 0;
	for (const char *at = sql; (at = strchr(at, '?')) != NULL;) {
		long n = strtol(at + 1, (char **)&at, 10);
		most = n > most ? n : most;
	}
	assert(most <= PARAMS);
	return (int)most;
}

static defib_err run(const struct ending *e, const char *sql, struct store_rows *rows,
                     struct failure *f)
{
	const struct settlement *g = e->given;
	struct store_param params[PARAMS] = {
		P_TEXT(g->key),
		P_INT(g->epoch),
		P_INT(e->worker),
		P_TEXT(step_after_names[e->after]),
		P_TEXT(settle_names[g->as]),
		P_TEXT(g->step.name),
		P_INT(g->step.position),
		P_INT(g->step.saga),
		P_TEXT(g->result),
		P_TEXT(g->error),
		g->delay_ms >= 0 ? P_INT(g->delay_ms) : P_TEXT(NULL),
		P_TEXT(g->step.passed),
		P_INT(g->step.side == STEP_SIDE_UNDO),
		P_INT(e->attempts),
	};
	return store_exec(e->s, sql, params, nparams_of(sql), e->a, rows, f);
}

#define STEPS_OF_JOB "defib_step WHERE watch = 'queue' AND job = " JOB

/* ---- read and decide ---- */

static const char read_job[] =
	"SELECT state = 'cancelling', attempts < max_attempts, saga, undoing, attempts, EXISTS "
	"(SELECT 1 FROM " STEPS_OF_JOB " AND state = 'done') FROM defib_job WHERE id = " JOB
	" AND epoch = " EPOCH " AND owner = " WORKER;

static defib_err decide(struct ending *e, bool *ours, struct failure *f)
{
	struct store_rows rows;
	defib_err err = run(e, read_job, &rows, f);
	*ours = !err && rows.nrows == 1;
	if (!*ours)
		return err;
	struct step_facts facts = {
		.as = e->given->as,
		.more = e->given->step.more,
		.cancelling = row_bool(&rows, 0, 0),
		.attempts_left = row_bool(&rows, 0, 1),
		.saga = row_bool(&rows, 0, 2),
		.undoing = row_bool(&rows, 0, 3),
		.any_done = row_bool(&rows, 0, 5),
	};
	e->undoing = facts.undoing;
	e->attempts = row_int(&rows, 0, 4, 0);
	e->after = step_after(&facts);
	return DEFIB_OK;
}

/* ---- the step's record ---- */

static const char record_run[] =
	"INSERT INTO defib_step (watch, job, step, position, state, epoch, output, started_at, "
	"finished_at) SELECT 'queue', " JOB ", " STEP ", " POSITION ", 'done', " EPOCH ", " OUTPUT
	", claimed_at, " NOW_MS " FROM defib_job WHERE id = " JOB " AND " STEP " IS NOT NULL "
	"ON CONFLICT (watch, job, step) DO UPDATE SET position = excluded.position, state = 'done', "
	"epoch = excluded.epoch, output = excluded.output, error = NULL, started_at = "
	"excluded.started_at, finished_at = excluded.finished_at";
static const char record_undo_again[] =
	"UPDATE defib_step SET error = coalesce(" ERROR ", " OUTCOME "), epoch = " EPOCH
	" WHERE watch = 'queue' AND job = " JOB " AND step = " STEP;
static const char record_undo[] =
	"UPDATE defib_step AS s SET state = e.state, error = e.error, epoch = " EPOCH
	", finished_at = " NOW_MS " FROM (SELECT " STEP " AS step, CASE " OUTCOME " WHEN 'done' THEN "
	"'undone' ELSE 'undo_failed' END AS state, CASE WHEN " OUTCOME " <> 'done' THEN coalesce(" ERROR
	", " OUTCOME ") END AS error UNION ALL SELECT value ->> 'step', value ->> 'state', "
	"value ->> 'error' FROM json_each(coalesce(" PASSED ", '[]'))) AS e WHERE s.watch = 'queue' "
	"AND s.job = " JOB " AND s.step = e.step AND s.state = 'done'";
static const char record_result[] =
	"INSERT INTO defib_job_data (job, result) SELECT " JOB ", " OUTPUT " WHERE " OUTPUT
	" IS NOT NULL ON CONFLICT (job) DO UPDATE SET result = excluded.result";

static defib_err record(const struct ending *e, struct failure *f)
{
	bool moves_on = e->after == AFTER_NEXT || e->after == AFTER_ROLLED_BACK;
	defib_err err = DEFIB_OK;
	if (e->undoing && e->after == AFTER_RETRY)
		return run(e, record_undo_again, NULL, f);
	if (e->undoing)
		return moves_on ? run(e, record_undo, NULL, f) : DEFIB_OK;
	if (e->given->as == SETTLE_DONE)
		err = run(e, record_run, NULL, f);
	if (!err && e->after == AFTER_DONE)
		err = run(e, record_result, NULL, f);
	return err;
}

/* ---- the job ---- */

#define NOT_UNDONE                                                                                 \
	"(SELECT 'could not undo: ' || group_concat(step || coalesce(' (' || error || ')', ''), ', "   \
	"') "                                                                                          \
	"FROM (SELECT * FROM " STEPS_OF_JOB " AND state = 'undo_failed' ORDER BY position DESC))"

/* The same as defib.move_after_step() of sql/postgres_queue.sql. */
static const char move_job[] =
	"UPDATE defib_job AS t SET owner = NULL, state = CASE WHEN " AFTER
	" IN ('next', 'released', 'rollback') THEN 'queued' WHEN " AFTER
	" = 'again' THEN 'scheduled' ELSE " AFTER " END, attempts = CASE WHEN " AFTER
	" IN ('next', 'rollback') THEN 0 ELSE t.attempts - (" OUTCOME " IN ('released', 'stopped')) "
	"END, crashes = t.crashes + (" OUTCOME " = 'crashed'), saga = CASE WHEN " AFTER
	" = 'rolled_back' THEN 0 WHEN " OUTCOME " = 'done' AND NOT t.undoing THEN " SAGA
	" ELSE t.saga END, undoing = " AFTER " = 'rollback' OR (t.undoing AND " AFTER
	" <> 'rolled_back'), finished_at = CASE WHEN " AFTER
	" IN ('done', 'failed', 'timed_out', 'cancelled', 'rolled_back') THEN " NOW_MS
	" END, run_at = CASE WHEN " AFTER " <> 'again' THEN t.run_at ELSE " NOW_MS " + coalesce(" DELAY
	", " SQLITE_BACKOFF_MS ") END, cause = CASE WHEN t.undoing OR " OUTCOME
	" IN ('released', 'stopped') THEN t.cause WHEN " OUTCOME " = 'done' THEN NULL WHEN " OUTCOME
	" = 'timed_out' THEN 'time-out' WHEN " OUTCOME " = 'crashed' THEN 'crash' ELSE 'error' END, "
	"error = CASE WHEN " AFTER " = 'rolled_back' THEN coalesce(t.error || '; ' || " NOT_UNDONE
	", t.error, " NOT_UNDONE ") WHEN t.undoing OR " OUTCOME " IN ('released', 'stopped') THEN "
	"t.error ELSE " ERROR " END WHERE t.id = " JOB;

/* ---- the ledger ---- */

#define NOTE                                                                                       \
	"INSERT INTO defib_ledger (batch, watch, job, event, actor, reason, evidence, epoch) SELECT "  \
	"'workflow', 'queue', " JOB ", "
#define BY ", 'worker:' || " WORKER ", "

static const char note_begun[] =
	NOTE "'" ENTRY_ROLLBACK_STARTED "'" BY ERROR ", json_object('step', " STEP
		 ", 'outcome', " OUTCOME ", 'error', " ERROR ", 'attempts', " ATTEMPTS "), " EPOCH;
static const char note_undo_failed[] =
	NOTE "'" ENTRY_UNDO_FAILED "'" BY "error, json_object('step', step, 'error', error), " EPOCH
		 " FROM " STEPS_OF_JOB " AND state = 'undo_failed' AND epoch = " EPOCH;
static const char note_over[] = NOTE
	"'" ENTRY_ROLLED_BACK "'" BY NOT_UNDONE
	", json_object('undone', (SELECT json_group_array(step) FROM (SELECT step FROM " STEPS_OF_JOB
	" AND state = 'undone' ORDER BY position DESC)), 'not_undone', (SELECT "
	"json_group_array(json_object('step', step, 'error', error)) FROM (SELECT step, error "
	"FROM " STEPS_OF_JOB " AND state = 'undo_failed' ORDER BY position DESC))), " EPOCH;

static defib_err note(const struct ending *e, struct failure *f)
{
	bool undone = e->undoing && (e->after == AFTER_NEXT || e->after == AFTER_ROLLED_BACK);
	defib_err err = DEFIB_OK;
	if (e->after == AFTER_ROLLBACK)
		err = run(e, note_begun, NULL, f);
	else if (undone)
		err = run(e, note_undo_failed, NULL, f);
	if (!err && e->after == AFTER_ROLLED_BACK)
		err = run(e, note_over, NULL, f);
	return err || (e->after != AFTER_ROLLBACK && !undone && e->after != AFTER_ROLLED_BACK)
	           ? err
	           : seal_added(e->s, e->a, f);
}

/* ---- one after the other ---- */

/* As defib.repeated_steps(): its epoch stands in the record, or the job is as only it leaves it. */
static const char repeated[] =
	"SELECT CASE WHEN s.step IS NULL AND " STEP " IS NULL AND " OUTCOME " = 'done' THEN j.state = "
	"CASE WHEN " UNDO " THEN 'rolled_back' ELSE 'done' END WHEN s.step IS NULL THEN NOT " UNDO
	" AND " OUTCOME " <> 'done' AND j.state = 'queued' AND j.undoing AND j.cause IS NOT 'lost' "
	"ELSE (" OUTCOME " = 'done') = (s.state <> 'undo_failed' AND s.error IS NULL) END "
	"FROM (SELECT 1) LEFT JOIN defib_step s ON s.watch = 'queue' AND s.job = " JOB
	" AND s.step = " STEP " AND s.epoch = " EPOCH " LEFT JOIN defib_job j ON j.id = " JOB
	" AND j.epoch = " EPOCH " WHERE " OUTCOME " NOT IN ('released', 'stopped')";

static defib_err look_repeated(struct ending *e, struct failure *f)
{
	struct store_rows rows;
	defib_err err = run(e, repeated, &rows, f);
	if (!err && rows.nrows == 1)
		e->given->accepted = row_bool(&rows, 0, 0);
	return err;
}

static defib_err settle_one(struct ending *e, struct failure *f)
{
	bool ours;
	defib_err err = decide(e, &ours, f);
	if (err)
		return err;
	if (!ours)
		return look_repeated(e, f);
	assert(e->undoing == (e->given->step.side == STEP_SIDE_UNDO));
	err = record(e, f);
	if (!err)
		err = run(e, move_job, NULL, f);
	if (!err)
		err = note(e, f);
	e->given->accepted = !err;
	return err;
}

defib_err queue_steps_settle(struct store *s, int64_t worker, struct settlement *all, int n,
                             struct arena *a, struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; i < n && !err; i++) {
		struct ending e = {.s = s, .a = a, .worker = worker, .given = &all[i]};
		if (all[i].step.side != STEP_SIDE_NONE)
			err = settle_one(&e, f);
	}
	return err;
}
