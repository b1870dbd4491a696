/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c: see schema.h. */
#include "ledger/schema.h"

#include "embedded.h"
#include "store/dialect.h"
#include "watch/lexer.h"

#include <assert.h>

const char *schema_script(enum schema_part part, enum store_engine engine)
{
	static const char *const names[] = {"ledger", "daemon", "queue"};
	char name[64];
	snprintf(name, sizeof name, "sql/%s_%s.sql", dialect_of(engine)->name, names[part]);
	const char *text = embedded_text(name);
	assert(text != NULL);
	return text;
}

defib_err schema_run(struct store *s, const char *script, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct buf statement = BUF_INIT;
	defib_err err = DEFIB_OK;
	while (!err && sql_next_statement(&script, s->engine, &statement))
		err = store_exec(s, buf_text(&statement), NULL, 0, &a, NULL, f);
	buf_release(&statement);
	arena_release(&a);
	return err;
}

static defib_err run_part(struct store *s, enum schema_part part, struct failure *f)
{
	defib_err err = schema_run(s, schema_script(part, s->engine), f);
	if (!err && part == SCHEMA_QUEUE && store_dialect(s)->update_queue)
		err = store_dialect(s)->update_queue(s, f);
	return err;
}

defib_err schema_install(struct store *s, enum schema_part last, struct failure *f)
{
	assert(last < SCHEMA_PARTS);
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	/* Two that install at once would trip over each other's CREATE … IF NOT EXISTS. */
	if (store_dialect(s)->has_session_locks)
		err = schema_run(s, "SELECT pg_advisory_xact_lock(1684366953, 1)", f);
	for (int part = 0; part <= (int)last && !err; part++)
		err = run_part(s, (enum schema_part)part, f);
	if (!err)
		return store_commit(s, f);
	store_rollback(s);
	return err;
}

/*
 * The catalogs tell what the role may do without touching the tables: a schema that may not
 * be used would fail any other question.
 */
defib_err schema_look(struct store *s, const char *table, bool write, enum schema_presence *out,
                      struct failure *f)
{
	struct store_param params[] = {P_TEXT(table), P_INT(write)};
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = store_exec(s, store_dialect(s)->ask.own_table, params, 2, &a, &rows, f);
	if (!err)
		*out = rows.nrows == 0         ? SCHEMA_MISSING
		       : row_bool(&rows, 0, 0) ? SCHEMA_THERE
		                               : SCHEMA_CLOSED;
	arena_release(&a);
	return err;
}

defib_err schema_has(struct store *s, const char *table, bool *there, struct failure *f)
{
	enum schema_presence presence = SCHEMA_MISSING;
	defib_err err = schema_look(s, table, false, &presence, f);
	*there = presence == SCHEMA_THERE;
	return err;
}

/* Asked before it is tried: who may not create would fill the server's log with his tries. */
defib_err schema_may_install(struct store *s, bool *may, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	*may = true;
	if (!store_dialect(s)->ask.may_create)
		return DEFIB_OK;
	defib_err err = store_exec(s, store_dialect(s)->ask.may_create, NULL, 0, &a, &rows, f);
	*may = !err && row_bool(&rows, 0, 0);
	arena_release(&a);
	return err;
}

defib_err schema_refused(struct failure *f, const char *what)
{
	fail(f, DEFIB_PERMISSION, "%s", what);
	fail_next(
		f,
		"have a DBA run the output of defib init --print, which includes the grants for this role");
	return DEFIB_PERMISSION;
}

defib_err schema_ready(struct store *s, const char *table, enum schema_part last, bool create,
                       bool *there, struct failure *f)
{
	enum schema_presence presence = SCHEMA_MISSING;
	bool may = false;
	*there = false;
	defib_err err = schema_look(s, table, create, &presence, f);
	if (!err && presence == SCHEMA_CLOSED)
		return schema_refused(f, create ? "this role may not write to defib's own tables"
		                                : "this role may not read defib's own tables");
	*there = presence == SCHEMA_THERE;
	if (err || *there || !create)
		return err;
	err = schema_may_install(s, &may, f);
	if (!err && !may)
		return schema_refused(f,
		                      "defib's own tables do not exist, and this role may not create them");
	if (!err)
		err = schema_install(s, last, f);
	*there = !err;
	return err;
}
