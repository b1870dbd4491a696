/* learned.c: see learned.h. */
#include "ledger/learned.h"

#include "base/text.h"
#include "ledger/tables.h"

#define NEW "{}" /* the row of "" between its making and its first document */

defib_err learned_read(struct store *s, const char *watch, struct arena *a,
                       struct learned_row **out, int *n, struct failure *f)
{
	static const char *const queries[] = {
		[STORE_POSTGRES] = "SELECT kind, buckets::text FROM defib.learned WHERE watch = $1 "
						   "ORDER BY kind COLLATE \"C\"",
		[STORE_SQLITE] = "SELECT kind, buckets FROM defib_learned WHERE watch = ?1 ORDER BY kind",
	};
	struct store_param param = P_TEXT(watch);
	struct store_rows rows;
	*n = 0;
	defib_err err = store_exec(s, queries[s->engine], &param, 1, a, &rows, f);
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
	static const char *const queries[] = {
		[STORE_POSTGRES] = "INSERT INTO defib.learned AS l (watch, kind, buckets) VALUES ($1, '', "
						   "'" NEW "') ON CONFLICT (watch, kind) DO UPDATE SET watch = l.watch "
						   "RETURNING l.buckets::text",
		[STORE_SQLITE] = "INSERT INTO defib_learned (watch, kind, at, buckets) VALUES (?1, '', 0, "
						 "'" NEW "') ON CONFLICT (watch, kind) DO UPDATE SET watch = watch "
						 "RETURNING buckets",
	};
	struct store_param param = P_TEXT(watch);
	struct store_rows rows;
	defib_err err = store_exec(s, queries[s->engine], &param, 1, a, &rows, f);
	*now = !err && rows.nrows ? row_text(&rows, 0, 0) : NULL;
	return err;
}

static defib_err put(struct store *s, const char *watch, const struct learned_row *rows, int n,
                     struct arena *a, struct failure *f)
{
	static const char *const heads[] = {
		[STORE_POSTGRES] = "INSERT INTO defib.learned (watch, kind, buckets) SELECT u.* FROM (",
		[STORE_SQLITE] = "INSERT INTO defib_learned (watch, kind, buckets, at) SELECT u.*, "
						 "" SQLITE_NOW_MS " FROM (",
	};
	static const char *const tails[] = {
		[STORE_POSTGRES] = ") AS u ON CONFLICT (watch, kind) DO UPDATE SET buckets = "
						   "excluded.buckets, at = clock_timestamp()",
		[STORE_SQLITE] = ") AS u WHERE true ON CONFLICT (watch, kind) DO UPDATE SET buckets = "
						 "excluded.buckets, at = excluded.at",
	};
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
	defib_err err = r.nrows
	                    ? run_over(s, &r, heads[s->engine], tails[s->engine], NULL, 0, a, NULL, f)
	                    : DEFIB_OK;
	relation_release(&r);
	return err;
}

static defib_err take_away(struct store *s, const char *watch, const char *kind, struct arena *a,
                           struct failure *f)
{
	static const char *const queries[] = {
		[STORE_POSTGRES] = "DELETE FROM defib.learned WHERE watch = $1 AND kind = $2",
		[STORE_SQLITE] = "DELETE FROM defib_learned WHERE watch = ?1 AND kind = ?2",
	};
	struct store_param params[] = {P_TEXT(watch), P_TEXT(kind)};
	return store_exec(s, queries[s->engine], params, 2, a, NULL, f);
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
