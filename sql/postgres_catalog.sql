-- What src/store/dialect_postgres.c and postgres_connect.c ask PostgreSQL's catalogs. Each part begins with a line
-- "-- @name"; {{@name}} stands for the text of another part.

-- ---- fragments ----

-- @schema_is_open: whether other roles can create in the schema `n` (pg_namespace), as in
-- postgres_connect.c. $user may be any schema of the role's name.
EXISTS (
        SELECT 1 FROM aclexplode(n.nspacl) AS x LEFT JOIN pg_roles r ON r.oid = x.grantee
        WHERE x.privilege_type = 'CREATE' AND x.grantee <> n.nspowner AND r.rolsuper IS NOT TRUE
          AND r.rolname IS DISTINCT FROM current_user
          AND x.grantee <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()))
    OR n.nspname = current_user AND EXISTS (
        SELECT 1 FROM pg_roles r
        WHERE r.oid = n.nspowner AND NOT r.rolsuper AND r.rolname <> current_user
          AND r.oid <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()))

-- @close_schema: the statement that closes the schema `n` to other roles
coalesce((
    SELECT format('REVOKE CREATE ON SCHEMA %I FROM %s;', n.nspname,
        string_agg(CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END, ', '))
    FROM aclexplode(n.nspacl) AS x LEFT JOIN pg_roles r ON r.oid = x.grantee
    WHERE x.privilege_type = 'CREATE' AND x.grantee <> n.nspowner AND r.rolsuper IS NOT TRUE
    HAVING count(*) > 0), format('ALTER SCHEMA %I OWNER TO %I;', n.nspname, current_user))

-- @schema_name: a name with a dot or a quote in it is quoted, as sql_table() reads it
CASE WHEN n.nspname ~ '[."]' THEN quote_ident(n.nspname) ELSE n.nspname END

-- @table_name
CASE WHEN c.relname ~ '[."]' THEN quote_ident(c.relname) ELSE c.relname END

-- @only_computes: a function `p` of language `l` that only computes: not VOLATILE, and either built
-- in or written in C, which only a superuser can create. What others are declared as is their
-- author's promise. The named volatile ones read a clock or draw a number; functions like
-- table_to_xml() run the queries of views.
(p.provolatile <> 'v' AND (p.oid < 16384 OR l.lanname IN ('internal', 'c') AND p.prokind <> 'a')
     AND p.proname NOT LIKE '%\_to\_xml%'
 OR p.oid < 16384 AND p.proname IN ('clock_timestamp', 'timeofday', 'random', 'gen_random_uuid'))

-- @open_schemas: those of the search path $1 in which other roles can create
unnest($1::name[]) WITH ORDINALITY AS s(name, place)
JOIN pg_namespace n ON n.nspname = s.name AND n.nspname NOT LIKE 'pg\_%' AND ({{@schema_is_open}})

-- ---- a new session ----

-- @server: what the session is connected to
SELECT pg_catalog.pg_backend_pid(),
    (SELECT system_identifier FROM pg_catalog.pg_control_system()),
    CASE WHEN NOT pg_catalog.pg_is_in_recovery()
         THEN pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) END,
    pg_catalog.pg_is_in_recovery(), pg_catalog.current_schemas(false),
    pg_catalog.current_setting('session_replication_role')

-- @server_restricted: the same where the role may not read the timeline, or there is none
SELECT pg_catalog.pg_backend_pid(), NULL, NULL,
    pg_catalog.pg_is_in_recovery(), pg_catalog.current_schemas(false),
    pg_catalog.current_setting('session_replication_role')

-- @trusted_path: of the schemas $1 those in which no other role can create
SELECT string_agg(quote_ident(s.name), ', ' ORDER BY s.place)
FROM unnest($1::name[]) WITH ORDINALITY AS s(name, place)
JOIN pg_namespace n ON n.nspname = s.name
WHERE s.name NOT LIKE 'pg\_%' AND NOT ({{@schema_is_open}})

-- ---- defib's own tables ----

