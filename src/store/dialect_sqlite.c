/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_sqlite.c: the dialect of SQLite; see dialect.h. */
#include "store/dialect.h"

#include "embedded.h"
#include "store/sql.h"

#define DAY_1970 "2440587.5"
#define STAMP_MS(x) "CAST((julianday(" x ") - " DAY_1970 ") * 86400000 AS INTEGER)"

static const struct dialect_piece pieces[] = {
	{"now", SQLITE_NOW_MS},
	{"now_statement", SQLITE_NOW_MS},
	{"now_transaction", SQLITE_NOW_MS},
	{"us", "((\1) * 1000)"},
	{"instant", "\1 / 1000"},
	{"instant_after", "(\1 + 999) / 1000"},
	{"span", "\1 / 1000"},
	{"span_ms", "\1"},
	{"iso", "\1"},
	{"stamp_ago", "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (\1 / -1000000.0) || ' seconds')"},
	{"stamp_us", STAMP_MS("\1") " * 1000"},
	{"stamp_age_us", "CAST((julianday('now') - julianday(\1)) * 86400000000.0 AS INTEGER)"},
	{"stamp_instant", STAMP_MS("\1")},
	{"stamp_day", "substr(\1, 1, 10)"},
	{"stamp_minute", "substr(\1, 1, 16)"},
	{"stamp_seconds", "(strftime('%s', \1) - strftime('%s', \2))"},
	{"day_text", "\1"},
	{"stamp_point", "julianday(\1)"},
	{"iso_point", "julianday(\1)"},
	{"elapsed_s", "max(0.0, round((\2 - \1) * 86400.0, 3))"},
	{"server_up_less", "0"},
	{"member", "CASE WHEN typeof(\1) = 'text' AND json_valid(\1) THEN \1->>'\2' END"},
	{"not_true", "(CASE WHEN typeof(\1) = 'text' AND json_valid(\1) THEN json_type(\1, '$.\2') "
                 "END) IS NOT 'true'"},
	{"list_json", "\1"},
	{"bytes", "\1"},
	{"percentile", "(SELECT \2 FROM \3 WHERE \2 IS NOT NULL ORDER BY \2 LIMIT 1 OFFSET (SELECT "
                   "max((count(\2) * \1 + 99) / 100 - 1, 0) FROM \3))"},
	{"between_bytes", "\1 >= \2 AND \1 < \3"},
	{"differs", "\1 IS NOT \2"},
	{"among", "IN (SELECT value FROM json_each(\1))"},
	{"among_text", "IN (SELECT CAST(value AS TEXT) FROM json_each(\1))"},
	{"in_query", "IN (\1)"},
	{"skip_locked", ""},
	{"lock_row", ""},
	{"row", "rowid"},
	{NULL, NULL},
};

/* The bare name, without its schema. */
static void sqlite_catalog_name(struct buf *out, const char *table)
{
	const char *dot = strrchr(table, '.');
	bool quoted = *table == '"';
	for (const char *at = quoted ? table + 1 : dot ? dot + 1 : table; *at; at++) {
		if (quoted && *at == '"' && *++at != '"')
			break;
		buf_addch(out, *at);
	}
}

static void sqlite_undo_column(struct buf *out, const char *column)
{
	AUTO_BUF path = BUF_INIT, place = BUF_INIT;
	buf_addf(&path, "$.\"%s\"", column);
	sql_literal(&place, buf_text(&path));
	buf_addf(out, "CASE WHEN json_type(defib_s.defib_undo, %s) IS NULL THEN t.", buf_text(&place));
	sql_ident(out, column);
	buf_addf(out, " ELSE json_extract(defib_s.defib_undo, %s) END", buf_text(&place));
}

const struct dialect dialect_sqlite = {
	.name = "sqlite",
	.title = "SQLite",
	.mark = '?',
	.own = "defib_",
	.json_text = "json_quote",
	.list = "[]",
	.as_text = "",
	.words = {.has_other_quotes = true, .folds_quoted = true, .has_bodies = true, .marks = "$?@"},
	.least = "min",
	.same = " IS ",
	.differs = " IS NOT ",
	.find_text = "instr",
	.json_object = "json_object",
	.list_json = {"CAST((", ") AS TEXT)"},
	.undo_column = sqlite_undo_column,
	.catalog_name = sqlite_catalog_name,
	.now_us = SQLITE_NOW_MS " * 1000",
	.is_file = true,
	.names_indexes = true,
	.one_writer = true,
	.shell = {.start = ".parameter init\n", .set = ".parameter set ?%d \"'%s'\"\n"},
	.ask =
		{
			.own_table = "SELECT ?2 IN (0, 1) FROM sqlite_master WHERE name = 'defib_' || ?1",
			.tables = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') LIMIT 2000",
			.unique_key = sql_sqlite_catalog_unique_key,
			.outlasts = sql_sqlite_catalog_outlasts,
			.same_index = sql_sqlite_catalog_same_index,
			.ledger = sql_sqlite_catalog_ledger,
		},
	.catalog =
		{
			.relation = "SELECT type = 'view', 0 FROM sqlite_master "
						"WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view')",
			.columns = sql_sqlite_catalog_columns,
			.key = sql_sqlite_catalog_key,
			.declared = "SELECT NULL, sql FROM sqlite_master WHERE tbl_name = ?1 COLLATE NOCASE "
						"AND sql IS NOT NULL AND type IN ('table', 'index')",
			.foreign_keys = sql_sqlite_catalog_foreign_keys,
			.tables = sql_sqlite_catalog_tables,
		},
	.pieces = pieces,
};
