-- What src/recover/attach.c asks PostgreSQL's catalogs. Each part begins with a line "-- @name".

-- @watched_table: names and owner of the table $1, and its search path: the schemas of this session's
-- path, except those in which anyone but their owner, the table's owner and superusers can create
-- objects. A function or operator made there could replace the one that the watch means.
SELECT n.nspname, c.relname, pg_get_userbyid(c.relowner),
    c.relowner = to_regrole(quote_ident(session_user)),
    (SELECT coalesce(string_agg(quote_ident(s.name), ', ' ORDER BY s.place), '')
     FROM unnest(current_schemas(false)) WITH ORDINALITY AS s(name, place)
     JOIN pg_namespace p ON p.nspname = s.name
     WHERE s.name NOT LIKE 'pg\_%' AND NOT EXISTS (
         SELECT 1 FROM aclexplode(coalesce(p.nspacl, acldefault('n', p.nspowner))) AS x
         LEFT JOIN pg_roles r ON r.oid = x.grantee
         WHERE x.privilege_type = 'CREATE' AND x.grantee NOT IN (p.nspowner, c.relowner)
           AND r.rolsuper IS NOT TRUE))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1)

-- @foreign_columns: of the table $1, whose types, or whose domains' base types, are not built in
SELECT a.attname
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
  AND b.typnamespace <> 'pg_catalog'::regnamespace

-- @state: of the trigger $3 on the table $2, which runs the function $1, which calls the function $4;
-- whether our table exists, whether the functions have only the privileges they need, and their
-- bodies
SELECT t.tgenabled,
    EXISTS (SELECT 1 FROM pg_class d WHERE d.relnamespace = n.oid AND d.relname = 'claimed_by'),
    p.proowner = c.relowner AND NOT EXISTS (
        SELECT 1 FROM pg_proc o
        CROSS JOIN LATERAL aclexplode(coalesce(o.proacl, acldefault('f', o.proowner))) AS x
        WHERE o.oid IN (p.oid, w.oid) AND x.grantee NOT IN (o.proowner, c.relowner)),
    p.prosrc, w.prosrc
FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'defib'
JOIN pg_trigger t ON t.tgfoid = p.oid AND t.tgrelid = to_regclass($2) AND t.tgname = $3
JOIN pg_class c ON c.oid = t.tgrelid
LEFT JOIN pg_proc w ON w.pronamespace = n.oid AND w.proname = $4
WHERE p.proname = $1 AND p.pronargs = 0