-- @own_table: may the role read the table $1, and with $2 = 1 write it?
SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
    AND ($2::bigint = 0 OR has_table_privilege(c.oid, 'INSERT')
         AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'defib' AND c.relname = $1

-- @ledger: may the role read the ledger and its tables, and with $1 = 1 write them?
SELECT bool_and(has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
    AND ($1::bigint = 0 OR c.relname = 'ledger_seal' OR has_table_privilege(c.oid, 'INSERT')
         AND (c.relname = 'ledger' OR has_table_privilege(c.oid, 'UPDATE')
              AND has_table_privilege(c.oid, 'DELETE'))))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'defib' AND c.relname IN ('ledger', 'ledger_seal', 'hold', 'retry')
HAVING count(*) = 4

-- ---- a user's table ----

-- @columns: the base type of a domain; for arrays, the element type
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
    CASE WHEN b.typname = 'timestamptz' THEN 'instant'
         WHEN b.typname IN ('timestamp', 'date') THEN 'naive'
         WHEN b.typcategory IN ('S', 'E') THEN 'text'
         WHEN b.typcategory = 'N' THEN 'number'
         WHEN b.typcategory = 'B' THEN 'bool'
         WHEN b.typcategory = 'A' AND e.typcategory = 'S' THEN 'list'
         ELSE 'other' END,
    NOT a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
FROM pg_attribute a
JOIN pg_type y ON y.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE WHEN y.typtype = 'd' THEN y.typbasetype ELSE y.oid END
LEFT JOIN pg_type e ON e.oid = b.typelem
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum

-- @key: the primary key, else the narrowest unique index that identifies every row
SELECT a.attname, i.indisprimary
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(attnum, n)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE k.n <= i.indnkeyatts AND i.indexrelid = (
    SELECT j.indexrelid FROM pg_index j
    WHERE j.indrelid = to_regclass($1) AND j.indisunique AND j.indisvalid
      AND j.indpred IS NULL AND j.indexprs IS NULL
      AND NOT EXISTS (SELECT 1 FROM unnest(j.indkey) x
                      JOIN pg_attribute b ON b.attrelid = j.indrelid AND b.attnum = x
                      WHERE NOT b.attnotnull)
    ORDER BY j.indisprimary DESC, j.indnkeyatts, j.indexrelid LIMIT 1)
ORDER BY k.n

-- @declared: what enums, checks and conditions of indexes say about values
SELECT a.attname,
    'CHECK (' || string_agg(quote_literal(l.enumlabel), ', ' ORDER BY l.enumsortorder) || ')'
FROM pg_attribute a
JOIN pg_type y ON y.oid = a.atttypid
JOIN pg_enum l ON l.enumtypid = CASE WHEN y.typtype = 'd' THEN y.typbasetype ELSE y.oid END
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0
GROUP BY 1
UNION ALL
SELECT a.attname, pg_get_constraintdef(c.oid)
FROM pg_constraint c
JOIN pg_attribute a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum]
WHERE c.conrelid = to_regclass($1) AND c.contype = 'c'
UNION ALL
SELECT a.attname, pg_get_constraintdef(c.oid)
FROM pg_attribute a JOIN pg_constraint c ON c.contypid = a.atttypid AND c.contype = 'c'
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0
UNION ALL
SELECT NULL, 'WHERE ' || pg_get_expr(i.indpred, i.indrelid)
FROM pg_index i
WHERE i.indrelid = to_regclass($1) AND i.indpred IS NOT NULL

-- @foreign_keys: those of one column; one of several columns is part of another key
SELECT c.conrelid::regclass::text, a.attname, b.attname, false
FROM pg_constraint c
JOIN pg_attribute a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum]
JOIN pg_attribute b ON b.attrelid = c.confrelid AND c.confkey = ARRAY[b.attnum]
WHERE c.confrelid = to_regclass($1) AND c.contype = 'f'
UNION ALL
SELECT c.confrelid::regclass::text, b.attname, a.attname, true
FROM pg_constraint c
JOIN pg_attribute a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum]
JOIN pg_attribute b ON b.attrelid = c.confrelid AND c.confkey = ARRAY[b.attnum]
WHERE c.conrelid = to_regclass($1) AND c.contype = 'f'

