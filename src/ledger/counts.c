/* counts.c: see counts.h. */
#include "ledger/counts.h"

#include "ledger/ledger.h"

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

defib_err ledger_waiting(struct store *s, const char *watch, int64_t *held, int64_t *retries,
                         struct failure *f)
{
	static const char *const sql[] = {
		[STORE_POSTGRES] = "SELECT (SELECT count(*) FROM defib.hold WHERE watch = $1), "
						   "(SELECT count(*) FROM defib.retry WHERE watch = $1)",
		[STORE_SQLITE] = "SELECT (SELECT count(*) FROM defib_hold WHERE watch = ?1), "
						 "(SELECT count(*) FROM defib_retry WHERE watch = ?1)",
	};
	struct arena a = ARENA_INIT;
	struct store_param param = P_TEXT(watch);
	struct store_rows rows;
	defib_err err = ask(s, sql[s->engine], &param, 1, &a, &rows, f);
	if (!err) {
		*held = row_int(&rows, 0, 0, 0);
		*retries = row_int(&rows, 0, 1, 0);
	}
	arena_release(&a);
	return err;
}

defib_err ledger_events_since(struct store *s, int64_t after, struct arena *a,
                              struct event_count **out, int *n, int64_t *last, struct failure *f)
{
	static const char *const sql[] = {
		[STORE_POSTGRES] = "SELECT watch, event, count(*) FROM defib.ledger WHERE id > $1 AND "
						   "id <= $2 GROUP BY watch, event",
		[STORE_SQLITE] = "SELECT watch, event, count(*) FROM defib_ledger WHERE id > ?1 AND "
						 "id <= ?2 GROUP BY watch, event",
	};
	struct store_rows rows;
	int64_t top = 0;
	*n = 0;
	*last = after;
	/* First the end: what is committed meanwhile is the next call's. */
	defib_err err = ledger_top(s, &top, f);
	if (err || top <= after)
		return err;
	top = top - after > LEDGER_COUNT_IDS ? after + LEDGER_COUNT_IDS : top;
	struct store_param params[] = {P_INT(after), P_INT(top)};
	err = ask(s, sql[s->engine], params, 2, a, &rows, f);
	if (err)
		return err;
	*last = top;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct event_count, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		(*out)[i] = (struct event_count){row_text(&rows, i, 0), row_text(&rows, i, 1),
		                                 row_int(&rows, i, 2, 0)};
	return DEFIB_OK;
}
