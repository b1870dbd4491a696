-- The function of `defib install`: recovery of one watch inside PostgreSQL, as
-- src/setup/install_sql.c makes it. Each part begins with a line "-- @name"; {{piece}} stands for a
-- text of the watch, or for another part. Statements of the watch run by EXECUTE: so they look as
-- `defib sql` prints them, and no name in a user's table can conflict with a variable of the
-- function.

-- @function: as in defib's own sessions: times and keys must have the same text there and here
CREATE OR REPLACE FUNCTION {{name}}(max integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, {{search_path}}pg_temp
{{settings}}SET lock_timeout = '2s'
AS {{body}}

-- @body: the jobs of a batch pass through it as one JSON array, and into each statement as arrays
-- of text, one per column, as apply.c sends them. One bad row must not block the others: a batch
-- that fails because of its rows is rolled back to its savepoint and halved, as in carry.c.
DECLARE
    stuck jsonb; -- the jobs to act upon, as look saw them
    part jsonb; -- those under way
    these jsonb; -- those of one remedy
    locked jsonb;
    again jsonb; -- the second reading
    changed jsonb;
    held jsonb; -- since the look
    written jsonb;
    barred jsonb; -- jobs that are refused, and why
    bad jsonb;
    refused record;
    done jsonb; -- what the ledger is to say
    start integer := 0;
    size integer;
    this_batch text := to_char(clock_timestamp(), 'YYYYMMDD-HH24MISS') || '-'
        || left(gen_random_uuid()::text, 8) || '.1';
BEGIN
    -- In READ COMMITTED each statement sees what was committed before it; else none could
    -- find out that a row has changed.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'recovery needs the isolation level READ COMMITTED';
    END IF;
{{unreadable}}
    -- look, oldest first; judge and decide
    EXECUTE {{look}}
    INTO stuck USING NULL::bigint, greatest(coalesce(max, {{limit}}), 0), {{crash_budget_us}};
    -- what is only reported is noted once, and not locked
    done := (SELECT jsonb_agg(e || jsonb_build_object('remedy', NULL, 'after',
            jsonb_build_object('owner', e -> 'owner', 'sign_us', e -> 'sign_us')))
        FROM jsonb_array_elements(stuck) AS e WHERE e ->> 'remedy' = 'report');
    done := coalesce(done, '[]');
    stuck := (SELECT jsonb_agg(e) FROM jsonb_array_elements(stuck) AS e
        WHERE e ->> 'remedy' <> 'report');
    barred := coalesce((SELECT jsonb_object_agg(job, {{shared_key}}) FROM (
        SELECT e ->> 'job' AS job FROM jsonb_array_elements(stuck) AS e
        GROUP BY 1 HAVING count(*) > 1) AS twins), '{}');
    size := coalesce(jsonb_array_length(stuck), 0);
    WHILE start < coalesce(jsonb_array_length(stuck), 0) LOOP
        BEGIN
            part := (SELECT jsonb_agg(e ORDER BY n) FROM jsonb_array_elements(stuck)
                WITH ORDINALITY AS x(e, n) WHERE n > start AND n <= start + size
                AND NOT barred ? (e ->> 'job'));
            -- lock the rows, skip what others hold
            EXECUTE {{lock}}
            INTO locked USING
                {{keys_of_part}};
            -- read the judged facts again; what differs is left alone
            EXECUTE {{reread}}
            INTO again USING
                {{keys_of_part}},
                (SELECT jsonb_object_agg(e ->> 'job', e -> 'facts')
                FROM jsonb_array_elements(part) AS e);
            barred := barred || coalesce((SELECT jsonb_object_agg(key, {{shared_key}})
                FROM jsonb_each(again) WHERE value ->> 'rows' <> '1'), '{}');
            changed := (SELECT jsonb_agg(e || '{"remedy": null, "events": ["CHANGED_MEANWHILE"]}')
                FROM jsonb_array_elements(part) AS e
                WHERE NOT barred ? (e ->> 'job') AND (NOT again ? (e ->> 'job')
                    OR locked ? (e ->> 'job') AND again -> (e ->> 'job') -> 'same' <> 'true'));
            part := (SELECT jsonb_agg(e || jsonb_build_object('before',
                    again -> (e ->> 'job') -> 'before'))
                FROM jsonb_array_elements(part) AS e
                WHERE NOT barred ? (e ->> 'job') AND locked ? (e ->> 'job')
                    AND again -> (e ->> 'job') -> 'same' = 'true');
            -- what was put on hold since the look is left alone
            held := (SELECT jsonb_agg(e || '{"remedy": null, "events": ["CHANGED_MEANWHILE"]}')
                FROM jsonb_array_elements(part) AS e
                WHERE e ->> 'remedy' <> 'hold' AND EXISTS (SELECT FROM defib.hold AS h
                    WHERE h.table_key = {{table_key}} AND h.job = e ->> 'job'
                    AND {{hold_in_force}}));
            IF held IS NOT NULL THEN
                changed := coalesce(changed, '[]') || held;
                part := (SELECT jsonb_agg(e) FROM jsonb_array_elements(part) AS e
                    WHERE NOT EXISTS (SELECT FROM jsonb_array_elements(held) AS x
                        WHERE x ->> 'job' = e ->> 'job'));
            END IF;
{{writes}}
{{leases}}
            -- what the writes left
            these := (SELECT jsonb_agg(e) FROM jsonb_array_elements(part) AS e);
            IF these IS NOT NULL THEN
                EXECUTE {{left}}
                INTO written USING
                    {{keys_of_these}};
                bad := (SELECT jsonb_object_agg(e ->> 'job', (e ->> 'remedy') || {{runs_on}})
                    FROM jsonb_array_elements(part) AS e
                    WHERE e ->> 'remedy' IN {{remedies_that_write}}
                    AND written -> (e ->> 'job') ->> 'running' = 'true'
                    AND NOT ({{stays_running}} AND e ->> 'remedy' IN ('requeue', 'retry')
                        AND written -> (e ->> 'job') ->> 'stuck' IS DISTINCT FROM 'true'));
                IF bad IS NOT NULL THEN
                    barred := barred || bad;
                    RAISE EXCEPTION 'a write changed a row that was not to be changed'
                        USING ERRCODE = 'DFBAR';
                END IF;
                part := (SELECT jsonb_agg(e
                        || CASE WHEN e ->> 'remedy' IN {{remedies_by_list}}
                            THEN jsonb_build_object('after', written -> (e ->> 'job') -> 'after')
                            ELSE '{}' END
                        || CASE WHEN {{writes_hold}} AND e ->> 'remedy' = 'hold'
                            THEN jsonb_build_object('left', written -> (e ->> 'job'))
                            ELSE '{}' END)
                    FROM jsonb_array_elements(part) AS e);
            END IF;
            done := done || coalesce(changed, '[]') || coalesce(part, '[]');
            start := start + size;
            size := size * 2;
        EXCEPTION WHEN SQLSTATE 'DFBAR' THEN
            NULL; -- again, without those
        WHEN integrity_constraint_violation OR data_exception OR program_limit_exceeded
                OR with_check_option_violation OR plpgsql_error THEN
            IF size > 1 THEN
                size := size / 2;
            ELSE
                barred := barred || jsonb_build_object(stuck -> start ->> 'job', SQLERRM);
                start := start + 1;
            END IF;
        END;
    END LOOP;
    FOR refused IN SELECT key AS job, value AS why FROM jsonb_each_text(barred) LOOP
        RAISE WARNING 'defib: job % was refused: %', refused.job, refused.why;
    END LOOP;
    IF done = '[]' THEN
        RETURN 0;
    END IF;
    -- holds: by how the rows are left, or that the table cannot express
    INSERT INTO defib.hold (table_key, watch, batch, job, cause, reason, owner, sign_us)
    SELECT {{table_key}}, {{watch}}, this_batch, e ->> 'job', e ->> 'cause', e ->> 'reason',
        s.run ->> 'owner', (s.run ->> 'sign_us')::bigint
    FROM jsonb_array_elements(done) AS e,
        LATERAL (SELECT CASE WHEN {{writes_hold}} THEN e -> 'left' ELSE e END AS run) AS s
    WHERE e ->> 'remedy' = 'hold' AND s.run <> 'null'
    ON CONFLICT (table_key, job) DO UPDATE SET watch = excluded.watch, batch = excluded.batch,
        cause = excluded.cause, reason = excluded.reason, owner = excluded.owner,
        sign_us = excluded.sign_us, at = excluded.at, verdict = NULL, sign = NULL, state = NULL,
        progress = NULL, attempts = NULL, actor = NULL;
    -- ledger last: its ids are drawn under the lock, so that readers miss none
    PERFORM true FROM defib.ledger_order FOR UPDATE;
    INSERT INTO defib.ledger (id, watch, batch, actor, job, event, verdict, rule, reason, evidence,
        epoch, before, after)
    SELECT nextval('defib.ledger_id'), {{watch}}, this_batch, 'database:' || current_user, u.*
    FROM (SELECT e ->> 'job', s.event, e ->> 'verdict', e ->> 'rule', e ->> 'reason',
            e -> 'evidence'
{{masked}}
            || CASE WHEN last AND e ->> 'remedy' IN {{remedies_with_also}}
                THEN jsonb '{"also": true}' ELSE '{}' END,
            (e ->> 'epoch')::bigint,
            CASE WHEN last THEN nullif(e -> 'before', 'null') END,
            CASE WHEN last THEN nullif(e -> 'after', 'null') END
        FROM jsonb_array_elements(done) WITH ORDINALITY AS x(e, n),
            LATERAL (SELECT y.event, y.k, y.k = jsonb_array_length(e -> 'events') AS last
                FROM jsonb_array_elements_text(e -> 'events') WITH ORDINALITY AS y(event, k)) AS s
        ORDER BY n, k) AS u;
    RETURN (SELECT count(*) FROM jsonb_array_elements(done) AS e WHERE e ->> 'remedy' <> 'hold');
END;

-- @masked: as masked_repeats() in masked.c, over the entry that is written
            || (SELECT CASE WHEN count(*) > 0 THEN jsonb_build_object('masked',
                    jsonb_agg(m.name ORDER BY m.name COLLATE "C")) ELSE '{}' END
                FROM (SELECT r.name FROM (
                        SELECT kv ->> 'key', kv -> 'value' FROM jsonb_path_query(
                            jsonb_build_array(e -> 'evidence', CASE WHEN last THEN
                                jsonb_build_array(e -> 'before', e -> 'after') END),
                            '$.** ? (@.type() == "object").keyvalue()') AS kv
                        UNION ALL SELECT 'reason', e -> 'reason') AS r(name, value)
                    WHERE lower(r.name) NOT IN ({{names}})
                        AND EXISTS (SELECT 1 FROM jsonb_path_query(r.value,
                            '$[*] ? (@.type() == "string")') AS v(text) WHERE {{repeats}})
                    GROUP BY r.name) AS m)

-- @unreadable: as report_unreadable() in scan.c
    EXECUTE {{count}} INTO size;
    IF size > 0 THEN
        RAISE WARNING 'defib: % running rows have a sign of life that is no time',
            size || CASE WHEN size = {{most}} THEN ' or more' ELSE '' END;
    END IF;

-- @update: a write by a SET list, as note_written() in apply.c
            -- {{remedy}}
            these := (SELECT jsonb_agg(e) FROM jsonb_array_elements(part) AS e
                WHERE e ->> 'remedy' = '{{remedy}}');
            IF these IS NOT NULL THEN
                EXECUTE {{sql}}
                INTO written USING
                    {{values}};
                IF EXISTS (SELECT FROM jsonb_each_text(written) WHERE value <> '1' OR NOT EXISTS (
                        SELECT FROM jsonb_array_elements(these) AS e WHERE e ->> 'job' = key)) THEN
                    bad := (SELECT jsonb_object_agg(e ->> 'job', CASE WHEN written ? (e ->> 'job')
                            THEN {{shared_key}} ELSE {{key_written}} END)
                        FROM jsonb_array_elements(these) AS e
                        WHERE coalesce(written ->> (e ->> 'job'), '0') <> '1');
                    barred := barred || coalesce(bad, '{}');
                    RAISE EXCEPTION 'a write changed a row that was not to be changed'
                        USING ERRCODE = CASE WHEN bad IS NULL THEN 'P0001' ELSE 'DFBAR' END;
                END IF;
                -- what it did not return was kept back by a trigger or policy
                part := (SELECT jsonb_agg(e) FROM jsonb_array_elements(part) AS e
                    WHERE e ->> 'remedy' <> '{{remedy}}' OR written ? (e ->> 'job'));
            END IF;

-- @statement: a write by the user's own statement, or a call
            -- {{remedy}}
            these := (SELECT jsonb_agg(e) FROM jsonb_array_elements(part) AS e
                WHERE e ->> 'remedy' = '{{remedy}}');
            IF these IS NOT NULL THEN
                EXECUTE {{sql}}
                USING
                    {{values}};
            END IF;

-- @leases: a job that is held only in defib's table stays with its worker: its row did not change
            -- end the leases that defib's own workers had on them
            these := (SELECT jsonb_agg(e) FROM jsonb_array_elements(part) AS e
                WHERE {{writes_hold}} OR e ->> 'remedy' <> 'hold');
            IF these IS NOT NULL THEN
                EXECUTE {{sql}}
                USING
                    {{keys_of_these}};
            END IF;

-- ---- the statements of the watch, with what the function needs around them ----

-- @lock: which rows were locked; $1 and further on: keys
SELECT coalesce(jsonb_object_agg({{job}}, true), '{}') FROM (
{{sql}}
) AS defib_s{{columns}}
WHERE {{free}}

-- @reread: the rows as they are now, and whether the judged facts are the same; after the keys: the
-- facts by job
SELECT coalesce(jsonb_object_agg(job, jsonb_build_object('before', before, 'rows', rows,
  'same', running AND facts = ${{facts}} -> job)), '{}')
FROM (SELECT *, count(*) OVER (PARTITION BY job) AS rows FROM (
{{sql}}) AS f) AS f

-- @written: how many rows an UPDATE returned for each key
WITH defib_s{{columns}} AS (
{{sql}}
)
SELECT coalesce(jsonb_object_agg(job, n), '{}')
FROM (SELECT {{job}} AS job, count(*) AS n FROM defib_s GROUP BY 1) AS w

-- @left: the rows after the writes: what the ledger keeps, and what identifies a hold in the table
SELECT coalesce(jsonb_object_agg(job, jsonb_build_object('owner', owner, 'sign_us', {{sign}},
  'after', before, 'running', running, 'stuck', law IS NOT NULL)), '{}') FROM (
{{sql}}) AS f

-- @count
SELECT count(*) FROM (
{{sql}}
) AS defib_s
