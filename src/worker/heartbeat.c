/* SPDX-License-Identifier: Apache-2.0 */

#include "worker/heartbeat.h"

#include "embedded.h"
#include "recover/look.h"
#include "store/dialect.h"
#include "watch/compile_write.h"
#include "watch/lease_sql.h"
#include "worker/source_table.h"
#include "worker/source_table_sql.h"

/* ---- statements ---- */

static bool heartbeat_is_column(const struct binding *b, const char *name)
{
	for (int i = 0; i < b->ncolumns; i++)
		if (strcasecmp(b->columns[i].name, name) == 0)
			return true;
	return false;
}

/* `alive_at: updated_at`, and not an expression. */
static defib_err compile_alive(const struct binding *b, struct arena *a, struct heartbeat_sql *q,
                               struct failure *f)
{
	const char *sign = b->watch->alive_at.text;
	if (!sign || !heartbeat_is_column(b, sign)) {
		fail(f, DEFIB_CONFIG, "watch %s has no statement for a heartbeat", b->watch->name);
		fail_next(f, "give work: {beat: …}, or a column as alive_at:");
		return DEFIB_CONFIG;
	}
	struct sql_text set = {.text = arena_printf(a, "%s = :now", sign), .at = b->watch->at};
	q->nbeat = 1;
	return compile_set(b, &set, a, q->beat, f);
}

defib_err heartbeat_prepare(struct heartbeat_sql *q, const struct watch *w, struct session *session,
                            struct failure *f)
{
	struct arena *a = &q->bound.arena;
	const struct binding *b = &q->bound.binding;
	bool ready = q->bound.ready;
	defib_err err = bound_open(&q->bound, session, w, LEDGER_NONE, f);
	if (err || ready)
		return err;
	const struct work *work = &w->work;
	q->beat = ARENA_ARRAY(a, struct write_sql, work->beat.n + 1);
	q->after = ARENA_ARRAY(a, struct write_sql, work->after.n);
	for (q->nbeat = 0; q->nbeat < work->beat.n; q->nbeat++)
		compile_work(b, &work->beat.items[q->nbeat], a, &q->beat[q->nbeat]);
	for (q->nafter = 0; q->nafter < work->after.n; q->nafter++)
		compile_work(b, &work->after.items[q->nafter], a, &q->after[q->nafter]);
	return q->nbeat ? DEFIB_OK : compile_alive(b, a, q, f);
}

void heartbeat_release(struct heartbeat_sql *q)
{
	bound_release(&q->bound);
}

/* ---- the lease of an instance ---- */

static defib_err heartbeat_keep(const struct watch *w, struct store *s, const struct heartbeat *h,
                                struct arena *a, struct failure *f)
{
	struct store_rows rows;
	struct store_param params[] = {P_TEXT(w->name), P_TEXT(h->job), P_INT(h->instance),
	                               P_INT(*h->epoch), P_INT(h->first)};
	defib_err err = dialect_exec(s, sql_leases_keep, params, 5, a, &rows, f);
	if (!err && rows.nrows == 0)
		return fail(f, DEFIB_LEASE_LOST,
		            "job %s belongs to another worker, or this instance was declared dead", h->job);
	if (!err)
		*h->epoch = row_int(&rows, 0, 0, 0);
	return err;
}

static defib_err heartbeat_release_job(const struct watch *w, struct store *s,
                                       const struct heartbeat *h, struct failure *f)
{
	struct store_param params[] = {P_TEXT(w->name), P_TEXT(h->job), P_INT(h->instance),
	                               P_INT(*h->epoch)};
	return dialect_exec(s,
	                    "UPDATE defib.lease SET owner = NULL WHERE watch = $1 AND job = $2 AND "
	                    "owner = $3::bigint AND epoch = $4::bigint",
	                    params, 4, NULL, NULL, f);
}

/* ---- one heartbeat ---- */

