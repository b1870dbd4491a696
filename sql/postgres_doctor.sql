-- What `defib doctor` asks PostgreSQL's catalogs. Each part begins with a line "-- @name".

-- @grants: relations and functions that the statement $1 names, and the privileges on them that the
-- role lacks. $2 = 1: the database refused the statement. Then tables with privileges on some
-- columns count too, but come last: another one is more likely to be the problem. Otherwise they
-- are taken as enough.
WITH named AS (
    SELECT c.oid, n.nspname, c.relname,
        '("([^"]|"")+"\.|\w+\.)?("' || regexp_replace(replace(c.relname, '"', '""'), '(\W)', '\\\1', 'g')
            || '"|' || regexp_replace(c.relname, '(\W)', '\\\1', 'g') || '(?![\w"]))' AS pattern
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND (pg_table_is_visible(c.oid) OR strpos($1, n.nspname) > 0)
      AND strpos($1, replace(c.relname, '"', '""')) > 0),
lacks AS (
    SELECT nspname, relname, p.privilege,
        CASE WHEN p.privilege = 'DELETE' THEN false
             ELSE has_any_column_privilege(oid, p.privilege)
                  AND ($2::bigint = 0 OR p.privilege = 'SELECT') END AS partly
    FROM named, (VALUES
        ('SELECT', '\m(from|join|using)\s+(only\s+)?' || CASE WHEN $2::bigint = 0 THEN '' ELSE '|,\s*' END),
        ('INSERT', '\minto\s+'),
        ('UPDATE', '\mupdate\s+(only\s+)?'),
        ('DELETE', '\mdelete\s+from\s+(only\s+)?')) AS p(privilege, place)
    WHERE $1 ~* ('(' || p.place || ')' || pattern) AND NOT has_table_privilege(oid, p.privilege)),
grants AS (
    SELECT format('GRANT %s ON %I.%I TO %I;', string_agg(privilege, ', ' ORDER BY privilege DESC),
                  nspname, relname, current_user) AS text
    FROM lacks
    WHERE NOT partly OR $2::bigint = 1 AND NOT EXISTS (SELECT 1 FROM lacks WHERE NOT partly)
    GROUP BY nspname, relname
    UNION ALL
    SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I;', p.oid::regprocedure, current_user)
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE NOT has_function_privilege(p.oid, 'EXECUTE')
      AND (pg_function_is_visible(p.oid) OR strpos($1, n.nspname) > 0)
      AND $1 ~* ('(^|[^\w$])' || regexp_replace(p.proname, '(\W)', '\\\1', 'g') || '"?\s*\(')
      AND NOT EXISTS (SELECT FROM pg_proc q
                      WHERE q.proname = p.proname AND q.pronamespace = p.pronamespace
                        AND has_function_privilege(q.oid, 'EXECUTE')))
SELECT string_agg(text, ' ') FROM grants

-- @policies: those that apply to this role when it reads and updates the table $1; whether it may do
-- either at all, and with every row. Reading rows in order to write them requires both.
SELECT string_agg(format('%I (%s%s)', polname,
                         CASE polcmd WHEN 'r' THEN 'SELECT' WHEN 'w' THEN 'UPDATE' ELSE 'ALL' END,
                         CASE WHEN polpermissive THEN '' ELSE ', restrictive' END),
                  ', ' ORDER BY polname),
    coalesce(bool_or(reads AND polpermissive), false),
    coalesce(bool_or(writes AND polpermissive), false),
    coalesce(bool_or(reads AND polpermissive AND every)
             AND NOT bool_or(reads AND NOT polpermissive), false),
    coalesce(bool_or(writes AND polpermissive AND every)
             AND NOT bool_or(writes AND NOT polpermissive), false)
FROM (SELECT p.*, polcmd IN ('r', '*') AS reads, polcmd IN ('w', '*') AS writes,
          pg_get_expr(polqual, polrelid) = 'true'
              AND coalesce(pg_get_expr(polwithcheck, polrelid), 'true') = 'true' AS every
      FROM pg_policy p
      WHERE polrelid = to_regclass($1) AND polcmd IN ('r', 'w', '*')
        AND EXISTS (SELECT FROM unnest(polroles) AS r(id)
                    WHERE r.id = 0 OR pg_has_role(r.id, 'USAGE'))) AS p

-- @own_tables: whether all of ours exist, and whether a schema may be created
SELECT (SELECT count(*) = 3 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'defib' AND c.relname IN ('ledger', 'hold', 'retry')),
    has_database_privilege(current_database(), 'CREATE')
    AND coalesce((SELECT has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE')
                  FROM pg_namespace WHERE nspname = 'defib'), true)

-- @sequences: our tables whose ids come from a sequence, and where the sequence is. Ids of workers
-- contain a nonce besides: none is ever taken.
SELECT quote_ident(c.relname), quote_ident(a.attname), coalesce(s.last_value, 0),
    to_regclass(q.name)::text
FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
CROSS JOIN LATERAL (
    SELECT CASE c.relname WHEN 'ledger' THEN 'defib.ledger_id'
                ELSE pg_get_serial_sequence('defib.' || c.relname, a.attname) END AS name) q
JOIN pg_sequences s
    ON to_regclass(format('%I.%I', s.schemaname, s.sequencename)) = to_regclass(q.name)
WHERE c.relnamespace = to_regnamespace('defib')
  AND (c.relname, a.attname) IN (('job', 'id'), ('ledger', 'id'), ('delivery', 'seq'))
  AND has_table_privilege(c.oid, 'SELECT')
  AND has_sequence_privilege(to_regclass(q.name), 'USAGE, SELECT')
ORDER BY 1

-- @idle: sessions that may hold rows of the watched tables $1 (JSON) and have been idle in a
-- transaction for $2 microseconds; a reader's lock blocks none
SELECT a.pid, coalesce(nullif(a.application_name, ''), 'no application_name'),
    extract(epoch FROM clock_timestamp() - a.state_change)::bigint,
    string_agg(DISTINCT w.name, ', ')
FROM pg_stat_activity a
JOIN pg_locks l ON l.pid = a.pid AND l.granted
JOIN (SELECT t.name, to_regclass(t.name) AS oid
      FROM json_array_elements_text($1::json) AS t(name)) w
    ON l.relation = w.oid OR l.relation IN (SELECT relid FROM pg_partition_tree(w.oid))
WHERE a.state LIKE 'idle in transaction%' AND l.mode <> 'AccessShareLock'
  AND a.datname = current_database()
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND a.state_change <= clock_timestamp() - $2::bigint * interval '1 microsecond'
GROUP BY 1, 2, 3
ORDER BY 3 DESC LIMIT 20

-- @table_size: about how many rows the table $1.$2 has, and its name
SELECT CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint ELSE pg_relation_size(c.oid) / 100 END,
    format('%I.%I', n.nspname, c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
