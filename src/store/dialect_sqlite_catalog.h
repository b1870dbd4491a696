/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_sqlite_catalog.h: what is asked of SQLite's catalogs about a table of the user's. */
#ifndef STORE_DIALECT_SQLITE_CATALOG_H
#define STORE_DIALECT_SQLITE_CATALOG_H

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

#endif
