-- What `defib attach` and `defib run` keep in a PostgreSQL database: which session took a
-- job, and which program the sessions belong to.
-- Runs as it is in psql; running it again changes nothing.
CREATE SCHEMA IF NOT EXISTS defib;

-- One row a running job of an attached watch, written by the trigger on its table and gone
-- when the job stops running. `claim` tells two claims of one job apart. When the session
-- began is not kept: one with this pid that began after `at` is another.
CREATE TABLE IF NOT EXISTS defib.claimed_by (
    watch       text NOT NULL,
    job         text NOT NULL,
    claim       bigint GENERATED ALWAYS AS IDENTITY,
    application text NOT NULL,
    pid         integer NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (watch, job)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);

-- What a program has is read in the order of its claims.
CREATE INDEX IF NOT EXISTS claimed_by_program ON defib.claimed_by (application, watch, claim);
DROP INDEX IF EXISTS defib.claimed_by_application;

-- One row a watch and a program that runs under `defib run`, gone when all it had is freed.
-- Whoever finds the program and its watcher gone frees what it had.
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
    PRIMARY KEY (application, watch)
);