-- @tables: that may hold jobs
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN '' ELSE {{@schema_name}} || '.' END || {{@table_name}}
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'defib')
  AND has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE')
ORDER BY 1 LIMIT 500

-- @all_tables: with views and foreign tables, to find one that was mistyped
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN c.relname ELSE n.nspname || '.' || c.relname END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
LIMIT 2000

-- @ways: is the table $1 a view or has it triggers; can a row be found by an index on one of the
-- columns $2; its whole name
SELECT EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = to_regclass($1) AND c.relkind = 'v')
    OR EXISTS (SELECT 1 FROM pg_trigger g
               WHERE NOT g.tgisinternal AND (g.tgrelid = to_regclass($1) OR g.tgrelid IN (
                   SELECT relid FROM pg_partition_tree(to_regclass($1))))),
    EXISTS (SELECT 1 FROM pg_index i
            JOIN pg_attribute c ON c.attrelid = i.indrelid AND c.attnum = i.indkey[0]
            WHERE i.indrelid = to_regclass($1) AND i.indisvalid AND i.indpred IS NULL
              AND c.attname = ANY ($2::text[])),
    (SELECT format('%I.%I', n.nspname, c.relname)
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.oid = to_regclass($1))

-- @writes_barred: also by a lock that is only requested: writers queue behind it
SELECT EXISTS (
    SELECT 1 FROM pg_locks l
    WHERE l.locktype = 'relation'
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (l.relation = to_regclass($1)
           OR l.relation IN (SELECT relid FROM pg_partition_tree(to_regclass($1))))
      AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
      AND l.pid <> pg_backend_pid())

-- @unique_key: are the columns $2 or some of them unique in the table $1?
SELECT EXISTS (
    SELECT 1 FROM pg_index i
    WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid
      AND i.indpred IS NULL AND i.indexprs IS NULL
      AND NOT EXISTS (
          SELECT 1 FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(att, place)
          JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.att
          WHERE k.place <= i.indnkeyatts
            AND a.attname NOT IN (SELECT json_array_elements_text($2::json))))

-- @same_index: one of the table $2 that is the same as the index of the table $1; is that partial?
SELECT (
    SELECT min(o.indexrelid::regclass::text) FROM pg_index o, pg_index n
    WHERE n.indrelid = to_regclass($1) AND o.indrelid = to_regclass($2) AND o.indisvalid
      AND (SELECT string_agg(pg_get_indexdef(o.indexrelid, k, true), ',' ORDER BY k)
           FROM generate_series(1, o.indnkeyatts) AS k)
        = (SELECT string_agg(pg_get_indexdef(n.indexrelid, k, true), ',' ORDER BY k)
           FROM generate_series(1, n.indnkeyatts) AS k)
      AND pg_get_expr(o.indpred, o.indrelid) IS NOT DISTINCT FROM pg_get_expr(n.indpred, n.indrelid)),
    (SELECT bool_or(indpred IS NOT NULL) FROM pg_index WHERE indrelid = to_regclass($1))

-- @outlasts: what a statement on the table $1 could do that outlasts a rollback. $2: functions that
-- it calls; $3: names in it; $4: columns that it writes.
-- Expressions of the table are stored as trees of nodes, in which functions have numbers. Operators,
-- casts and operator classes that run doubtful functions are rare: one in the database is enough to
-- doubt every statement. A foreign key reads the other table with built-in operators only, unless it
-- has an action.
WITH RECURSIVE rel(oid) AS (
    SELECT to_regclass($1)::oid
    UNION
    SELECT i.inhrelid FROM pg_inherits i JOIN rel ON i.inhparent = rel.oid),
called(name) AS (SELECT lower(json_array_elements_text($2::json))),
named(name) AS (SELECT lower(json_array_elements_text($3::json))),
written(name) AS (SELECT json_array_elements_text($4::json)),
doubtful AS (
    SELECT p.oid, p.proname, p.pronamespace
    FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
    WHERE NOT {{@only_computes}}),
