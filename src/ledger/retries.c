/* SPDX-License-Identifier: Apache-2.0 */
/* retries.c: see retries.h. */
#include "ledger/retries.h"

#include "ledger/tables.h"

#include <assert.h>

defib_err ledger_retry_add(struct store *s, const struct ledger_context *ctx,
                           const struct pending_retry *all, int n, struct arena *a,
                           struct failure *f)
{
	static const char *const names[] = {"watch", "batch", "job", "reason", "expected"};
	struct relation r;
	if (n == 0)
		return DEFIB_OK;
	relation_init(&r, s->engine);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		relation_column(&r, names[i], i < 4 ? "text" : RELATION_JSON);
	relation_column(&r, "due_us", "bigint");
	relation_column(&r, "attempt", "bigint");
	for (int i = 0; i < n; i++) {
		const struct pending_retry *p = &all[i];
		const char *const values[] = {ctx->watch, ctx->batch, p->job, p->reason, p->expected};
		for (size_t v = 0; v < sizeof values / sizeof *values; v++)
			relation_text(&r, values[v]);
		relation_int(&r, p->due_us);
		relation_int(&r, p->attempt);
		relation_end_row(&r);
	}
	/* SQLite needs a WHERE to tell ON CONFLICT from a join. */
	defib_err err =
		run_over(s, &r,
	             "INSERT INTO defib.retry (watch, batch, job, reason, expected, due_at, attempt) "
	             "SELECT u.watch, u.batch, u.job, u.reason, u.expected, {instant_after u.due_us}, "
	             "u.attempt FROM (",
	             ") AS u WHERE true ON CONFLICT (watch, job) DO UPDATE SET batch = excluded.batch, "
	             "reason = excluded.reason, expected = excluded.expected, "
	             "due_at = excluded.due_at, attempt = excluded.attempt, at = excluded.at",
	             NULL, 0, a, NULL, f);
	relation_release(&r);
	return err;
}

/* What is read of a pending retry `p`. */
#define PENDING                                                                                    \
	"SELECT p.job, p.reason, p.expected, p.batch, {us due_at}, p.attempt, p.watch, {iso p.at} "    \
	"FROM defib.retry AS p"

static void take_rows(const struct store_rows *rows, struct arena *a, struct pending_retry **out,
                      int *n)
{
	*n = rows->nrows;
	*out = ARENA_ARRAY(a, struct pending_retry, rows->nrows);
	for (int i = 0; i < rows->nrows; i++)
		(*out)[i] = (struct pending_retry){
			.job = row_text(rows, i, 0),
			.reason = row_text(rows, i, 1),
			.expected = row_text(rows, i, 2),
			.batch = row_text(rows, i, 3),
			.due_us = row_int(rows, i, 4, 0),
			.attempt = row_int(rows, i, 5, 0),
			.watch = row_text(rows, i, 6),
			.at = row_text(rows, i, 7),
		};
}

/* Read pending retries; `watch` and `condition` may be NULL. */
static defib_err read_pending(struct store *s, const char *watch, const char *condition, int limit,
                              struct arena *a, struct pending_retry **out, int *n,
                              struct failure *f)
{
	struct store_rows rows;
	struct buf sql = BUF_INIT;
	struct store_param params[] = {P_INT(limit), P_TEXT(watch)};
	buf_add(&sql, PENDING);
	if (watch)
		buf_add(&sql, " WHERE p.watch = $2");
	if (condition)
		buf_addf(&sql, " %s %s", watch ? "AND" : "WHERE", condition);
	buf_add(&sql, " ORDER BY due_at, p.job LIMIT $1");
	defib_err err = dialect_exec(s, buf_text(&sql), params, watch ? 2 : 1, a, &rows, f);
	buf_release(&sql);
	if (!err)
		take_rows(&rows, a, out, n);
	return err;
}

defib_err ledger_retries_of(struct store *s, const char *watch, const char *const *jobs, int njobs,
                            struct arena *a, struct pending_retry **out, int *n, struct failure *f)
{
	struct store_rows rows;
	struct relation r;
	*n = 0;
	if (njobs == 0)
		return DEFIB_OK;
	jobs_relation(&r, s->engine, watch, jobs, njobs);
	defib_err err = run_over(s, &r, PENDING " JOIN (",
	                         ") AS u ON p.watch = u.watch AND p.job = u.job", NULL, 0, a, &rows, f);
	relation_release(&r);
	if (!err)
		take_rows(&rows, a, out, n);
	return err;
}

defib_err ledger_retries_due(struct store *s, const char *watch, int limit, struct arena *a,
                             struct pending_retry **out, int *n, struct failure *f)
{
	assert(watch && limit > 0);
	return read_pending(s, watch, "due_at <= {now}", limit, a, out, n, f);
}

defib_err ledger_retries_list(struct store *s, const char *watch, int limit, struct arena *a,
                              struct pending_retry **out, int *n, struct failure *f)
{
	assert(limit > 0);
	return read_pending(s, watch, NULL, limit, a, out, n, f);
}

defib_err ledger_retries_drop(struct store *s, const char *watch, const char *const *jobs, int n,
                              struct arena *a, struct failure *f)
{
	return drop_jobs(s, "defib.retry", watch, jobs, n, a, f);
}

defib_err ledger_retry_next(struct store *s, const char *watch, int64_t *due_us, bool *any,
                            struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct pending_retry *first;
	int n = 0;
	defib_err err = read_pending(s, watch, NULL, 1, &a, &first, &n, f);
	*any = !err && n > 0;
	*due_us = *any ? first->due_us : 0;
	arena_release(&a);
	return err;
}
