-- Tables of `defib attach` and `defib run` in a PostgreSQL database: which session claimed a
-- job, and to which program a session belongs.
-- Runs as it is in psql; running it again changes nothing.
CREATE SCHEMA IF NOT EXISTS defib;

-- One row per running job of an attached watch. The trigger on its table writes it, and deletes
-- it when the job stops running. `claim` distinguishes two claims of one job. The start of the
-- session is not stored: a session with this pid that began after `at` is another one.
CREATE TABLE IF NOT EXISTS defib.claimed_by (
    watch       text NOT NULL,
    job         text NOT NULL,
    claim       bigint GENERATED ALWAYS AS IDENTITY,
    application text NOT NULL,
    pid         integer NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (watch, job)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);

-- The jobs of a program are read in the order of its claims.
CREATE INDEX IF NOT EXISTS claimed_by_program ON defib.claimed_by (application, watch, claim);

-- One row per watch and program that runs under `defib run`, deleted when all its jobs are
-- recovered. Any process that finds that the program and its watcher have ended recovers them.
CREATE TABLE IF NOT EXISTS defib.program (
    application text NOT NULL,
    watch       text NOT NULL,
    watcher     text NOT NULL, -- the incarnation of `defib run`
    leader      text NOT NULL, -- and of the program
    command     text NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    ending      text,          -- how it ended, in words
    clean       boolean,       -- with exit status 0
    role        text NOT NULL DEFAULT session_user, -- that runs it
    PRIMARY KEY (application, watch)
);

-- Whoever recovers the jobs of an ended program checks that the role that ran it could do so itself.
-- No other role says that it has ended.
CREATE OR REPLACE FUNCTION defib.program_ordered() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.role <> session_user THEN
        RAISE EXCEPTION 'program % belongs to role %', OLD.application, OLD.role
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.role := session_user;
    RETURN NEW;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = 'defib.program'::regclass
            AND tgname = 'program_ordered') THEN
        CREATE TRIGGER program_ordered BEFORE INSERT OR UPDATE ON defib.program
            FOR EACH ROW EXECUTE FUNCTION defib.program_ordered();
    END IF;
END $$;
