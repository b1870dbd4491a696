/* SPDX-License-Identifier: Apache-2.0 */
#include "setup/trust.h"

#include "store/dialect.h"
#include "store/sql.h"
#include "watch/grants.h"

static void trust_add_table(void *ctx, const char *table, const char *privilege, const char *column)
{
	struct buf *out = ctx;
	(void)privilege;
	(void)column;
	buf_add(out, out->len ? "," : "[");
	buf_add_json(out, table);
}

static void trust_add_quoted(const char *table, struct buf *list)
{
	AUTO_BUF quoted = BUF_INIT;
	sql_table(&quoted, table);
	trust_add_table(list, buf_text(&quoted), NULL, NULL);
}

static defib_err trust_ask(struct store *s, struct buf *list, bool chosen, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	struct failure unknown = {0};
	buf_add(list, "]");
	const struct store_param params[] = {P_TEXT(buf_text(list)), P_INT(!chosen)};
	/* A role that may not look a table up is no superuser, and cannot read it. */
	if (store_read(s, store_dialect(s)->ask.others_code, params, 2, &a, &rows, &unknown)) {
		if (s->lost)
			*f = unknown;
		return s->lost ? f->code : DEFIB_OK;
	}
	if (rows.nrows == 0)
		return DEFIB_OK;
	const char *table = row_text(&rows, 0, 0), *owner = row_text(&rows, 0, 1);
	if (!row_bool(&rows, 0, 3))
		return fail(f, DEFIB_REFUSED,
		            "table %s belongs to role %s, whose functions in indexes, policies or casts "
		            "would run with the rights of role %s",
		            table, owner, row_text(&rows, 0, 2));
	fail(f, DEFIB_REFUSED,
	     "role %s is a superuser, and table %s belongs to role %s, whose functions in index "
	     "expressions, triggers and policies run with all rights when defib reads it",
	     row_text(&rows, 0, 2), table, owner);
	fail_next(f, "connect as a role of its own: defib init --print --for daemon prints its grants");
	return DEFIB_REFUSED;
}

defib_err trust_table(struct store *s, const char *table, bool chosen, struct failure *f)
{
	AUTO_BUF list = BUF_INIT;
	if (!store_dialect(s)->ask.others_code)
		return DEFIB_OK;
	trust_add_quoted(table, &list);
	return trust_ask(s, &list, chosen, f);
}

defib_err trust_watch(struct store *s, const struct watch *w, bool chosen, struct failure *f)
{
	AUTO_BUF list = BUF_INIT;
	AUTO_ARENA a = ARENA_INIT;
	if (!store_dialect(s)->ask.others_code)
		return DEFIB_OK;
	trust_add_quoted(w->table, &list);
	watch_each_need(w, WATCH_WORK, &a, trust_add_table, &list);
	return trust_ask(s, &list, chosen, f);
}
