/*
 * source_queue.c: the built-in queue as a source of jobs.
 *
 * On PostgreSQL the work is done by the functions of sql/postgres_queue.sql,
 * which workers in other languages use too. SQLite has no functions: the same
 * rules stand here as statements inside one immediate transaction.
 */
#include "worker/source.h"

#include "base/clock.h"
#include "base/text.h"
#include "ledger/seal.h"
#include "store/relation.h"
#include "worker/source_queue_steps.h"
#include "worker/workflow.h"

#include <assert.h>
#include <stdatomic.h>

#define NOW_MS SQLITE_NOW_MS
#define PROMOTE_MAX 1000

/* How long claims may skip the head of the index before they look at all of it again. */
#define FLOOR_MS 200

struct queue_source {
	struct source base;
	char *queue;
	char *kinds; /* a JSON array; NULL: all */
	/* Everything above this position was claimed a moment ago (PostgreSQL only). */
	int64_t floor_priority, floor_id, floor_until_ms;
	atomic_bool gave_back; /* the settler gave a job back, which may stand above it */
};

static struct queue_source *of(struct source *src)
{
	return (struct queue_source *)src;
}

/* ---- claim ---- */

static void reset_floor(struct queue_source *q)
{
	q->floor_priority = INT16_MAX;
	q->floor_id = 0;
	q->floor_until_ms = clock_boot_ms() + FLOOR_MS;
}

static int by_priority_then_id(const void *a, const void *b)
{
	const struct claimed *x = a, *y = b;
	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	/* Keys are decimal numbers: the shorter one is the smaller one. */
	size_t lx = strlen(x->key), ly = strlen(y->key);
	if (lx != ly)
		return lx < ly ? -1 : 1;
	return strcmp(x->key, y->key);
}

static void decode_claims(const struct queue_source *q, const struct store_rows *rows,
                          struct arena *a, struct claimed **out, int *n)
{
	*n = rows->nrows;
	*out = ARENA_ARRAY(a, struct claimed, rows->nrows);
	for (int i = 0; i < rows->nrows; i++)
		(*out)[i] = (struct claimed){
			.key = row_text(rows, i, 0),
			.epoch = row_int(rows, i, 1, 0),
			.attempt = row_int(rows, i, 2, 0),
			.max_attempts = row_int(rows, i, 3, 0),
			.kind = row_text(rows, i, 4),
			.priority = row_int(rows, i, 5, 0),
			.timeout_ms = row_int(rows, i, 6, 0),
			.payload = row_text(rows, i, 7),
			.step = row_text(rows, i, 8),
			.undoing = row_bool(rows, i, 9),
			.steps = row_text(rows, i, 10),
			.queue = q->queue,
		};
	qsort(*out, (size_t)*n, sizeof **out, by_priority_then_id);
}

/* The lowest position that was claimed: nothing above it is ready, for a moment. */
static void raise_floor(struct queue_source *q, const struct store_rows *rows)
{
	for (int i = 0; i < rows->nrows; i++) {
		int64_t priority = row_int(rows, i, 5, 0), id = row_int(rows, i, 0, 0);
		if (priority < q->floor_priority) {
			q->floor_priority = priority;
			q->floor_id = id;
		} else if (priority == q->floor_priority && id > q->floor_id) {
			q->floor_id = id;
		}
	}
}