read AS (
    SELECT c.oid, c.relkind
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid >= 16384 AND lower(c.relname) IN (SELECT name FROM named)
      AND (pg_table_is_visible(c.oid) OR lower(n.nspname) IN (SELECT name FROM named))),
tree(part, nodes) AS (
    SELECT 'generated column ' || quote_ident(a.attname), d.adbin::text
    FROM pg_attrdef d
    JOIN rel ON rel.oid = d.adrelid
    JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
    WHERE a.attgenerated <> ''
    UNION ALL
    SELECT 'constraint ' || quote_ident(c.conname), c.conbin::text
    FROM pg_constraint c
    WHERE c.conrelid IN (SELECT oid FROM rel) OR c.contypid <> 0
    UNION ALL
    SELECT 'index ' || i.indexrelid::regclass, concat(i.indexprs, i.indpred)
    FROM pg_index i JOIN rel ON rel.oid = i.indrelid
    UNION ALL
    SELECT 'policy ' || quote_ident(o.polname), concat(o.polqual, o.polwithcheck)
    FROM pg_policy o
    WHERE o.polrelid IN (SELECT oid FROM rel UNION SELECT oid FROM read)
    UNION ALL
    SELECT 'partition key of ' || k.partrelid::regclass, k.partexprs::text
    FROM pg_partitioned_table k JOIN rel ON rel.oid = k.partrelid)
SELECT 'trigger ' || quote_ident(g.tgname)
FROM pg_trigger g JOIN rel ON rel.oid = g.tgrelid
WHERE g.tgenabled <> 'D' AND NOT g.tgisinternal
UNION
SELECT 'rule ' || quote_ident(r.rulename)
FROM pg_rewrite r JOIN rel ON rel.oid = r.ev_class JOIN pg_class c ON c.oid = rel.oid
WHERE c.relkind IN ('r', 'p')
UNION
SELECT CASE c.relkind WHEN 'f' THEN 'foreign table ' ELSE 'view ' END || c.oid::regclass
FROM pg_class c
WHERE c.relkind NOT IN ('r', 'p') AND c.oid IN (SELECT oid FROM rel)
UNION
SELECT CASE relkind WHEN 'f' THEN 'foreign table ' ELSE 'view ' END || oid::regclass
FROM read
WHERE relkind IN ('v', 'm', 'f')
UNION
SELECT 'foreign key ' || quote_ident(c.conname)
FROM pg_constraint c JOIN rel ON rel.oid = c.confrelid
WHERE c.contype = 'f' AND c.confupdtype NOT IN ('a', 'r')
  AND EXISTS (SELECT FROM pg_attribute a JOIN written ON written.name = a.attname
              WHERE a.attrelid = c.confrelid AND a.attnum = ANY (c.confkey))
UNION
SELECT 'function ' || d.oid::regprocedure
FROM doubtful d
JOIN called ON called.name = lower(d.proname)
JOIN pg_namespace n ON n.oid = d.pronamespace
WHERE pg_function_is_visible(d.oid) OR lower(n.nspname) IN (SELECT name FROM named)
UNION
SELECT t.part || ' (function ' || d.oid::regprocedure || ')'
FROM tree t
CROSS JOIN LATERAL regexp_matches(t.nodes, ':\w*funcid (\d+)', 'g') AS m(found)
JOIN doubtful d ON d.oid = m.found[1]::oid
UNION
SELECT part || ' (a query)' FROM tree WHERE nodes ~ '{SUBLINK'
UNION
SELECT 'operator ' || o.oid::regoperator
FROM pg_operator o JOIN doubtful d ON d.oid = o.oprcode
UNION
SELECT 'cast from ' || c.castsource::regtype || ' to ' || c.casttarget::regtype
FROM pg_cast c JOIN doubtful d ON d.oid = c.castfunc
UNION
SELECT 'operator class function ' || d.oid::regprocedure
FROM pg_amproc m JOIN doubtful d ON d.oid = m.amproc
UNION
SELECT 'range type ' || r.rngtypid::regtype
FROM pg_range r JOIN doubtful d ON d.oid IN (r.rngcanonical, r.rngsubdiff)
ORDER BY 1

