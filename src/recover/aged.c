/* SPDX-License-Identifier: Apache-2.0 */
/* aged.c: see aged.h. */
#include "recover/aged.h"

#include "recover/look.h"
#include "store/dialect.h"
#include "watch/compile_parts.h"
#include "watch/timesql.h"

#include <assert.h>

/* The jobs that are not over: at work, or waiting for a worker of ours. */
static void open_rows(const struct watch *w, struct buf *out)
{
	buf_addf(out, "((%s)", w->running.text);
	if (w->work.ready.text)
		buf_addf(out, " OR (%s)", w->work.ready.text);
	buf_add(out, ")");
}

static void alive_column(const struct binding *b, struct buf *out)
{
	if (b->owner_alive)
		buf_addf(out, ", (%s) IS TRUE", b->owner_alive);
	else
		buf_add(out, ", false");
}

/* Age, is its worker alive, and the key. */
static void aged_sql(const struct binding *b, int64_t older_us, struct buf *out)
{
	const struct watch *w = b->watch;
	const struct threshold older = {.given = true, .standard_us = older_us};
	enum sign sign = watch_first_sign(w);
	const char *expr = watch_sign(w, sign)->text;
	struct buf comparable = BUF_INIT;
	sql_time_comparable(b, b->sign_time[sign], expr, &comparable);
	buf_addf(out, "SELECT %s - ", sql_now_us(b->engine));
	sql_time_us(b, b->sign_time[sign], expr, out);
	alive_column(b, out);
	buf_add(out, ", ");
	key_list(b, "t.", out);
	buf_add(out, "\nFROM ");
	sql_table(out, w->table);
	buf_add(out, " AS t\nWHERE ");
	open_rows(w, out);
	buf_addf(out, "\n  AND %s < ", buf_text(&comparable));
	sql_time_cutoff(b, b->sign_time[sign], &older, NULL, out);
	buf_addf(out, "\nORDER BY %s", buf_text(&comparable));
	for (int k = 0; k < w->key.n; k++) {
		buf_add(out, ", t.");
		sql_ident(out, w->key.items[k]);
	}
	dialect_add(dialect_of(b->engine), out, "\nLIMIT $1::bigint");
	buf_release(&comparable);
}

defib_err aged_jobs(const struct binding *b, struct store *s, int64_t older_us, int64_t limit,
                    struct arena *a, struct aged **out, int *n, struct failure *f)
{
	struct store_param param = P_INT(limit);
	struct store_rows rows;
	struct buf sql = BUF_INIT;
	assert(limit > 0 && older_us >= 0);
	*n = 0;
	aged_sql(b, older_us, &sql);
	defib_err err = store_exec(s, buf_text(&sql), &param, 1, a, &rows, f);
	buf_release(&sql);
	if (err)
		return err;
	*out = ARENA_ARRAY(a, struct aged, rows.nrows);
	for (int i = 0; i < rows.nrows; i++) {
		struct aged *job = &(*out)[i];
		job->age_us = row_int(&rows, i, 0, 0);
		job->alive = row_bool(&rows, i, 1);
		for (int k = 0; k < b->watch->key.n; k++)
			job->key[k] = row_text(&rows, i, 2 + k);
		job->job = job_text(job->key, b->watch->key.n, a);
	}
	*n = rows.nrows;
	return DEFIB_OK;
}