static defib_err claim_postgres(struct queue_source *q, struct store *s, int64_t worker, int64_t n,
                                struct arena *a, struct store_rows *rows, struct failure *f)
{
	static const char of_all[] =
		"SELECT * FROM defib.claim($1, $2, $3::integer, NULL, $4::integer, $5)";
	static const char of_kinds[] =
		"SELECT * FROM defib.claim($1, $2, $3::integer, NULL, $4::integer, $5, "
		"ARRAY(SELECT jsonb_array_elements_text($6::jsonb)))";
	if (atomic_exchange(&q->gave_back, false) || clock_boot_ms() >= q->floor_until_ms)
		reset_floor(q);
	for (int look = 0; look < 2; look++) {
		bool whole = q->floor_id == 0 && q->floor_priority == INT16_MAX;
		struct store_param params[] = {P_INT(worker),      P_TEXT(q->queue),
		                               P_INT(n),           P_INT(q->floor_priority),
		                               P_INT(q->floor_id), P_TEXT(q->kinds)};
		defib_err err =
			store_exec(s, q->kinds ? of_kinds : of_all, params, q->kinds ? 6 : 5, a, rows, f);
		if (err)
			return err;
		if (rows->nrows > 0 || whole)
			break;
		reset_floor(q);
	}
	raise_floor(q, rows);
	return DEFIB_OK;
}

static defib_err must_live_sqlite(struct store *s, int64_t worker, struct arena *a,
                                  struct failure *f)
{
	struct store_param param = P_INT(worker);
	struct store_rows rows;
	defib_err err = store_exec(s, "SELECT 1 FROM defib_worker WHERE id = ?1 AND state = 'alive'",
	                           &param, 1, a, &rows, f);
	if (!err && rows.nrows == 0)
		return fail(f, DEFIB_LEASE_LOST, "worker %lld was declared dead", (long long)worker);
	return err;
}

static defib_err claim_sqlite(struct queue_source *q, struct store *s, int64_t worker, int64_t n,
                              struct arena *a, struct store_rows *rows, struct failure *f)
{
	/* An idle look must not take the write lock of the whole database. */
	struct store_param look[] = {P_TEXT(q->queue), P_TEXT(q->kinds)};
	struct store_param params[] = {P_INT(worker), P_TEXT(q->queue), P_INT(n), P_TEXT(q->kinds)};
	defib_err err = store_exec(s,
	                           "SELECT 1 FROM defib_job WHERE state = 'queued' AND queue = ?1 AND "
	                           "(?2 IS NULL OR kind IN (SELECT value FROM json_each(?2))) LIMIT 1",
	                           look, 2, a, rows, f);
	if (err || rows->nrows == 0)
		return err;
	err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = must_live_sqlite(s, worker, a, f);
	if (!err)
		err = store_exec(s,
		                 "UPDATE defib_job SET state = 'running', owner = ?1, epoch = epoch + 1, "
		                 "attempts = attempts + 1, claimed_at = " NOW_MS " WHERE id IN (SELECT id "
		                 "FROM defib_job WHERE state = 'queued' AND queue = ?2 AND (?4 IS NULL OR "
		                 "kind IN (SELECT value FROM json_each(?4))) ORDER BY priority DESC, id "
		                 "LIMIT ?3) RETURNING id, epoch, attempts, max_attempts, kind, priority, "
		                 "timeout_ms, (SELECT d.payload FROM defib_job_data d WHERE d.job = id), "
		                 "(SELECT p.step FROM defib_progress p WHERE p.job = id), undoing, "
		                 "CASE WHEN epoch > 1 THEN (SELECT json_group_array(json_object('step', "
		                 "s.step, 'state', s.state, 'output', s.output)) FROM (SELECT * FROM "
		                 "defib_step WHERE watch = 'queue' AND job = CAST(defib_job.id AS TEXT) "
		                 "ORDER BY position, finished_at) s HAVING count(*) > 0) END",
		                 params, 4, a, rows, f);
	if (!err)
		return store_commit(s, f);
	store_rollback(s);
	return err;
}

static defib_err queue_claim(struct source *src, struct store *s, int64_t worker, int64_t n,
                             struct arena *a, struct claimed **out, int *nout, struct failure *f)
{
	struct store_rows rows = {0};
	assert(n > 0);
	defib_err err = s->engine == STORE_POSTGRES ? claim_postgres(of(src), s, worker, n, a, &rows, f)
	                                            : claim_sqlite(of(src), s, worker, n, a, &rows, f);
	*nout = 0;
	if (!err)
		decode_claims(of(src), &rows, a, out, nout);
	return err;
}

/* ---- settle ---- */

