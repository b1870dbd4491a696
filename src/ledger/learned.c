/* SPDX-License-Identifier: Apache-2.0 */
/* learned.c: see learned.h. */
#include "ledger/learned.h"

#include "base/text.h"
#include "ledger/tables.h"

#define NEW "{}" /* the row of "" between its making and its first document */

defib_err learned_read(struct store *s, const char *watch, struct arena *a,
                       struct learned_row **out, int *n, struct failure *f)
{
	struct store_param param = P_TEXT(watch);
	struct store_rows rows;
	*n = 0;
	defib_err err = dialect_exec(s,
	                             "SELECT kind, buckets::text FROM defib.learned WHERE watch = $1 "
	                             "ORDER BY {bytes kind}",
	                             &param, 1, a, &rows, f);
	if (err)
		return err;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct learned_row, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		(*out)[i] = (struct learned_row){row_text(&rows, i, 0), row_text(&rows, i, 1)};
	return DEFIB_OK;
}

/* Take the row of "" for this transaction, made where there is none. */
static defib_err take(struct store *s, const char *watch, struct arena *a, const char **now,
                      struct failure *f)
{
	struct store_param param = P_TEXT(watch);
	struct store_rows rows;
	defib_err err =
		dialect_exec(s,
	                 "INSERT INTO defib.learned AS l (watch, kind, at, buckets) VALUES ($1, '', "
	                 "{now}, '" NEW "') ON CONFLICT (watch, kind) DO UPDATE SET watch = l.watch "
	                 "RETURNING buckets::text",
	                 &param, 1, a, &rows, f);
	*now = !err && rows.nrows ? row_text(&rows, 0, 0) : NULL;
	return err;
}

static defib_err put(struct store *s, const char *watch, const struct learned_row *rows, int n,
                     struct arena *a, struct failure *f)
{
	struct relation r;
	relation_init(&r, s->engine);
	relation_column(&r, "watch", "text");
	relation_column(&r, "kind", "text");
	relation_column(&r, "buckets", "jsonb");
	for (int i = 0; i < n; i++) {
		if (!rows[i].document)
			continue;
		relation_text(&r, watch);
		relation_text(&r, rows[i].kind);
		relation_text(&r, rows[i].document);
		relation_end_row(&r);
	}
	defib_err err = DEFIB_OK;
	if (r.nrows)
		err = run_over(
			s, &r, "INSERT INTO defib.learned (watch, kind, buckets, at) SELECT u.*, {now} FROM (",
			") AS u WHERE true ON CONFLICT (watch, kind) DO UPDATE SET buckets = "
			"excluded.buckets, at = excluded.at",
			NULL, 0, a, NULL, f);
	relation_release(&r);
	return err;
}

static defib_err take_away(struct store *s, const char *watch, const char *kind, struct arena *a,
                           struct failure *f)
{
	struct store_param params[] = {P_TEXT(watch), P_TEXT(kind)};
	return dialect_exec(s, "DELETE FROM defib.learned WHERE watch = $1 AND kind = $2", params, 2, a,
	                    NULL, f);
}

defib_err learned_write(struct store *s, const char *watch, const char *was,
                        const struct learned_row *rows, int n, struct arena *a, bool *taken,
                        struct failure *f)
{
	const char *now = NULL;
	*taken = false;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = take(s, watch, a, &now, f);
	if (!err && !text_eq(now, was ? was : NEW)) {
		store_rollback(s);
		return DEFIB_OK;
	}
	if (!err)
		err = put(s, watch, rows, n, a, f);
	for (int i = 0; i < n && !err; i++)
		if (!rows[i].document)
			err = take_away(s, watch, rows[i].kind, a, f);
	if (err)
		store_rollback(s);
	else
		err = store_commit(s, f);
	*taken = !err;
	return err;
}
