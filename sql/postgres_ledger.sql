-- defib's own tables in a PostgreSQL database: the ledger, holds, and retries that wait.
-- Runs as it is in psql; running it again changes nothing.
CREATE SCHEMA IF NOT EXISTS defib;

CREATE TABLE IF NOT EXISTS defib.meta (
    name  text PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO defib.meta VALUES ('version', '1') ON CONFLICT DO NOTHING;
-- Drawn once: what was recorded elsewhere for this database (a spool, the position of a client in
-- the ledger) names it, because numbers begin at 1 in every database.
INSERT INTO defib.meta VALUES ('database', gen_random_uuid()::text) ON CONFLICT DO NOTHING;

-- Ids are drawn while this row is locked, by the last statement of a transaction: a reader that
-- reads in the order of ids misses nothing. An advisory lock could be kept by any role that can
-- connect.
CREATE SEQUENCE IF NOT EXISTS defib.ledger_id;
CREATE TABLE IF NOT EXISTS defib.ledger_order (one boolean PRIMARY KEY DEFAULT true CHECK (one));
INSERT INTO defib.ledger_order VALUES (true) ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS defib.ledger (
    id       bigint PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    batch    text NOT NULL,
    watch    text NOT NULL,
    job      text NOT NULL,
    event    text NOT NULL,
    actor    text NOT NULL,
    verdict  text,
    rule     text,
    reason   text,
    evidence jsonb,
    before   jsonb,
    after    jsonb,
    epoch    bigint
);

-- By bytes, and the most selective column first: every insert pays for each comparison.
CREATE INDEX IF NOT EXISTS ledger_of_job
    ON defib.ledger (job text_pattern_ops, watch text_pattern_ops, id);
-- For reports and counts of a period.
CREATE INDEX IF NOT EXISTS ledger_watch_at ON defib.ledger (watch, at);
-- Mistakes are counted from these, which are few.
CREATE INDEX IF NOT EXISTS ledger_late ON defib.ledger (watch, at)
    WHERE event = 'LATE_COMPLETION';
-- By bytes, so that the parts X.1, X.2 … of a scan X are a range in any collation.
CREATE INDEX IF NOT EXISTS ledger_batch_parts ON defib.ledger (batch text_pattern_ops);

-- Entries are chained: each statement that adds entries is sealed by a hash over them and over the
-- previous seal, so that `defib ledger verify` finds what was changed or removed since. A seal
-- names the next one: if the tail is cut off, the last seal still names a successor. The first row
-- is the anchor: everything up to it was pruned, and its seal is that of the last removed statement.
-- While nothing was pruned it is number 0, without entries.
CREATE TABLE IF NOT EXISTS defib.ledger_seal (
    last_id  bigint PRIMARY KEY,
    first_id bigint NOT NULL,
    entries  bigint NOT NULL,
    role     text NOT NULL, -- that added them, as the database knows it
    seal     text NOT NULL,
    next_id  bigint
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);
CREATE UNIQUE INDEX IF NOT EXISTS ledger_seal_end ON defib.ledger_seal ((true))
    WHERE next_id IS NULL;

-- The text of an entry that is hashed. Numbers and lengths come before the texts, and
-- JSON has no line breaks, so that no two entries have the same text. The function qualifies every
-- name with its schema and sets nothing, so that it is inlined into the calling statement: a call
-- for each entry would cost more than the hash. A new column is appended at the end, and only if it
-- is not null, so that older entries keep their seal.
CREATE OR REPLACE FUNCTION defib.ledger_line(id bigint, at timestamptz, batch text, watch text,
    job text, event text, actor text, verdict text, rule text, reason text, evidence jsonb,
    before jsonb, after jsonb, epoch bigint) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.concat_ws(E'\n', $1,
        (pg_catalog.date_part('epoch', $2) OPERATOR(pg_catalog.*) 1000000)::bigint,
        pg_catalog.length($3), pg_catalog.length($4), pg_catalog.length($5),
        pg_catalog.length($6), pg_catalog.length($7),
        coalesce(pg_catalog.length($8), -1), coalesce(pg_catalog.length($9), -1),
        coalesce(pg_catalog.length($10), -1), coalesce($14::pg_catalog.text, '-'),
        $3, $4, $5, $6, $7, $8, $9, $10, coalesce($11::pg_catalog.text, '-'),
        coalesce($12::pg_catalog.text, '-'), coalesce($13::pg_catalog.text, '-'))
$$;

-- Runs with its owner's privileges, because no other role may write seals; so it only works on the
-- ledger, even if it is attached to another table.
CREATE OR REPLACE FUNCTION defib.ledger_seal_added() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    low bigint;
    high bigint;
    n bigint;
    texts text;
    ending defib.ledger_seal;
BEGIN
    IF TG_RELID <> 'defib.ledger'::regclass OR TG_OP <> 'INSERT' THEN
        RAISE EXCEPTION 'defib.ledger_seal_added() seals defib.ledger and nothing else';
    END IF;
    SELECT min(a.id), max(a.id), count(*), string_agg(defib.ledger_line(a.id, a.at, a.batch,
               a.watch, a.job, a.event, a.actor, a.verdict, a.rule, a.reason, a.evidence, a.before,
               a.after, a.epoch), E'\n' ORDER BY a.id)
    INTO low, high, n, texts FROM added a;
    IF n = 0 THEN
        RETURN NULL;
    END IF;
    PERFORM true FROM defib.ledger_order FOR UPDATE;
    -- A transaction with an older snapshot than this end fails here (40001), and no chain forks.
    UPDATE defib.ledger_seal s SET next_id = high WHERE s.next_id IS NULL RETURNING * INTO ending;
    -- An id from nowhere would keep everybody else from adding; only the owner may skip some.
    IF ending.last_id IS NULL OR low <= ending.last_id
       OR (high > (SELECT q.last_value FROM defib.ledger_id q)
           AND NOT pg_has_role(session_user, current_user, 'USAGE')) THEN
        RAISE EXCEPTION 'ids of defib.ledger come from defib.ledger_id, each above the last one '
            '(%): % to % is refused', ending.last_id, low, high
            USING ERRCODE = 'DFB02',
                  HINT = 'SELECT setval(''defib.ledger_id'', (SELECT max(last_id) FROM '
                         || 'defib.ledger_seal));';
    END IF;
    INSERT INTO defib.ledger_seal (last_id, first_id, entries, role, seal)
    VALUES (high, low, n, session_user, encode(sha256(convert_to(
            ending.seal || E'\n' || session_user || E'\n' || texts, 'UTF8')), 'hex'));
    RETURN NULL;
END $$;

-- The ledger only grows. Entries may be deleted only up to the anchor, which marks them as pruned,
-- and only defib.ledger_prune() moves the anchor.
CREATE OR REPLACE FUNCTION defib.ledger_append_only() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'defib.ledger is append-only: % is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Old entries are removed by: defib ledger prune --older-than 90d';
END $$;

CREATE OR REPLACE FUNCTION defib.ledger_deleted() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM removed r
               WHERE r.id > coalesce((SELECT min(s.last_id) FROM defib.ledger_seal s), 0)) THEN
        RAISE EXCEPTION 'defib.ledger is append-only: % is refused', TG_OP
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Old entries are removed by: defib ledger prune --older-than 90d';
    END IF;
    RETURN NULL;
