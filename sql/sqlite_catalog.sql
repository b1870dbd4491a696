-- What src/store/dialect_sqlite.c asks SQLite's catalogs. Each part begins with a line "-- @name".

-- @ledger
SELECT ?1 IN (0, 1)
FROM (SELECT count(*) AS n FROM sqlite_master
      WHERE type = 'table'
        AND name IN ('defib_ledger', 'defib_ledger_seal', 'defib_hold', 'defib_retry'))
WHERE n = 4

-- ---- a user's table ----

-- @columns
SELECT name, type,
    CASE WHEN upper(type) LIKE '%BOOL%' THEN 'bool'
         WHEN upper(type) LIKE '%TIME%' OR upper(type) LIKE '%DATE%' THEN 'naive'
         WHEN upper(type) LIKE '%INT%' OR upper(type) LIKE '%REAL%' OR upper(type) LIKE '%FLOA%'
             OR upper(type) LIKE '%DOUB%' OR upper(type) LIKE '%NUM%' OR upper(type) LIKE '%DEC%'
             THEN 'number'
         WHEN upper(type) LIKE '%BLOB%' THEN 'other'
         ELSE 'text' END,
    NOT "notnull" AND pk = 0, dflt_value
FROM pragma_table_info(?1)

-- @key: the primary key, else the first unique index that identifies every row
SELECT name, true FROM (SELECT name, pk FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk)
UNION ALL
SELECT name, false
FROM (SELECT i.name, i.seqno
      FROM pragma_index_list(?1) l, pragma_index_info(l.name) i
      WHERE NOT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE pk > 0)
        AND l.seq = (SELECT min(k.seq) FROM pragma_index_list(?1) k
                     WHERE k."unique" AND NOT k.partial
                       AND NOT EXISTS (SELECT 1 FROM pragma_index_info(k.name) x
                                       LEFT JOIN pragma_table_info(?1) c ON c.name = x.name
                                       WHERE c.name IS NULL OR NOT c."notnull"))
      ORDER BY i.seqno)

-- @foreign_keys
SELECT m.name, f."from",
    coalesce(f."to", (SELECT p.name FROM pragma_table_info(?1) p WHERE p.pk = 1)), false
FROM sqlite_master m, pragma_foreign_key_list(m.name) f
WHERE m.type = 'table' AND f."table" = ?1 COLLATE NOCASE
UNION ALL
SELECT f."table",
    coalesce(f."to", (SELECT p.name FROM pragma_table_info(f."table") p WHERE p.pk = 1)),
    f."from", true
FROM pragma_foreign_key_list(?1) f

-- @tables: that may hold jobs
SELECT CASE WHEN name LIKE '%.%' OR name LIKE '%"%' THEN '"' || replace(name, '"', '""') || '"'
            ELSE name END
FROM sqlite_master
WHERE type = 'table'
  AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND name NOT LIKE 'defib\_%' ESCAPE '\'
ORDER BY 1 LIMIT 500

-- @unique_key: are the columns ?2 or some of them unique in the table ?1?
SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE pk > 0)
        AND NOT EXISTS (SELECT 1 FROM pragma_table_info(?1)
                        WHERE pk > 0 AND name NOT IN (SELECT value FROM json_each(?2)))
    OR EXISTS (SELECT 1 FROM pragma_index_list(?1) l
               WHERE l."unique" AND NOT l.partial
                 AND NOT EXISTS (SELECT 1 FROM pragma_index_info(l.name) c
                                 WHERE c.name IS NULL
                                    OR c.name NOT IN (SELECT value FROM json_each(?2))))

-- @same_index: one of the table ?2 that is the same as the index of the table ?1; is that partial?
SELECT (SELECT o.name FROM sqlite_master o, sqlite_temp_master n
        WHERE o.type = 'index' AND o.tbl_name = ?2 COLLATE NOCASE
          AND n.type = 'index' AND n.tbl_name = ?1
          AND substr(o.sql, instr(o.sql, '(')) = substr(n.sql, instr(n.sql, '('))),
    (SELECT max(partial) FROM pragma_index_list(?1))

-- @outlasts: what a statement on the table ?1 could do that outlasts a rollback. ?2: functions that
-- it calls; ?3: names in it; ?4: columns that it writes.
-- SQLite has no function with an effect outside of the file, except some that extensions define:
-- neither deterministic (0x800) nor innocuous (0x200000). A program may have functions of its own,
-- but not this one.
SELECT 'it being a ' || CASE type WHEN 'view' THEN 'view' ELSE 'virtual table' END
FROM sqlite_master
WHERE name = ?1 COLLATE NOCASE AND (type = 'view' OR sql LIKE 'CREATE VIRTUAL%')
UNION ALL
SELECT 'trigger ' || name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE
UNION ALL
SELECT 'the foreign key of ' || m.name || ' (ON UPDATE ' || f.on_update || ')'
FROM sqlite_master m, pragma_foreign_key_list(m.name) f
WHERE m.type = 'table' AND f."table" = ?1 COLLATE NOCASE
  AND f.on_update NOT IN ('NO ACTION', 'RESTRICT')
  AND coalesce(f."to", (SELECT p.name FROM pragma_table_info(?1) p WHERE p.pk = 1))
      COLLATE NOCASE IN (SELECT value FROM json_each(?4))
UNION ALL
SELECT DISTINCT 'function ' || name || '()'
FROM pragma_function_list
WHERE flags & 0x200800 = 0 AND name COLLATE NOCASE IN (SELECT value FROM json_each(?2))
UNION ALL
SELECT 'virtual table ' || name
FROM sqlite_master
WHERE sql LIKE 'CREATE VIRTUAL%' AND name <> ?1 COLLATE NOCASE
  AND name COLLATE NOCASE IN (SELECT value FROM json_each(?3))