-- ---- whom defib's session trusts ----

-- @own_schema: the first reason not to trust the schema defib, and what mends it. The functions of
-- attach's triggers belong to the owners of the tables that they are on. A superuser can do nothing
-- about what the owner of the schema puts there, and then runs it.
WITH n AS (SELECT * FROM pg_namespace WHERE nspname = 'defib'),
db AS (SELECT datdba FROM pg_database WHERE datname = current_database()),
own AS (
    SELECT c.relowner AS owner,
        CASE c.relkind WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' ELSE 'table ' END
            || c.oid::regclass AS what
    FROM pg_class c, n
    WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    UNION ALL
    SELECT p.proowner, 'function ' || p.oid::regprocedure
    FROM pg_proc p, n
    WHERE p.pronamespace = n.oid
      AND NOT (p.proname LIKE 'claimed\_%' AND p.prorettype = 'trigger'::regtype)
    UNION ALL
    SELECT p.proowner, format('the function of trigger %I on table %s', g.tgname, g.tgrelid::regclass)
    FROM pg_trigger g, pg_class c, pg_proc p, n
    WHERE c.oid = g.tgrelid AND c.relnamespace = n.oid AND p.oid = g.tgfoid AND NOT g.tgisinternal),
others AS (
    SELECT own.what, r.rolname, count(*) OVER () AS n
    FROM own JOIN pg_roles r ON r.oid = own.owner, n, db
    WHERE NOT r.rolsuper AND r.oid NOT IN (n.nspowner, db.datdba)
    ORDER BY 1 LIMIT 1),
why AS (
    SELECT 1 AS place,
        'other roles can create in schema defib, and what they create could stand in for what belongs to defib' AS why,
        {{@close_schema}} AS fix
    FROM n
    WHERE ({{@schema_is_open}})
    UNION ALL
    SELECT 2,
        format('schema defib belongs to role %I, whose tables and functions there run with the rights of a superuser', o.rolname),
        format('connect as role %I; or make a superuser the owner of the schema and of all that is in it, and grant role %I what defib init --print prints', o.rolname, o.rolname)
    FROM n, db, pg_roles o
    WHERE o.oid = n.nspowner AND NOT o.rolsuper AND o.oid <> db.datdba
      AND (SELECT bool_or(r.rolsuper) FROM pg_roles r WHERE r.rolname IN (current_user, session_user))
    UNION ALL
    SELECT 3,
        format('%s belongs to role %I%s and runs with the rights of whoever uses schema defib',
            o.what, o.rolname, CASE WHEN o.n > 1 THEN format(' (and %s more to others),', o.n - 1) END),
        'drop what defib did not create; of what it did, make the owner of the schema the owner'
    FROM others o)
SELECT y.why, y.fix, r.rolname
FROM n JOIN pg_roles r ON r.oid = n.nspowner LEFT JOIN why y ON true
ORDER BY y.place LIMIT 1

-- @others_code: those of the tables $1 whose reading runs code of another role. A superuser reads
-- no code at all; other roles, with $2 = 1, none that could do more than compute.
WITH RECURSIVE rel(oid) AS (
    SELECT to_regclass(t.name)::oid FROM json_array_elements_text($1::json) AS t(name)
    UNION
    SELECT i.inhrelid FROM pg_inherits i JOIN rel ON i.inhparent = rel.oid),
me AS (SELECT bool_or(r.rolsuper) AS super FROM pg_roles r WHERE r.rolname IN (current_user, session_user)),
tree(rel, nodes) AS (
    SELECT i.indrelid, concat(i.indexprs, i.indpred) FROM pg_index i
    UNION ALL
    SELECT o.polrelid, concat(o.polqual, o.polwithcheck) FROM pg_policy o
    UNION ALL
    SELECT k.partrelid, k.partexprs::text FROM pg_partitioned_table k),
