/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_postgres_catalog.h: what is asked of PostgreSQL's catalogs about a table of the user's.
 */
#ifndef STORE_DIALECT_POSTGRES_CATALOG_H
#define STORE_DIALECT_POSTGRES_CATALOG_H

/* The base type of a domain; arrays have their element. */
#define PG_COLUMNS                                                                                 \
	"SELECT a.attname, format_type(a.atttypid, a.atttypmod), "                                     \
	"CASE WHEN b.typname = 'timestamptz' THEN 'instant' "                                          \
	"WHEN b.typname IN ('timestamp', 'date') THEN 'naive' "                                        \
	"WHEN b.typcategory IN ('S', 'E') THEN 'text' WHEN b.typcategory = 'N' THEN 'number' "         \
	"WHEN b.typcategory = 'B' THEN 'bool' "                                                        \
	"WHEN b.typcategory = 'A' AND e.typcategory = 'S' THEN 'list' ELSE 'other' END, "              \
	"NOT a.attnotnull, pg_get_expr(d.adbin, d.adrelid) "                                           \
	"FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid "                                    \
	"JOIN pg_type b ON b.oid = CASE WHEN y.typtype = 'd' THEN y.typbasetype ELSE y.oid END "       \
	"LEFT JOIN pg_type e ON e.oid = b.typelem "                                                    \
	"LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum "                     \
	"WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped "                  \
	"ORDER BY a.attnum"

/* The primary key, else the narrowest unique index that names every row. */
#define PG_KEY                                                                                     \
	"SELECT a.attname, i.indisprimary FROM pg_index i "                                            \
	"CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(attnum, n) "                            \
	"JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "                      \
	"WHERE k.n <= i.indnkeyatts AND i.indexrelid = (SELECT j.indexrelid FROM pg_index j "          \
	"WHERE j.indrelid = to_regclass($1) AND j.indisunique AND j.indisvalid "                       \
	"AND j.indpred IS NULL AND j.indexprs IS NULL AND NOT EXISTS (SELECT 1 "                       \
	"FROM unnest(j.indkey) x JOIN pg_attribute b ON b.attrelid = j.indrelid AND b.attnum = x "     \
	"WHERE NOT b.attnotnull) ORDER BY j.indisprimary DESC, j.indnkeyatts, j.indexrelid LIMIT 1) "  \
	"ORDER BY k.n"

#define PG_DECLARED                                                                                \
	"SELECT a.attname, 'CHECK (' || string_agg(quote_literal(l.enumlabel), ', ' "                  \
	"ORDER BY l.enumsortorder) || ')' FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid "   \
	"JOIN pg_enum l ON l.enumtypid = CASE WHEN y.typtype = 'd' THEN y.typbasetype ELSE y.oid END " \
	"WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 GROUP BY 1 "                              \
	"UNION ALL SELECT a.attname, pg_get_constraintdef(c.oid) FROM pg_constraint c "                \
	"JOIN pg_attribute a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum] "               \
	"WHERE c.conrelid = to_regclass($1) AND c.contype = 'c' "                                      \
	"UNION ALL SELECT a.attname, pg_get_constraintdef(c.oid) FROM pg_attribute a "                 \
	"JOIN pg_constraint c ON c.contypid = a.atttypid AND c.contype = 'c' "                         \
	"WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 "                                         \
	"UNION ALL SELECT NULL, 'WHERE ' || pg_get_expr(i.indpred, i.indrelid) FROM pg_index i "       \
	"WHERE i.indrelid = to_regclass($1) AND i.indpred IS NOT NULL"

/* Of one column only: a relation of several is a key of something else. */
#define PG_FOREIGN_KEYS                                                                            \
	"SELECT c.conrelid::regclass::text, a.attname, b.attname, false FROM pg_constraint c "         \
	"JOIN pg_attribute a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum] "               \
	"JOIN pg_attribute b ON b.attrelid = c.confrelid AND c.confkey = ARRAY[b.attnum] "             \
	"WHERE c.confrelid = to_regclass($1) AND c.contype = 'f' "                                     \
	"UNION ALL SELECT c.confrelid::regclass::text, b.attname, a.attname, true "                    \
	"FROM pg_constraint c "                                                                        \
	"JOIN pg_attribute a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum] "               \
	"JOIN pg_attribute b ON b.attrelid = c.confrelid AND c.confkey = ARRAY[b.attnum] "             \
	"WHERE c.conrelid = to_regclass($1) AND c.contype = 'f'"

/* A name with a dot or a quote in it is quoted, as sql_table() reads it. */
#define PG_NAME(x) "CASE WHEN " x " ~ '[.\"]' THEN quote_ident(" x ") ELSE " x " END"
#define PG_SCHEMA PG_NAME("n.nspname")
#define PG_TABLE PG_NAME("c.relname")
#define PG_TABLES                                                                                  \
	"SELECT CASE WHEN pg_table_is_visible(c.oid) THEN '' ELSE " PG_SCHEMA                          \
	" || '.' END || " PG_TABLE " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "   \
	"WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^pg_' "              \
	"AND n.nspname NOT IN ('information_schema', 'defib') "                                        \
	"AND has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE') "           \
	"ORDER BY 1 LIMIT 500"

#endif
