-- What daemons keep in an SQLite database: who leads a watch, what persons have told the
-- daemons, how they are, and what was learnt of run times. Times are milliseconds since 1970.
-- Runs as it is in sqlite3; running it again changes nothing.
CREATE TABLE IF NOT EXISTS defib_leader (
    watch      TEXT PRIMARY KEY,
    holder     TEXT NOT NULL,
    epoch      INTEGER NOT NULL DEFAULT 1,
    since      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS defib_setting (
    watch  TEXT NOT NULL,
    name   TEXT NOT NULL, -- pause, raise
    value  TEXT NOT NULL,
    actor  TEXT NOT NULL,
    reason TEXT,
    at     INTEGER NOT NULL,
    until  INTEGER,
    PRIMARY KEY (watch, name)
);

CREATE TABLE IF NOT EXISTS defib_status (
    watch  TEXT PRIMARY KEY,
    at     INTEGER NOT NULL,
    holder TEXT NOT NULL,
    info   TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS defib_learned (
    watch   TEXT NOT NULL,
    kind    TEXT NOT NULL,
    at      INTEGER NOT NULL,
    buckets TEXT NOT NULL,
    PRIMARY KEY (watch, kind)
);
