-- What defib keeps of its own in a PostgreSQL database: the ledger, the holds and
-- the retries that wait for their time.
-- Runs as it is in psql; running it again changes nothing.
CREATE SCHEMA IF NOT EXISTS defib;

-- Ids are drawn while a transaction-level advisory lock is held, as the last
-- statement of a transaction: whoever reads in the order of ids misses nothing.
CREATE SEQUENCE IF NOT EXISTS defib.ledger_id;

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

CREATE INDEX IF NOT EXISTS ledger_job ON defib.ledger (watch, job, id);
-- For reports and counts of a period.
CREATE INDEX IF NOT EXISTS ledger_watch_at ON defib.ledger (watch, at);
-- By bytes, so that the parts X.1, X.2 … of a scan X are a range in any collation.
CREATE INDEX IF NOT EXISTS ledger_batch_parts ON defib.ledger (batch text_pattern_ops);
DROP INDEX IF EXISTS defib.ledger_batch;

-- The ledger only grows. The retention command sets defib.retention for its own
-- transaction, and only then may entries be deleted.
CREATE OR REPLACE FUNCTION defib.ledger_append_only() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('defib.retention', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'defib.ledger is append-only: % is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Old entries are removed by: defib ledger prune --older-than 90d';
END $$;

-- Made only where they are missing: making a trigger locks the table against writers.
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_trigger
                   WHERE tgrelid = 'defib.ledger'::regclass AND tgname = 'ledger_no_truncate')
    THEN
        CREATE TRIGGER ledger_no_change BEFORE UPDATE OR DELETE ON defib.ledger
            FOR EACH ROW EXECUTE FUNCTION defib.ledger_append_only();
        CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON defib.ledger
            FOR EACH STATEMENT EXECUTE FUNCTION defib.ledger_append_only();
    END IF;
END $$;

-- A held job is left alone by automation until a person lets it go, or until
-- its owner or sign of life changes.
CREATE TABLE IF NOT EXISTS defib.hold (
    watch    text NOT NULL,
    job      text NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    cause    text NOT NULL,
    reason   text,
    owner    text,
    sign_us  bigint,
    batch    text NOT NULL,
    PRIMARY KEY (watch, job)
);

-- A retry that waits: the job is set to run again when it is due.
CREATE TABLE IF NOT EXISTS defib.retry (
    watch    text NOT NULL,
    job      text NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at   timestamptz NOT NULL,
    attempt  bigint NOT NULL,
    reason   text,
    expected jsonb,
    batch    text NOT NULL,
    PRIMARY KEY (watch, job)
);

CREATE INDEX IF NOT EXISTS retry_due ON defib.retry (watch, due_at);
