/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_sqlite.c: the dialect of SQLite; see dialect.h. */
#include "store/dialect.h"
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

/* Queries on SQLite's catalogs about a user's table. */

#define LITE_CLASS                                                                                 \
	"CASE WHEN upper(type) LIKE '%BOOL%' THEN 'bool' "                                             \
	"WHEN upper(type) LIKE '%TIME%' OR upper(type) LIKE '%DATE%' THEN 'naive' "                    \
	"WHEN upper(type) LIKE '%INT%' OR upper(type) LIKE '%REAL%' OR upper(type) LIKE '%FLOA%' "     \
	"OR upper(type) LIKE '%DOUB%' OR upper(type) LIKE '%NUM%' OR upper(type) LIKE '%DEC%' "        \
	"THEN 'number' WHEN upper(type) LIKE '%BLOB%' THEN 'other' ELSE 'text' END"

#define LITE_KEY                                                                                   \
	"SELECT name, true FROM (SELECT name, pk FROM pragma_table_info(?1) WHERE pk > 0 "             \
	"ORDER BY pk) UNION ALL SELECT name, false FROM (SELECT i.name, i.seqno "                      \
	"FROM pragma_index_list(?1) l, pragma_index_info(l.name) i "                                   \
	"WHERE NOT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE pk > 0) AND l.seq = "             \
	"(SELECT min(k.seq) FROM pragma_index_list(?1) k WHERE k.\"unique\" AND NOT k.partial "        \
	"AND NOT EXISTS (SELECT 1 FROM pragma_index_info(k.name) x "                                   \
	"LEFT JOIN pragma_table_info(?1) c ON c.name = x.name "                                        \
	"WHERE c.name IS NULL OR NOT c.\"notnull\")) ORDER BY i.seqno)"

#define LITE_PK(table) "(SELECT p.name FROM pragma_table_info(" table ") p WHERE p.pk = 1)"
#define LITE_FOREIGN_KEYS                                                                          \
	"SELECT m.name, f.\"from\", coalesce(f.\"to\", " LITE_PK(                                      \
		"?1") "), false "                                                                          \
			  "FROM sqlite_master m, pragma_foreign_key_list(m.name) f "                           \
			  "WHERE m.type = 'table' AND f.\"table\" = ?1 COLLATE NOCASE "                        \
			  "UNION ALL SELECT f.\"table\", coalesce(f.\"to\", " LITE_PK(                         \
				  "f.\"table\"") "), f.\"from\", "                                                 \
								 "true FROM pragma_foreign_key_list(?1) f"

/*
 * SQLite has no function with an effect outside of the file, except some that extensions define:
 * neither deterministic (0x800) nor innocuous (0x200000). A program may have functions of its own,
 * but not this one.
 */
#define LITE_OUTLASTS                                                                              \
	"SELECT 'it being a ' || CASE type WHEN 'view' THEN 'view' ELSE 'virtual table' END "          \
	"FROM sqlite_master WHERE name = ?1 COLLATE NOCASE AND (type = 'view' OR sql LIKE 'CREATE "    \
	"VIRTUAL%') "                                                                                  \
	"UNION ALL SELECT 'trigger ' || name FROM sqlite_master WHERE type = 'trigger' "               \
	"AND tbl_name = ?1 COLLATE NOCASE "                                                            \
	"UNION ALL SELECT 'the foreign key of ' || m.name || ' (ON UPDATE ' || f.on_update || ')' "    \
	"FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table' "              \
	"AND f.\"table\" = ?1 COLLATE NOCASE AND f.on_update NOT IN ('NO ACTION', 'RESTRICT') "        \
	"AND coalesce(f.\"to\", " LITE_PK(                                                             \
		"?1") ") COLLATE NOCASE IN (SELECT value FROM json_each(?4)) "                             \
			  "UNION ALL SELECT DISTINCT 'function ' || name || '()' FROM pragma_function_list "   \
			  "WHERE flags & 0x200800 = 0 AND name COLLATE NOCASE IN (SELECT value FROM "          \
			  "json_each(?2)) "                                                                    \
			  "UNION ALL SELECT 'virtual table ' || name FROM sqlite_master WHERE sql LIKE "       \
			  "'CREATE VIRTUAL%' AND name <> ?1 COLLATE NOCASE AND name COLLATE NOCASE IN "        \
			  "(SELECT value FROM json_each(?3))"

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
			.unique_key =
				"SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE pk > 0) AND NOT EXISTS "
				"(SELECT 1 FROM pragma_table_info(?1) WHERE pk > 0 AND name NOT IN (SELECT value "
				"FROM json_each(?2))) OR EXISTS (SELECT 1 FROM pragma_index_list(?1) l WHERE "
				"l.\"unique\" AND NOT l.partial AND NOT EXISTS (SELECT 1 FROM "
				"pragma_index_info(l.name) c WHERE c.name IS NULL OR c.name NOT IN (SELECT value "
				"FROM json_each(?2))))",
			.outlasts = LITE_OUTLASTS,
			.same_index =
				"SELECT (SELECT o.name FROM sqlite_master o, sqlite_temp_master n WHERE o.type = "
				"'index' AND o.tbl_name = ?2 COLLATE NOCASE AND n.type = 'index' AND n.tbl_name = "
				"?1 AND substr(o.sql, instr(o.sql, '(')) = substr(n.sql, instr(n.sql, '('))), "
				"(SELECT max(partial) FROM pragma_index_list(?1))",
			.ledger = "SELECT ?1 IN (0, 1) FROM (SELECT count(*) AS n FROM sqlite_master WHERE "
					  "type = 'table' AND name IN ('defib_ledger', 'defib_ledger_seal', "
					  "'defib_hold', 'defib_retry')) WHERE n = 4",
		},
	.catalog =
		{
			.relation = "SELECT type = 'view', 0 FROM sqlite_master "
						"WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view')",
			.columns = "SELECT name, type, " LITE_CLASS ", NOT \"notnull\" AND pk = 0, dflt_value "
					   "FROM pragma_table_info(?1)",
			.key = LITE_KEY,
			.declared = "SELECT NULL, sql FROM sqlite_master WHERE tbl_name = ?1 COLLATE NOCASE "
						"AND sql IS NOT NULL AND type IN ('table', 'index')",
			.foreign_keys = LITE_FOREIGN_KEYS,
			.tables = "SELECT CASE WHEN name LIKE '%.%' OR name LIKE '%\"%' "
					  "THEN '\"' || replace(name, '\"', '\"\"') || '\"' ELSE name END "
					  "FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' "
					  "ESCAPE '\\' AND name NOT LIKE 'defib\\_%' ESCAPE '\\' ORDER BY 1 LIMIT 500",
		},
	.pieces = pieces,
};
