/* SPDX-License-Identifier: Apache-2.0 */
/* runs.c: see runs.h. */
#include "insight/runs.h"

#include "recover/look.h"
#include "watch/stats_sql.h"
#include "watch/timesql.h"

bool runs_known(const struct watch *w)
{
	return w->stats.started_at.text && w->stats.finished_at.text;
}

/* One statement in a read-only transaction. */
static defib_err ask(struct store *s, const char *sql, const struct store_param *params, int n,
                     struct arena *a, struct store_rows *rows, struct failure *f)
{
	defib_err err = store_begin(s, TX_READ, f);
	if (err)
		return err;
	err = store_exec(s, sql, params, n, a, rows, f);
	store_rollback(s); /* nothing was written */
	return err;
}

defib_err runs_now(struct store *s, int64_t *us, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	const char *sql = arena_printf(&a, "SELECT %s", sql_now_us(s->engine));
	defib_err err = ask(s, sql, NULL, 0, &a, &rows, f);
	*us = err ? 0 : row_int(&rows, 0, 0, 0);
	arena_release(&a);
	return err;
}

defib_err runs_read(struct store *s, const struct binding *b, int64_t after_us, int64_t until_us,
                    int64_t limit, struct arena *a, struct run **out, int *n, int64_t *last_us,
                    bool *more, struct failure *f)
{
	struct store_param params[] = {P_INT(after_us), P_INT(until_us), P_INT(limit)};
	struct store_rows rows;
	struct buf sql = BUF_INIT;
	int keys = b->watch->key.n;
	*n = 0;
	*last_us = after_us;
	*more = false;
	bool known = runs_sql(b, &sql);
	defib_err err = known ? ask(s, buf_text(&sql), params, 3, a, &rows, f) : DEFIB_OK;
	buf_release(&sql);
	if (err || !known)
		return err;
	*more = rows.nrows == limit;
	*out = ARENA_ARRAY(a, struct run, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++) {
		int64_t started = row_int(&rows, i, keys + 1, 0), ended = row_int(&rows, i, keys + 2, 0);
		*last_us = ended > *last_us ? ended : *last_us;
		if (ended < started)
			continue;
		(*out)[(*n)++] = (struct run){
			.job = job_text(&rows.cells[(size_t)i * (size_t)rows.ncols], keys, a),
			.kind = row_text(&rows, i, keys),
			.finished_us = ended,
			.took_us = ended - started,
		};
	}
	return DEFIB_OK;
}
