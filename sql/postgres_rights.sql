-- Questions about the rights of roles in a PostgreSQL database. Each part begins with a line
-- "-- @name".

-- @lacking: the GRANTs that the session's role lacks, of what $1 lists as kind, name and privileges
-- (src/ledger/schema.c)
WITH needs AS (
    SELECT n.kind, n.name, p.privilege, p.place
    FROM json_to_recordset($1::json) AS n(kind text, name text, privileges text),
        unnest(string_to_array(n.privileges, ', ')) WITH ORDINALITY AS p(privilege, place)),
lacks AS (
    SELECT needs.kind, format('%I.%I', s.nspname, c.relname) AS object, privilege, place
    FROM needs
    JOIN pg_class c ON c.relname = needs.name
    JOIN pg_namespace s ON s.oid = c.relnamespace AND s.nspname = 'defib'
    WHERE NOT CASE needs.kind
        WHEN 'SEQUENCE' THEN has_sequence_privilege(c.oid, privilege)
        ELSE CASE WHEN privilege LIKE '%(%'
            THEN has_column_privilege(c.oid, substring(privilege FROM '[(](.*)[)]'),
                                      split_part(privilege, ' ', 1))
            ELSE has_table_privilege(c.oid, privilege) END END),
grants AS (
    SELECT kind, privileges, string_agg(object, ', ' ORDER BY object) AS objects
    FROM (SELECT kind, object, string_agg(privilege, ', ' ORDER BY place) AS privileges
          FROM lacks GROUP BY 1, 2) AS o
    GROUP BY 1, 2)
SELECT concat_ws(' ',
    (SELECT format('GRANT USAGE ON SCHEMA defib TO %I;', current_user)
     FROM pg_namespace WHERE nspname = 'defib' AND NOT has_schema_privilege(oid, 'USAGE')),
    (SELECT string_agg(format('GRANT %s ON %s %s TO %I;', privileges, kind, objects, current_user),
                       ' ' ORDER BY kind DESC, privileges)
     FROM grants))

-- @refusal: why the role $1 may not order an act that needs $2 (table, privilege, column); NULL if it
-- may. $3: whether that is all it needs; $4: whether the role must exist (src/ledger/orders.c)
WITH r AS (SELECT oid, rolsuper, rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = $1::text),
n AS (
    SELECT x."table" AS name, x.privilege, x."column" AS part, to_regclass(x."table") AS oid
    FROM json_to_recordset($2::json) AS x("table" text, privilege text, "column" text)),
lacks AS (
    SELECT CASE WHEN n.part IS NULL THEN format('%s on %s', n.privilege, n.name)
                ELSE format('%s on column %I of %s', n.privilege, n.part, n.name) END AS what
    FROM n, r
    WHERE (CASE WHEN n.part IS NULL THEN has_table_privilege(r.oid, n.oid, n.privilege)
                ELSE has_column_privilege(r.oid, n.oid, n.part, n.privilege) END) IS NOT TRUE
    UNION ALL
    SELECT format('USAGE on schema %I', s.nspname)
    FROM n, r, pg_catalog.pg_class c, pg_catalog.pg_namespace s
    WHERE c.oid = n.oid AND s.oid = c.relnamespace AND NOT has_schema_privilege(r.oid, s.oid, 'USAGE')),
policed AS (
    SELECT n.name FROM n, r, pg_catalog.pg_class c
    WHERE c.oid = n.oid AND c.relrowsecurity AND NOT r.rolbypassrls)
SELECT CASE
    WHEN $1::text = session_user OR (SELECT rolsuper FROM r) THEN NULL
    WHEN $1::text IS NULL THEN 'it names no role'
    WHEN NOT EXISTS (SELECT FROM r)
        THEN CASE WHEN $4::bigint = 1 THEN format('role %s does not exist', $1::text) END
    WHEN $3::bigint = 0
        THEN format('role %s may not order it: remedies of the watch are more than SET lists', $1::text)
    WHEN EXISTS (SELECT FROM lacks)
        THEN format('role %s lacks %s', $1::text, (SELECT what FROM lacks ORDER BY what LIMIT 1))
    WHEN EXISTS (SELECT FROM policed)
        THEN format('role %s may not order it: %s has row security', $1::text,
                    (SELECT name FROM policed ORDER BY name LIMIT 1)) END
