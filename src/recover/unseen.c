/* SPDX-License-Identifier: Apache-2.0 */
/* unseen.c: see unseen.h. */
#include "recover/unseen.h"

#include "ledger/counts.h"
#include "store/dialect.h"

#define ROW_WITHIN_MS 1000 /* a table of dead rows may be long to read */

defib_err row_security(struct store *s, const struct watch *w, bool *on, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct buf table = BUF_INIT;
	struct store_rows rows;
	defib_err err = DEFIB_OK;
	*on = false;
	sql_table(&table, w->table);
	struct store_param name = P_TEXT(buf_text(&table));
	const char *sql = store_dialect(s)->ask.row_security;
	if (sql)
		err = store_begin(s, TX_READ, f);
	if (sql && !err) {
		err = store_exec(s, sql, &name, 1, &a, &rows, f);
		*on = !err && row_bool(&rows, 0, 0);
		store_rollback(s);
	}
	buf_release(&table);
	arena_release(&a);
	return err;
}

static bool has_rows(struct store *s, const struct watch *w)
{
	struct arena a = ARENA_INIT;
	struct buf sql = BUF_INIT;
	struct failure ignored = {0};
	struct store_rows rows;
	bool any = false;
	buf_add(&sql, "SELECT 1 FROM ");
	sql_table(&sql, w->table);
	buf_add(&sql, " LIMIT 1");
	if (store_begin_within(s, ROW_WITHIN_MS, &ignored) == DEFIB_OK) {
		any = store_exec(s, buf_text(&sql), NULL, 0, &a, &rows, &ignored) == DEFIB_OK &&
		      rows.nrows > 0;
		store_rollback(s);
	}
	buf_release(&sql);
	arena_release(&a);
	return any;
}

void unseen_look(struct store *s, const struct watch *w, struct unseen *out)
{
	struct failure ignored = {0};
	*out = (struct unseen){.empty = true};
	if (ledger_tells_of(s, w->name, &out->recorded, &ignored))
		out->recorded = false;
	if (!s->lost)
		out->empty = !has_rows(s, w);
	if (s->lost || row_security(s, w, &out->secured, &ignored))
		out->secured = false;
}

bool unseen_never(const struct unseen *u)
{
	return !u->recorded && (!u->empty || u->secured);
}

void unseen_hint(bool secured, struct buf *out)
{
	buf_add(out, "no record shows that one ever was");
	if (secured)
		buf_add(out, "; row-level security applies to this role and may hide rows");
	buf_add(out, ": check `running` in the watch, or run defib doctor");
}