/* False: another transaction has locked it, or there is no such row. */
static defib_err lock_row(const struct table_sql *q, const char *lock, struct store *s,
                          struct work_row *row, struct arena *a, bool *locked, struct failure *f)
{
	struct store_rows rows;
	struct relation r;
	*locked = !lock; /* without row locks the whole database is locked */
	if (*locked)
		return DEFIB_OK;
	work_keys(q, &row, 1, &r);
	defib_err err = work_over(s, lock, 0, &r, a, &rows, f);
	*locked = !err && rows.nrows > 0;
	return err;
}

/* The row as it is in this transaction. */
static defib_err heartbeat_read_row(const struct table_sql *table, const struct watch_sql *q,
                                    struct store *s, struct work_row *row, struct arena *a,
                                    struct facts *out, struct failure *f)
{
	const struct watch *w = q->binding->watch;
	struct store_rows rows;
	struct relation r;
	work_keys(table, &row, 1, &r);
	defib_err err = work_over(s, q->reread, 0, &r, a, &rows, f);
	if (!err && rows.nrows == 0)
		err = fail(f, DEFIB_NOT_FOUND, "watch %s has no job %s", w->name, row->job);
	if (!err)
		facts_decode(q, &rows, 0, a, out);
	return err;
}

/* Whether the job still belongs to its writer, in facts that were read under its lock. */
static defib_err must_be_ours(const struct heartbeat *h, const struct facts *now, struct failure *f)
{
	if (!now->running)
		return fail(f, DEFIB_LEASE_LOST, "job %s is no longer running", h->job);
	if (!h->first && now->owner && !text_eq(now->owner, h->worker))
		return fail(f, DEFIB_LEASE_LOST, "job %s belongs to another worker", h->job);
	return DEFIB_OK;
}

static defib_err in_tx(const struct heartbeat_sql *q, struct store *s, const struct heartbeat *h,
                       const struct write_sql *statements, int n, struct arena *a,
                       struct failure *f)
{
	const struct watch *w = q->bound.binding.watch;
	const struct table_sql table = {.binding = q->bound.binding};
	struct work_row row = {
		.job = h->job, .worker = h->worker, .step = h->step, .metadata = h->metadata};
	struct work_row *rows = &row;
	struct facts facts;
	bool locked = false;
	if (!job_key(h->job, w->key.n, a, row.key))
		return fail(f, DEFIB_USAGE, "the key of watch %s has %d parts", w->name, w->key.n);
	defib_err err = lock_row(&table, q->bound.sql.lock, s, &row, a, &locked, f);
	if (!err)
		err = heartbeat_read_row(&table, &q->bound.sql, s, &row, a, &facts, f);
	if (!err)
		err = must_be_ours(h, &facts, f);
	if (!err && !locked)
		err = fail(f, DEFIB_LOCKED, "job %s is locked by another transaction", h->job);
	if (err)
		return err;
	row.now_us = facts.now_us;
	row.attempt = facts.attempts;
	err = work_run(&table, s, statements, n, &rows, 1, a, f);
	return err || !h->instance || !q->bound.binding.leases ? err : heartbeat_keep(w, s, h, a, f);
}

static defib_err heartbeat_run(const struct heartbeat_sql *q, struct store *s,
                               const struct heartbeat *h, const struct write_sql *statements, int n,
                               struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = in_tx(q, s, h, statements, n, &a, f);
	return store_end(s, err, f);
}

defib_err heartbeat_write(const struct heartbeat_sql *q, struct store *s, const struct heartbeat *h,
                          struct failure *f)
{
	return heartbeat_run(q, s, h, q->beat, q->nbeat, f);
}

defib_err heartbeat_end(const struct heartbeat_sql *q, struct store *s, const struct heartbeat *h,
                        struct failure *f)
{
	struct failure why = {0};
	defib_err err = q->nafter ? heartbeat_run(q, s, h, q->after, q->nafter, f) : DEFIB_OK;
	bool leased = h->instance && *h->epoch && !h->left &&
	              heartbeat_release_job(q->bound.binding.watch, s, h, &why);
	if (leased && !err)
		*f = why;
	return leased && !err ? why.code : err;
}