static void add_step(struct relation *r, const struct step_end *step)
{
	struct buf text = BUF_INIT;
	if (step->side != STEP_SIDE_NONE)
		step_end_json(step, &text);
	relation_text(r, text.len ? buf_text(&text) : NULL);
	buf_release(&text);
}

static void settle_relation(struct relation *r, enum store_engine engine,
                            const struct settlement *all, int n)
{
	relation_init(r, engine);
	relation_column(r, "id", "bigint");
	relation_column(r, "epoch", "bigint");
	relation_column(r, "outcome", "text");
	relation_column(r, "result", "jsonb");
	relation_column(r, "error", "text");
	relation_column(r, "delay_ms", "bigint");
	relation_column(r, "step", "jsonb");
	for (int i = 0; i < n; i++) {
		relation_text(r, all[i].key);
		relation_int(r, all[i].epoch);
		relation_text(r, settle_names[all[i].as]);
		relation_text(r, all[i].result);
		relation_text(r, all[i].error);
		if (all[i].delay_ms >= 0)
			relation_int(r, all[i].delay_ms);
		else
			relation_text(r, NULL);
		add_step(r, &all[i].step);
		relation_end_row(r);
	}
}

static void note_accepted(const struct store_rows *rows, struct settlement *all, int n)
{
	/* The answer has a row a settlement, in the same order. */
	for (int i = 0; i < n && i < rows->nrows; i++)
		all[i].accepted = row_bool(rows, i, 1);
}

static defib_err settle_in_postgres(struct store *s, int64_t worker, struct settlement *all, int n,
                                    struct arena *a, struct failure *f)
{
	struct store_param params[RELATION_COLUMNS_MAX + 1] = {P_INT(worker)};
	struct store_rows rows;
	struct relation r;
	settle_relation(&r, s->engine, all, n);
	relation_params(&r, params + 1);
	defib_err err =
		store_exec(s,
	               "SELECT * FROM defib.settle($1, $2::bigint[], $3::bigint[], $4::text[], "
	               "$5::jsonb[], $6::text[], $7::bigint[], $8::jsonb[])",
	               params, 1 + relation_nparams(&r), a, &rows, f);
	relation_release(&r);
	if (!err)
		note_accepted(&rows, all, n);
	return err;
}

/* The same rules as defib.settle() of sql/postgres_queue.sql. */
static const char settle_update[] =
	"UPDATE defib_job AS t SET owner = NULL, "
	"state = CASE WHEN g.outcome = 'done' THEN 'done' "
	"WHEN t.state = 'cancelling' THEN 'cancelled' "
	"WHEN g.outcome IN ('released', 'stopped') THEN 'queued' "
	"WHEN g.outcome = 'retry' THEN 'scheduled' WHEN g.outcome = 'permanent' THEN 'failed' "
	"WHEN t.attempts < t.max_attempts THEN 'scheduled' "
	"WHEN g.outcome = 'timed_out' THEN 'timed_out' ELSE 'failed' END, "
	"attempts = t.attempts - (g.outcome IN ('released', 'stopped')), "
	"crashes = t.crashes + (g.outcome = 'crashed'), "
	"finished_at = CASE WHEN g.outcome IN ('done', 'permanent') OR t.state = 'cancelling' OR "
	"(g.outcome IN ('failed', 'timed_out', 'crashed') AND t.attempts >= t.max_attempts) "
	"THEN " NOW_MS " END, "
	"run_at = CASE WHEN g.outcome IN ('done', 'released', 'stopped') THEN t.run_at ELSE " NOW_MS
	" + coalesce(g.delay_ms, " SQLITE_BACKOFF_MS ") END, "
	"cause = CASE g.outcome WHEN 'done' THEN NULL WHEN 'released' THEN t.cause "
	"WHEN 'stopped' THEN t.cause WHEN 'timed_out' THEN 'time-out' WHEN 'crashed' THEN 'crash' "
	"ELSE 'error' END, "
	"error = CASE WHEN g.outcome IN ('released', 'stopped') THEN t.error ELSE g.error END FROM (";
