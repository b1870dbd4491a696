/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_update.c: see sqlite_update.h. */
#include "store/sqlite_update.h"

/*
 * Columns that tables of an older installation lack. Scripts name them too, for
 * new tables; PostgreSQL's add them by themselves, SQLite has no way to say "if".
 */
static const struct {
	const char *table, *column, *add;
} later_columns[] = {
	{"defib_job", "saga", "ALTER TABLE defib_job ADD COLUMN saga INTEGER NOT NULL DEFAULT 0"},
	{"defib_job", "undoing", "ALTER TABLE defib_job ADD COLUMN undoing INTEGER NOT NULL DEFAULT 0"},
	{"defib_worker", "serves", "ALTER TABLE defib_worker ADD COLUMN serves TEXT"},
	{"defib_worker", "info", "ALTER TABLE defib_worker ADD COLUMN info TEXT"},
	{"defib_worker", "secret", "ALTER TABLE defib_worker ADD COLUMN secret TEXT"},
};

static defib_err add_later_columns(struct store *s, struct failure *f)
{
	struct arena a = ARENA_INIT;
	defib_err err = DEFIB_OK;
	for (size_t i = 0; i < sizeof later_columns / sizeof *later_columns && !err; i++) {
		struct store_param params[] = {P_TEXT(later_columns[i].table),
		                               P_TEXT(later_columns[i].column)};
		struct store_rows rows;
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

static defib_err pragma(struct store *s, const char *sql, struct failure *f)
{
	return store_exec(s, sql, NULL, 0, NULL, NULL, f);
}

static defib_err exchange_text(struct store *s, const struct store_param params[3], struct arena *a,
                               struct failure *f)
{
	struct store_rows rows;
	defib_err err = pragma(s, "PRAGMA writable_schema = 1", f);
	if (!err)
		err = store_exec(s, "UPDATE sqlite_master SET sql = replace(sql, ?2, ?3) WHERE name = ?1",
		                 params, 3, a, NULL, f);
	if (!err)
		err = store_exec(s, "PRAGMA schema_version", NULL, 0, a, &rows, f);
	if (err)
		return err;
	/* Other sessions read the schema again by its version, this one by the reset. */
	int64_t next = row_int(&rows, 0, 0, 0) + 1;
	err = pragma(s, arena_printf(a, "PRAGMA schema_version = %lld", (long long)next), f);
	return err ? err : pragma(s, "PRAGMA writable_schema = RESET", f);
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

defib_err sqlite_update_queue(struct store *s, struct failure *f)
{
	defib_err err = add_later_columns(s, f);
	return err ? err : exchange_later_texts(s, f);
}
