/* schema.c: see schema.h. */
#include "ledger/schema.h"

#include "embedded.h"
#include "watch/lexer.h"

#include <assert.h>

const char *schema_script(enum schema_part part, enum store_engine engine)
{
	static const char *const names[SCHEMA_PARTS][2] = {
		[SCHEMA_LEDGER] = {[STORE_POSTGRES] = "sql/postgres_ledger.sql",
	                       [STORE_SQLITE] = "sql/sqlite_ledger.sql"},
		[SCHEMA_DAEMON] = {[STORE_POSTGRES] = "sql/postgres_daemon.sql",
	                       [STORE_SQLITE] = "sql/sqlite_daemon.sql"},
		[SCHEMA_QUEUE] =
			{[STORE_POSTGRES] = "sql/postgres_queue.sql", [STORE_SQLITE] = "sql/sqlite_queue.sql"},
	};
	const char *text = embedded_text(names[part][engine]);
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

/*
 * Columns that tables of an older installation lack. Scripts name them too, for
 * new tables; PostgreSQL's add them by themselves, SQLite has no way to say "if".
 */
static const struct {
	enum schema_part part;
	const char *table, *column, *add;
} later_columns[] = {
	{SCHEMA_QUEUE, "defib_job", "saga",
     "ALTER TABLE defib_job ADD COLUMN saga INTEGER NOT NULL DEFAULT 0"},
	{SCHEMA_QUEUE, "defib_job", "undoing",
     "ALTER TABLE defib_job ADD COLUMN undoing INTEGER NOT NULL DEFAULT 0"},
	{SCHEMA_QUEUE, "defib_worker", "serves", "ALTER TABLE defib_worker ADD COLUMN serves TEXT"},
	{SCHEMA_QUEUE, "defib_worker", "info", "ALTER TABLE defib_worker ADD COLUMN info TEXT"},
	{SCHEMA_QUEUE, "defib_worker", "secret", "ALTER TABLE defib_worker ADD COLUMN secret TEXT"},
};

static defib_err add_later_columns(struct store *s, enum schema_part part, struct failure *f)
{
	struct arena a = ARENA_INIT;
	defib_err err = DEFIB_OK;
	for (size_t i = 0; i < sizeof later_columns / sizeof *later_columns && !err; i++) {
		struct store_param params[] = {P_TEXT(later_columns[i].table),
		                               P_TEXT(later_columns[i].column)};
		struct store_rows rows;
		if (later_columns[i].part != part)
			continue;
		err = store_exec(s, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2", params, 2, &a,
		                 &rows, f);
		if (!err && rows.nrows == 0)
			err = store_exec(s, later_columns[i].add, NULL, 0, &a, NULL, f);
	}
	arena_release(&a);
	return err;
}

/*
 * Lists that older installations have in a CHECK or in the WHERE of an index: SQLite makes a table
 * of each for every row that is written. The script says the same without; what is stored stays
 * as it is, so that only the text is exchanged, as SQLite's documentation of ALTER TABLE says.
 */
static const struct {
	const char *name, *was, *is;
} later_texts[] = {
	{"defib_job",
     "state IN ('scheduled', 'queued', 'running', 'cancelling', 'done', 'failed', 'timed_out',\n"
     "                     'cancelled', 'held', 'rolled_back')",
     "state = 'queued' OR state = 'running' OR state = 'done' OR state = 'scheduled' OR state = "
     "'cancelling' OR state = 'failed' OR state = 'timed_out' OR state = 'cancelled' OR state = "
     "'held' OR state = 'rolled_back'"},
	{"defib_job_unique", "state IN ('scheduled', 'queued', 'running', 'cancelling')",
     "(state = 'scheduled' OR state = 'queued' OR state = 'running' OR state = 'cancelling')"},
	{"defib_job_failed_at", "state IN ('failed', 'timed_out', 'cancelled', 'rolled_back')",
     "state = 'failed' OR state = 'timed_out' OR state = 'cancelled' OR state = 'rolled_back'"},
	{"defib_step", "state IN ('done', 'undone', 'undo_failed', 'again')",
     "state = 'done' OR state = 'undone' OR state = 'undo_failed' OR state = 'again'"},
};

static defib_err exchange_text(struct store *s, const struct store_param params[3], struct arena *a,
                               struct failure *f)
{
	struct store_rows rows;
	defib_err err = schema_run(s, "PRAGMA writable_schema = 1", f);
	if (!err)
		err = store_exec(s, "UPDATE sqlite_master SET sql = replace(sql, ?2, ?3) WHERE name = ?1",
		                 params, 3, a, NULL, f);
	if (!err)
		err = store_exec(s, "PRAGMA schema_version", NULL, 0, a, &rows, f);
	if (err)
		return err;
	/* Other sessions read the schema again by its version, this one by the reset. */
	int64_t next = row_int(&rows, 0, 0, 0) + 1;
	err = schema_run(s, arena_printf(a, "PRAGMA schema_version = %lld", (long long)next), f);
	return err ? err : schema_run(s, "PRAGMA writable_schema = RESET", f);
}

static defib_err exchange_later_texts(struct store *s, struct failure *f)
{
	struct arena a = ARENA_INIT;
	defib_err err = DEFIB_OK;
	for (size_t i = 0; i < sizeof later_texts / sizeof *later_texts && !err; i++) {
		struct store_param params[] = {P_TEXT(later_texts[i].name), P_TEXT(later_texts[i].was),
		                               P_TEXT(later_texts[i].is)};
		struct store_rows rows;
		err = store_exec(s, "SELECT 1 FROM sqlite_master WHERE name = ?1 AND instr(sql, ?2) > 0",
		                 params, 2, &a, &rows, f);
		if (!err && rows.nrows)
			err = exchange_text(s, params, &a, f);
	}
	arena_release(&a);
	return err;
}

static defib_err run_part(struct store *s, enum schema_part part, struct failure *f)
{
	defib_err err = schema_run(s, schema_script(part, s->engine), f);
	if (!err && s->engine == STORE_SQLITE)
		err = add_later_columns(s, part, f);
	if (!err && s->engine == STORE_SQLITE && part == SCHEMA_QUEUE)
		err = exchange_later_texts(s, f);
	return err;
}

defib_err schema_install(struct store *s, enum schema_part last, struct failure *f)
{
	assert(last < SCHEMA_PARTS);
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	/* Two that install at once would trip over each other's CREATE … IF NOT EXISTS. */
	if (s->engine == STORE_POSTGRES)
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
	static const char *const queries[] = {
		[STORE_POSTGRES] =
			"SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') "
			"AND ($2::bigint = 0 OR has_table_privilege(c.oid, 'INSERT') AND "
			"has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')) FROM "
			"pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'defib' "
			"AND c.relname = $1",
		[STORE_SQLITE] = "SELECT ?2 IN (0, 1) FROM sqlite_master WHERE name = 'defib_' || ?1",
	};
	struct store_param params[] = {P_TEXT(table), P_INT(write)};
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = store_exec(s, queries[s->engine], params, 2, &a, &rows, f);
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
	if (s->engine != STORE_POSTGRES)
		return DEFIB_OK;
	defib_err err = store_exec(s, "SELECT has_database_privilege(current_database(), 'CREATE')",
	                           NULL, 0, &a, &rows, f);
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