/* The + keeps SQLite from walking all jobs of the owner, with the batch read anew for each. */
static const char settle_where[] =
	") AS g WHERE g.step IS NULL AND t.id = g.id AND t.epoch = g.epoch AND +t.owner = ?2 "
	"RETURNING id, epoch, 1";

/* A settlement that is only repeated, because its answer was lost, was accepted. */
static const char settle_repeated[] =
	"SELECT g.id, g.epoch, t.id IS NOT NULL AND ((g.outcome = 'done' AND t.state = 'done' AND "
	"g.step IS NULL) OR "
	"(g.outcome NOT IN ('done', 'released', 'stopped') AND t.state IN ('scheduled', 'failed', "
	"'timed_out', 'cancelled') AND t.cause IS NOT 'lost') OR (g.outcome IN ('released', 'stopped') "
	"AND t.state IN ('queued', 'cancelled') AND t.cause IS NOT 'lost')) FROM (";

static const char late_insert[] =
	"INSERT INTO defib_ledger (batch, watch, job, event, actor, evidence, epoch) "
	"SELECT 'late', 'queue', g.id, 'LATE_COMPLETION', 'worker:' || ?2, json_object('outcome', "
	"g.outcome, 'state', t.state, 'current_epoch', t.epoch), g.epoch FROM (";

static defib_err over_settlements(struct store *s, const struct relation *r, const char *head,
                                  const char *tail, const struct store_param *params, int nparams,
                                  struct arena *a, struct store_rows *rows, struct failure *f)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, head);
	relation_select(r, 1, &sql);
	buf_add(&sql, tail);
	defib_err err = store_exec(s, buf_text(&sql), params, nparams, a, rows, f);
	buf_release(&sql);
	return err;
}

static defib_err note_late(struct store *s, int64_t worker, const struct settlement *all, int n,
                           struct arena *a, struct failure *f)
{
	struct store_param params[2];
	struct relation r;
	defib_err err = DEFIB_OK;
	for (int i = 0; i < n && !err; i++) {
		if (all[i].accepted || all[i].as == SETTLE_RELEASED || all[i].as == SETTLE_STOPPED)
			continue;
		settle_relation(&r, s->engine, &all[i], 1);
		relation_params(&r, params);
		params[1] = P_INT(worker);
		err = over_settlements(s, &r, late_insert, ") AS g LEFT JOIN defib_job t ON t.id = g.id",
		                       params, 2, a, NULL, f);
		relation_release(&r);
	}
	return err ? err : seal_added(s, a, f);
}

static defib_err store_results(struct store *s, const struct settlement *all, int n,
                               struct arena *a, struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; i < n && !err; i++) {
		struct store_param params[] = {P_TEXT(all[i].key), P_TEXT(all[i].result)};
		if (all[i].accepted && all[i].result && all[i].step.side == STEP_SIDE_NONE)
			err = store_exec(s,
			                 "INSERT INTO defib_job_data (job, result) VALUES (?1, ?2) "
			                 "ON CONFLICT (job) DO UPDATE SET result = excluded.result",
			                 params, 2, a, NULL, f);
	}
	return err;
}

/* By key and epoch: a batch may hold two epochs of one job. */
static void mark_accepted(const struct store_rows *rows, struct settlement *all, int n)
{
	for (int r = 0; r < rows->nrows; r++)
		for (int i = 0; i < n; i++)
			if (text_eq(all[i].key, row_text(rows, r, 0)) &&
			    all[i].epoch == row_int(rows, r, 1, 0) && row_bool(rows, r, 2))
				all[i].accepted = true;
}

static bool all_accepted(const struct settlement *all, int n)
{
	int accepted = 0;
	for (int i = 0; i < n; i++)
		accepted += all[i].accepted;
	return accepted == n;
}

