/* SPDX-License-Identifier: Apache-2.0 */
/* holds.c: the holds of ledger.h: made, listed, dropped. */
#include "ledger/ledger.h"

#include "ledger/tables.h"

#include <assert.h>

defib_err ledger_hold(struct store *s, const struct ledger_context *ctx, const struct hold *holds,
                      int n, struct arena *a, struct failure *f)
{
	static const char *const names[] = {"watch", "batch", "job", "cause", "reason", "owner"};
	struct relation r;
	if (n == 0)
		return DEFIB_OK;
	relation_init(&r, s->engine);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		relation_column(&r, names[i], "text");
	relation_column(&r, "sign_us", "bigint");
	for (int i = 0; i < n; i++) {
		const struct hold *h = &holds[i];
		const char *const values[] = {ctx->watch, ctx->batch, h->job,
		                              h->cause,   h->reason,  h->owner};
		for (size_t v = 0; v < sizeof values / sizeof *values; v++)
			relation_text(&r, values[v]);
		if (h->has_sign)
			relation_int(&r, h->sign_us);
		else
			relation_text(&r, NULL);
		relation_end_row(&r);
	}
	/* SQLite needs a WHERE to tell ON CONFLICT from a join. */
	defib_err err =
		run_over(s, &r,
	             "INSERT INTO defib.hold (watch, batch, job, cause, reason, owner, sign_us) SELECT "
	             "u.* FROM (",
	             ") AS u WHERE true ON CONFLICT (watch, job) DO UPDATE SET "
	             "batch = excluded.batch, cause = excluded.cause, reason = excluded.reason, "
	             "owner = excluded.owner, sign_us = excluded.sign_us, at = excluded.at",
	             NULL, 0, a, NULL, f);
	relation_release(&r);
	return err;
}

defib_err ledger_holds_list(struct store *s, const char *watch, const char *job, int limit,
                            struct arena *a, struct held_job **out, int *n, struct failure *f)
{
	struct store_rows rows;
	struct buf sql = BUF_INIT;
	struct store_param params[3];
	int nparams = 0;
	assert(limit > 0);
	buf_add(&sql, "SELECT watch, job, cause, reason, owner, batch, {iso at}, sign_us FROM "
	              "defib.hold WHERE true");
	if (watch) {
		params[nparams++] = P_TEXT(watch);
		buf_addf(&sql, " AND watch = $%d", nparams);
	}
	if (job) {
		params[nparams++] = P_TEXT(job);
		buf_addf(&sql, " AND job = $%d", nparams);
	}
	params[nparams++] = P_INT(limit);
	buf_addf(&sql, " ORDER BY at, watch, job LIMIT $%d", nparams);
	defib_err err = dialect_exec(s, buf_text(&sql), params, nparams, a, &rows, f);
	buf_release(&sql);
	if (err)
		return err;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct held_job, rows.nrows);
	for (int i = 0; i < rows.nrows; i++)
		(*out)[i] = (struct held_job){
			.watch = row_text(&rows, i, 0),
			.job = row_text(&rows, i, 1),
			.cause = row_text(&rows, i, 2),
			.reason = row_text(&rows, i, 3),
			.owner = row_text(&rows, i, 4),
			.batch = row_text(&rows, i, 5),
			.at = row_text(&rows, i, 6),
			.has_sign = row_text(&rows, i, 7) != NULL,
			.sign_us = row_int(&rows, i, 7, 0),
		};
	return DEFIB_OK;
}

defib_err ledger_holds_drop(struct store *s, const char *watch, const char *const *jobs, int n,
                            struct arena *a, struct failure *f)
{
	return drop_jobs(s, "defib.hold", watch, jobs, n, a, f);
}

defib_err ledger_hold_forget(struct store *s, const struct held_job *h, struct arena *a,
                             struct failure *f)
{
	struct store_param params[] = {P_TEXT(h->watch), P_TEXT(h->job), P_TEXT(h->batch)};
	return dialect_write(s, "DELETE FROM defib.hold WHERE watch = $1 AND job = $2 AND batch = $3",
	                     params, 3, a, NULL, f);
}
