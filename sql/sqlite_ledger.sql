-- What defib keeps of its own in an SQLite database: the ledger, the holds and
-- the retries that wait for their time.
-- Runs as it is in sqlite3; running it again changes nothing.
CREATE TABLE IF NOT EXISTS defib_ledger (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    batch    TEXT NOT NULL,
    watch    TEXT NOT NULL,
    job      TEXT NOT NULL,
    event    TEXT NOT NULL,
    actor    TEXT NOT NULL,
    verdict  TEXT,
    rule     TEXT,
    reason   TEXT,
    evidence TEXT,
    before   TEXT,
    after    TEXT,
    epoch    INTEGER
);

CREATE INDEX IF NOT EXISTS defib_ledger_job ON defib_ledger (watch, job, id);
-- For reports and counts of a period.
CREATE INDEX IF NOT EXISTS defib_ledger_watch_at ON defib_ledger (watch, at);
CREATE INDEX IF NOT EXISTS defib_ledger_batch ON defib_ledger (batch);

-- The ledger only grows. The retention command has a row here within its own
-- transaction, and only then may entries be deleted.
CREATE TABLE IF NOT EXISTS defib_retention (opened INTEGER PRIMARY KEY);

CREATE TRIGGER IF NOT EXISTS defib_ledger_no_update BEFORE UPDATE ON defib_ledger
BEGIN
    SELECT RAISE(ABORT, 'defib_ledger is append-only: UPDATE is refused');
END;

CREATE TRIGGER IF NOT EXISTS defib_ledger_no_delete BEFORE DELETE ON defib_ledger
WHEN NOT EXISTS (SELECT 1 FROM defib_retention)
BEGIN
    SELECT RAISE(ABORT, 'defib_ledger is append-only: DELETE is refused (see defib ledger prune)');
END;

CREATE TABLE IF NOT EXISTS defib_hold (
    watch    TEXT NOT NULL,
    job      TEXT NOT NULL,
    at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    cause    TEXT NOT NULL,
    reason   TEXT,
    owner    TEXT,
    sign_us  INTEGER,
    batch    TEXT NOT NULL,
    PRIMARY KEY (watch, job)
);

-- A retry that waits; due_at is in milliseconds since 1970.
CREATE TABLE IF NOT EXISTS defib_retry (
    watch    TEXT NOT NULL,
    job      TEXT NOT NULL,
    at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    due_at   INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    reason   TEXT,
    expected TEXT,
    batch    TEXT NOT NULL,
    PRIMARY KEY (watch, job)
);

CREATE INDEX IF NOT EXISTS defib_retry_due ON defib_retry (watch, due_at);