static defib_err settle_in_sqlite(struct store *s, int64_t worker, struct settlement *all, int n,
                                  struct arena *a, struct failure *f)
{
	struct store_param params[2];
	struct store_rows rows;
	struct relation r;
	settle_relation(&r, s->engine, all, n);
	relation_params(&r, params);
	params[1] = P_INT(worker);
	defib_err err = over_settlements(s, &r, settle_update, settle_where, params, 2, a, &rows, f);
	if (!err)
		mark_accepted(&rows, all, n);
	if (!err)
		err = queue_steps_settle(s, worker, all, n, a, f);
	if (!err && !all_accepted(all, n)) {
		err = over_settlements(s, &r, settle_repeated,
		                       ") AS g LEFT JOIN defib_job t ON t.id = g.id AND t.epoch = g.epoch",
		                       params, 1, a, &rows, f);
		if (!err)
			mark_accepted(&rows, all, n);
	}
	relation_release(&r);
	if (!err)
		err = store_results(s, all, n, a, f);
	if (!err)
		err = note_late(s, worker, all, n, a, f);
	return err;
}

/* In a transaction of our own, or in the caller's if one is open. */
static defib_err queue_settle(struct source *src, struct store *s, int64_t worker,
                              struct settlement *all, int n, struct arena *a, struct failure *f)
{
	static defib_err (*const settle_in[])(struct store *, int64_t, struct settlement *, int,
	                                      struct arena *, struct failure *) = {
		[STORE_POSTGRES] = settle_in_postgres,
		[STORE_SQLITE] = settle_in_sqlite,
	};
	bool own = !s->in_tx, stepped = false;
	for (int i = 0; i < n; i++) {
		all[i].accepted = false;
		stepped = stepped || all[i].step.side != STEP_SIDE_NONE;
	}
	defib_err err = own ? store_begin(s, TX_WRITE, f) : DEFIB_OK;
	if (err)
		return err;
	err = settle_in[s->engine](s, worker, all, n, a, f);
	if (own && !err)
		err = store_commit(s, f);
	else if (own)
		store_rollback(s);
	/* Its next step is ready now, and may stand where claims do not look for a moment. */
	if (stepped)
		atomic_store(&of(src)->gave_back, true);
	return err;
}

defib_err source_queue_hold(struct store *s, int64_t worker, const char *key, int64_t epoch,
                            struct failure *f)
{
	static const char *const sql[] = {
		[STORE_POSTGRES] = "SELECT 1 FROM defib.job WHERE id = $1 AND epoch = $2 AND owner = $3 "
						   "FOR NO KEY UPDATE",
		[STORE_SQLITE] = "SELECT 1 FROM defib_job WHERE id = ?1 AND epoch = ?2 AND owner = ?3",
	};
	struct store_param params[] = {P_TEXT(key), P_INT(epoch), P_INT(worker)};
	struct arena a = ARENA_INIT;
	struct store_rows rows = {0};
	defib_err err = store_exec(s, sql[s->engine], params, 3, &a, &rows, f);
	arena_release(&a);
	if (!err && rows.nrows == 0)
		return fail(f, DEFIB_LEASE_LOST, "job %s is no longer ours, or was settled before", key);
	return err;
}

/* ---- the rest ---- */

static defib_err queue_owned(struct source *src, struct store *s, int64_t worker, struct arena *a,
                             struct settlement **out, int *n, struct failure *f)
{
	(void)src;
	return source_keys(
		s,
		s->engine == STORE_POSTGRES
			? "SELECT id, epoch FROM defib.job WHERE owner = $1 AND (state = 'running' OR "
			  "state = 'cancelling')"
			: "SELECT id, epoch FROM defib_job WHERE owner = ?1",
		worker, a, out, n, f);
}

static defib_err queue_cancelling(struct source *src, struct store *s, int64_t worker,
                                  struct arena *a, struct settlement **out, int *n,
                                  struct failure *f)
{
	(void)src;
	return source_keys(
		s,
		s->engine == STORE_POSTGRES
			? "SELECT id, epoch FROM defib.job WHERE owner = $1 AND (state = 'running' OR "
			  "state = 'cancelling') AND state = 'cancelling'"
			: "SELECT id, epoch FROM defib_job WHERE owner = ?1 AND state = 'cancelling'",
		worker, a, out, n, f);
}

