-- What daemons keep in a PostgreSQL database: who leads a watch, what persons have
-- told the daemons, how they are, and what was learnt of run times.
-- Runs as it is in psql; running it again changes nothing.

-- One leader a watch. A lease, not a session's lock: a daemon that is stopped with its
-- session open loses it too, and it works through a pooler.
CREATE TABLE IF NOT EXISTS defib.leader (
    watch      text PRIMARY KEY,
    holder     text NOT NULL,
    epoch      bigint NOT NULL DEFAULT 1,
    since      timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

-- A person's word to the daemons, until it is taken back or its time is over.
CREATE TABLE IF NOT EXISTS defib.setting (
    watch  text NOT NULL,
    name   text NOT NULL, -- pause, raise
    value  text NOT NULL,
    actor  text NOT NULL,
    reason text,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    until  timestamptz,
    PRIMARY KEY (watch, name)
);

-- How the leader of a watch is, for `defib status`.
CREATE TABLE IF NOT EXISTS defib.status (
    watch  text PRIMARY KEY,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    holder text NOT NULL,
    info   jsonb NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

-- Run times by kind, as a histogram of bounded size.
CREATE TABLE IF NOT EXISTS defib.learned (
    watch   text NOT NULL,
    kind    text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    buckets jsonb NOT NULL,
    PRIMARY KEY (watch, kind)
);
