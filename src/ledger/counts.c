/* SPDX-License-Identifier: Apache-2.0 */
/* counts.c: see counts.h. */
#include "ledger/counts.h"

#include "ledger/events.h"
#include "ledger/ledger.h"
#include "ledger/schema.h"
#include "ledger/tables.h"

/* One statement that only reads our own tables, in a transaction where writers are in the way. */
static defib_err ask(struct store *s, const char *sql, const struct store_param *params, int n,
                     struct arena *a, struct store_rows *rows, struct failure *f)
{
	if (!store_dialect(s)->one_writer)
		return dialect_exec(s, sql, params, n, a, rows, f);
	defib_err err = store_begin(s, TX_READ, f);
	if (err)
		return err;
	err = dialect_exec(s, sql, params, n, a, rows, f);
	store_rollback(s); /* nothing was written */
	return err;
}

defib_err ledger_kept(struct store *s, const char *watch, int64_t *holds, int64_t *retries,
                      struct failure *f)
{
	static const char sql[] = "SELECT (SELECT count(*) FROM defib.hold WHERE watch = $1), "
							  "(SELECT count(*) FROM defib.retry WHERE watch = $1)";
	struct arena a = ARENA_INIT;
	struct store_param param = P_TEXT(watch);
	struct store_rows rows;
	defib_err err = ask(s, sql, &param, 1, &a, &rows, f);
	if (!err) {
		*holds = row_int(&rows, 0, 0, 0);
		*retries = row_int(&rows, 0, 1, 0);
	}
	arena_release(&a);
	return err;
}

defib_err ledger_retries_all(struct store *s, struct arena *a, struct retries_of **out, int *n,
                             struct failure *f)
{
	struct store_rows rows;
	static const char sql[] = "SELECT watch, count(*) FROM defib.retry GROUP BY watch";
	*n = 0;
	defib_err err = ask(s, sql, NULL, 0, a, &rows, f);
	if (err)
		return err;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct retries_of, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		(*out)[i] = (struct retries_of){row_text(&rows, i, 0), row_int(&rows, i, 1, 0)};
	return DEFIB_OK;
}

static void since_sql(struct buf *sql)
{
	buf_add(sql, "SELECT l.watch, l.event, CASE WHEN ");
	event_judged_sql(sql, "l");
	buf_add(sql, " THEN l.verdict END, ");
	event_by_person_sql(sql, "l");
	buf_add(sql,
	        ", count(*) FROM defib.ledger AS l WHERE l.id > $1 AND l.id <= $2 GROUP BY 1, 2, 3, "
	        "4 ORDER BY 1, 2, 3, 4");
}

defib_err ledger_events_between(struct store *s, int64_t after, int64_t to, struct arena *a,
                                struct event_count **out, int *n, struct failure *f)
{
	struct store_param params[] = {P_INT(after), P_INT(to)};
	struct store_rows rows;
	struct buf sql = BUF_INIT;
	*n = 0;
	since_sql(&sql);
	defib_err err = ask(s, buf_text(&sql), params, 2, a, &rows, f);
	buf_release(&sql);
	if (err)
		return err;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct event_count, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++) {
		struct event_count *e = &(*out)[i];
		*e = (struct event_count){.watch = row_text(&rows, i, 0),
		                          .event = row_text(&rows, i, 1),
		                          .verdict = row_text(&rows, i, 2),
		                          .by_person = row_bool(&rows, i, 3),
		                          .n = row_int(&rows, i, 4, 0)};
		e->counts = event_counts(e->event, e->verdict != NULL, e->by_person);
	}
	return DEFIB_OK;
}

defib_err ledger_events_since(struct store *s, int64_t after, struct arena *a,
                              struct event_count **out, int *n, int64_t *last, struct failure *f)
{
	int64_t top = 0;
	*n = 0;
	*last = after;
	/* First the end: what is committed meanwhile is the next call's. */
	defib_err err = ledger_top(s, &top, f);
	if (err || top <= after)
		return err;
	top = top - after > LEDGER_COUNT_IDS ? after + LEDGER_COUNT_IDS : top;
	err = ledger_events_between(s, after, top, a, out, n, f);
	if (!err)
		*last = top;
	return err;
}

defib_err ledger_id_before(struct store *s, int64_t ago_us, int64_t *id, struct failure *f)
{
	static const char sql[] =
		"SELECT l.id, l.at < {stamp_ago $2} FROM defib.ledger AS l WHERE l.id "
		"> $1 ORDER BY l.id LIMIT 1";
	int64_t low = 0, high = 0;
	*id = 0;
	defib_err err = ledger_top(s, &high, f);
	/* Ids rise with time: halve what lies between one that is old enough and one that is not. */
	while (!err && low < high) {
		struct arena a = ARENA_INIT;
		int64_t middle = low + (high - low) / 2;
		struct store_param params[] = {P_INT(middle), P_INT(ago_us)};
		struct store_rows rows;
		err = ask(s, sql, params, 2, &a, &rows, f);
		if (!err && rows.nrows && row_bool(&rows, 0, 1))
			low = row_int(&rows, 0, 0, 0);
		else
			high = middle;
		arena_release(&a);
	}
	*id = low;
	return err;
}

/* Whether a query has a row. */
static defib_err any(struct store *s, const char *sql, const struct store_param *params, int n,
                     bool *is, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = ask(s, sql, params, n, &a, &rows, f);
	*is = !err && rows.nrows > 0;
	arena_release(&a);
	return err;
}

defib_err ledger_tells_of(struct store *s, const char *watch, bool *tells, struct failure *f)
{
	bool there = false;
	struct store_param name = P_TEXT(watch);
	*tells = false;
	defib_err err = ledger_exists(s, &there, f);
	if (err || !there)
		return err;
	return any(s, "SELECT 1 FROM defib.ledger WHERE watch = $1 LIMIT 1", &name, 1, tells, f);
}

defib_err queue_in_use(struct store *s, bool *used, struct failure *f)
{
	bool there = false;
	*used = false;
	defib_err err = schema_has(s, "job", &there, f);
	if (err || !there)
		return err;
	err = any(s, "SELECT 1 FROM defib.job LIMIT 1", NULL, 0, used, f);
	if (err || *used)
		return err;
	/* Jobs that are over may have been removed; what became of them is still told. */
	return ledger_tells_of(s, "queue", used, f);
}