static defib_err queue_promote(struct source *src, struct store *s, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct store_param param = P_INT(PROMOTE_MAX);
	struct store_rows rows;
	defib_err err;
	(void)src;
	if (s->engine == STORE_POSTGRES) {
		err = store_exec(s, "SELECT defib.promote($1::integer)", &param, 1, &a, &rows, f);
	} else {
		err = store_exec(
			s, "SELECT 1 FROM defib_job WHERE state = 'scheduled' AND run_at <= " NOW_MS " LIMIT 1",
			NULL, 0, &a, &rows, f);
		if (!err && rows.nrows > 0)
			err = store_exec(s,
			                 "UPDATE defib_job SET state = 'queued' WHERE id IN (SELECT id FROM "
			                 "defib_job WHERE state = 'scheduled' AND run_at <= " NOW_MS
			                 " ORDER BY run_at LIMIT ?1)",
			                 &param, 1, &a, NULL, f);
	}
	arena_release(&a);
	return err;
}

static defib_err queue_progress(struct source *src, struct store *s, int64_t worker,
                                const char *key, int64_t epoch, const char *step, const char *text,
                                struct failure *f)
{
	static const char *const sql[] = {
		[STORE_POSTGRES] =
			"SELECT accepted FROM defib.beat($1, ARRAY[$2::bigint], ARRAY[$3::bigint], "
			"ARRAY[$4::text], ARRAY[$5::text])",
		[STORE_SQLITE] =
			"INSERT INTO defib_progress AS p (job, epoch, at, step, progress) "
			"SELECT id, epoch, " NOW_MS ", ?4, ?5 FROM defib_job WHERE id = ?2 AND "
			"epoch = ?3 AND owner = ?1 ON CONFLICT (job) DO UPDATE SET epoch = "
			"excluded.epoch, at = excluded.at, step = coalesce(excluded.step, p.step), "
			"progress = excluded.progress RETURNING 1",
	};
	struct arena a = ARENA_INIT;
	struct store_param params[] = {P_INT(worker), P_TEXT(key), P_INT(epoch), P_TEXT(step),
	                               P_TEXT(text)};
	struct store_rows rows;
	(void)src;
	defib_err err = store_exec(s, sql[s->engine], params, 5, &a, &rows, f);
	bool accepted = !err && rows.nrows > 0 && row_bool(&rows, 0, 0);
	arena_release(&a);
	if (!err && !accepted)
		return fail(f, DEFIB_LEASE_LOST, "job %s is no longer ours", key);
	return err;
}

static void queue_free(struct source *src)
{
	free(of(src)->queue);
	free(of(src)->kinds);
	free(src);
}

static char *kinds_json(const char *const *kinds, int n)
{
	struct buf out = BUF_INIT;
	for (int i = 0; i < n; i++) {
		buf_add(&out, i ? "," : "[");
		buf_add_json(&out, kinds[i]);
	}
	buf_add(&out, "]");
	return buf_detach(&out);
}

struct source *source_queue_kinds(const char *queue, const char *const *kinds, int n)
{
	static const struct source_ops ops = {
		.claim = queue_claim,
		.settle = queue_settle,
		.owned = queue_owned,
		.cancelling = queue_cancelling,
		.promote = queue_promote,
		.progress = queue_progress,
		.free = queue_free,
	};
	struct queue_source *q = mem_alloc(sizeof *q);
	q->base.ops = &ops;
	q->queue = mem_strdup(queue);
	q->base.name = q->queue;
	q->base.keys = ""; /* one table has the jobs of all queues, and no watch this name */
	q->kinds = n > 0 ? kinds_json(kinds, n) : NULL;
	return &q->base;
}

struct source *source_queue(const char *queue, const char *kind)
{
	return source_queue_kinds(queue, &kind, kind ? 1 : 0);
}