called(rel, oid) AS (
    SELECT t.rel, m.found[1]::oid
    FROM tree t
    JOIN rel ON rel.oid = t.rel
    CROSS JOIN LATERAL regexp_matches(t.nodes, ':\w*funcid (\d+)', 'g') AS m(found)
    UNION ALL
    SELECT a.attrelid, x.castfunc
    FROM pg_attribute a JOIN rel ON rel.oid = a.attrelid JOIN pg_cast x ON x.castsource = a.atttypid
    WHERE a.attnum > 0 AND NOT a.attisdropped)
SELECT c.oid::regclass::text, quote_ident(o.rolname), quote_ident(current_user), me.super
FROM me, rel JOIN pg_class c ON c.oid = rel.oid JOIN pg_roles o ON o.oid = c.relowner
WHERE NOT o.rolsuper AND o.rolname <> current_user
  AND (me.super OR $2::bigint = 1 AND EXISTS (
      SELECT FROM called
      JOIN pg_proc p ON p.oid = called.oid
      JOIN pg_language l ON l.oid = p.prolang
      WHERE called.rel = c.oid AND NOT {{@only_computes}}))
ORDER BY 1

-- @home: the open schema that has the table $2, which the session does not see
SELECT {{@schema_name}}
FROM {{@open_schemas}}
JOIN pg_class c ON c.relnamespace = n.oid
    AND c.relname = (parse_ident($2))[1] AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
WHERE to_regclass($2) IS NULL
ORDER BY s.place

-- @hidden: open schemas of the path, which the session leaves out
SELECT n.nspname, {{@close_schema}}
FROM {{@open_schemas}}
ORDER BY s.place

-- @needed: an open schema that the words $2 or the calls $3 need, for the table $4. Base types can
-- be made by superusers only, so nobody else can make a watch need a schema. Domains and arrays are
-- looked through; a column counts if both its name and its table's are among the words.
WITH word AS (SELECT json_array_elements_text($2::json) AS word),
called AS (SELECT json_array_elements_text($3::json) AS name),
n AS (
    SELECT n.oid, n.nspname, n.nspacl, n.nspowner
    FROM pg_namespace n
    WHERE n.nspname NOT LIKE 'pg\_%'
      AND (n.nspname = ANY ($1::name[]) OR n.nspname IN (SELECT word FROM word))
      AND ({{@schema_is_open}})),
base AS (
    SELECT y.oid, y.typname, y.typnamespace
    FROM pg_type y JOIN n ON n.oid = y.typnamespace
    WHERE y.typtype = 'b' AND y.typcategory <> 'A'),
used AS (
    SELECT a.attname,
        coalesce(nullif(d2.typbasetype, 0), e.oid, nullif(d.typbasetype, 0), y.oid) AS type
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_type y ON y.oid = a.atttypid
    LEFT JOIN pg_type d ON d.oid = y.oid AND d.typtype = 'd'
    LEFT JOIN pg_type l ON l.oid = coalesce(d.typbasetype, y.oid) AND l.typcategory = 'A'
    LEFT JOIN pg_type e ON e.oid = l.typelem
    LEFT JOIN pg_type d2 ON d2.oid = e.oid AND d2.typtype = 'd'
    WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attname IN (SELECT word FROM word)
      AND (c.oid = to_regclass($4) OR c.relname IN (SELECT word FROM word)))
SELECT n.nspname, w.why, {{@close_schema}}
FROM n JOIN (
    SELECT n.oid, 'a function or operator of it' AS why FROM n JOIN called ON called.name = n.nspname
    UNION ALL
    SELECT b.typnamespace, 'type ' || b.typname FROM base b JOIN word ON word.word = b.typname
    UNION ALL
    SELECT b.typnamespace, format('column %s of type %s', u.attname, b.typname)
    FROM base b JOIN used u ON u.type = b.oid) AS w ON w.oid = n.oid
ORDER BY 1, 2 LIMIT 1