END $$;

-- Only the owner's functions write seals, whatever was granted.
CREATE OR REPLACE FUNCTION defib.ledger_seal_kept() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' OR NOT pg_has_role(current_user, (
            SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'USAGE') THEN
        RAISE EXCEPTION 'seals of defib.ledger are written with its entries only: % is refused',
            TG_OP USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END $$;

-- Removes the oldest entries, at most `most` (but at least one statement's), if all of their
-- statement are older, and adds an entry about the removal. It may be executed by its owner, and by
-- roles to which the owner has granted it.
CREATE OR REPLACE FUNCTION defib.ledger_prune(
    older_than timestamptz, most bigint, by_batch text, by_actor text)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    anchor defib.ledger_seal;
    later defib.ledger_seal;
    low bigint;
    high bigint;
    n bigint := 0;
    told text := to_char(older_than AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
BEGIN
    PERFORM true FROM defib.ledger_order FOR UPDATE;
    SELECT s.* INTO anchor FROM defib.ledger_seal s ORDER BY s.last_id LIMIT 1;
    FOR later IN SELECT s.* FROM defib.ledger_seal s WHERE s.last_id > anchor.last_id
                ORDER BY s.last_id LOOP
        EXIT WHEN (n > 0 AND n + later.entries > most) OR EXISTS (
            SELECT 1 FROM defib.ledger l
            WHERE l.id BETWEEN later.first_id AND later.last_id AND l.at >= older_than);
        n := n + later.entries;
        high := later.last_id;
        anchor.seal := later.seal;
    END LOOP;
    DELETE FROM defib.ledger_seal s WHERE s.last_id < high;
    SELECT min(l.id) INTO low FROM defib.ledger l WHERE l.id <= high;
    DELETE FROM defib.ledger l WHERE l.id <= high;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        INSERT INTO defib.ledger (id, batch, watch, job, event, actor, reason, evidence)
        VALUES (nextval('defib.ledger_id'), by_batch, '', '', 'PRUNED', by_actor,
                format('%s %s older than %s %s removed', n,
                       CASE n WHEN 1 THEN 'entry' ELSE 'entries' END, told,
                       CASE n WHEN 1 THEN 'was' ELSE 'were' END),
                jsonb_build_object('count', n, 'cutoff', told, 'first_id', low, 'last_id', high,
                                   'seal', anchor.seal, 'role', session_user));
    END IF;
    RETURN n;
END $$;
REVOKE ALL ON FUNCTION defib.ledger_prune(timestamptz, bigint, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION defib.ledger_seal_added() FROM PUBLIC;
REVOKE ALL ON FUNCTION defib.ledger_seal_kept() FROM PUBLIC;

-- Created only if missing: creating a trigger locks the table against writers.
DO $$
BEGIN
    IF (SELECT count(*) FROM pg_trigger
            WHERE tgrelid IN ('defib.ledger'::regclass, 'defib.ledger_seal'::regclass)
              AND tgname IN ('ledger_no_change', 'ledger_no_delete', 'ledger_sealed',
                             'ledger_seal_kept')) < 4
    THEN
        DROP TRIGGER IF EXISTS ledger_no_change ON defib.ledger;
        DROP TRIGGER IF EXISTS ledger_no_delete ON defib.ledger;
        DROP TRIGGER IF EXISTS ledger_sealed ON defib.ledger;
        DROP TRIGGER IF EXISTS ledger_seal_kept ON defib.ledger_seal;
        CREATE TRIGGER ledger_no_change BEFORE UPDATE OR TRUNCATE ON defib.ledger
            FOR EACH STATEMENT EXECUTE FUNCTION defib.ledger_append_only();
        CREATE TRIGGER ledger_no_delete AFTER DELETE ON defib.ledger
            REFERENCING OLD TABLE AS removed
            FOR EACH STATEMENT EXECUTE FUNCTION defib.ledger_deleted();
        CREATE TRIGGER ledger_sealed AFTER INSERT ON defib.ledger
            REFERENCING NEW TABLE AS added
            FOR EACH STATEMENT EXECUTE FUNCTION defib.ledger_seal_added();
        CREATE TRIGGER ledger_seal_kept BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE
            ON defib.ledger_seal
            FOR EACH STATEMENT EXECUTE FUNCTION defib.ledger_seal_kept();
    END IF;
END $$;
-- Entries that exist before the first anchor have lost their seals: `defib ledger verify` says so.
INSERT INTO defib.ledger_seal (last_id, first_id, entries, role, seal)
SELECT coalesce(max(l.id), 0), 0, 0, session_user, encode(sha256(''), 'hex')
FROM defib.ledger l HAVING NOT EXISTS (SELECT 1 FROM defib.ledger_seal);

-- Scans leave a held job alone until it is released, or until its owner or sign of life changes. A
-- hold belongs to the row, for all watches on its table: table_key is "schema.table (key columns)".
-- A row with a verdict is an excuse: the job is not stuck by this verdict until what was judged
-- changes.
CREATE TABLE IF NOT EXISTS defib.hold (
    table_key text NOT NULL,
    watch    text NOT NULL,
    job      text NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    cause    text NOT NULL,
    reason   text,
    owner    text,
    sign_us  bigint,
    batch    text NOT NULL,
    -- of an excuse: the verdict that it covers, what was judged (sign_us is of this sign), by whom
    verdict  text,
    sign     text,
    state    text,
    progress text,
    attempts bigint,
    actor    text,
    PRIMARY KEY (table_key, job)
);

CREATE INDEX IF NOT EXISTS hold_of_watch ON defib.hold (watch, job);

-- A hold keeps scans from a row: only roles that may write rows of that table may add, change or
-- remove one. Holds of a table that was dropped may be removed.
CREATE OR REPLACE FUNCTION defib.hold_of_table() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held text;
    of_table regclass;
BEGIN
    FOREACH held IN ARRAY CASE TG_OP WHEN 'INSERT' THEN ARRAY[NEW.table_key]
                          WHEN 'DELETE' THEN ARRAY[OLD.table_key]
                          ELSE ARRAY[OLD.table_key, NEW.table_key] END LOOP
        of_table := to_regclass(substring(held FROM
            '^((?:"(?:[^"]|"")+"|[^".( ]+)(?:[.](?:"(?:[^"]|"")+"|[^".( ]+))?) [(]'));
        IF (of_table IS NOT NULL OR TG_OP <> 'DELETE')
           AND has_any_column_privilege(of_table, 'UPDATE') IS NOT TRUE THEN
            RAISE EXCEPTION 'role % may not write %, and so holds none of its rows', current_user,
                held USING ERRCODE = 'insufficient_privilege';
        END IF;
    END LOOP;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = 'defib.hold'::regclass
            AND tgname = 'hold_of_table') THEN
        CREATE TRIGGER hold_of_table BEFORE INSERT OR UPDATE OR DELETE ON defib.hold
            FOR EACH ROW EXECUTE FUNCTION defib.hold_of_table();
    END IF;
END $$;

-- Rows that make a program act name the role that wrote them, as the database knows it: the program
-- checks that this role could do the same itself.
CREATE OR REPLACE FUNCTION defib.ordered_by() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.role := session_user;
    RETURN NEW;
END $$;

-- A retry that waits: the job is made available again when it is due.
CREATE TABLE IF NOT EXISTS defib.retry (
    watch    text NOT NULL,
    job      text NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at   timestamptz NOT NULL,
    attempt  bigint NOT NULL,
    reason   text,
    expected jsonb,
    batch    text NOT NULL,
    role     text, -- that recorded it
    PRIMARY KEY (watch, job)
);

CREATE INDEX IF NOT EXISTS retry_due ON defib.retry (watch, due_at);

-- Since when a job shows the same progress, or is in the same state, where its own table does not
-- say it. A row is written when the value changes; the row of job '' says when all jobs of the
-- watch were last looked at, and its value how long after the look before.
CREATE TABLE IF NOT EXISTS defib.seen (
    watch    text NOT NULL,
    job      text NOT NULL,
    what     text NOT NULL, -- progress, state; look
    value    text NOT NULL,
    run      text NOT NULL, -- which run of the job had it
    since_us bigint NOT NULL, -- since 1970
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (watch, job, what)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);

CREATE INDEX IF NOT EXISTS seen_at ON defib.seen (at);

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = 'defib.retry'::regclass
            AND tgname = 'ordered_by') THEN
        CREATE TRIGGER ordered_by BEFORE INSERT OR UPDATE ON defib.retry
            FOR EACH ROW EXECUTE FUNCTION defib.ordered_by();
    END IF;
END $$;
