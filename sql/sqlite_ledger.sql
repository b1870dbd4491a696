-- defib's own tables in an SQLite database: the ledger, holds, and retries that wait.
-- Runs as it is in sqlite3; running it again changes nothing.
CREATE TABLE IF NOT EXISTS defib_meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO defib_meta VALUES ('version', '1') ON CONFLICT DO NOTHING;
-- Drawn once: what was recorded elsewhere for this database (a spool, the position of a client in
-- the ledger) names it, because numbers begin at 1 in every database.
INSERT INTO defib_meta VALUES ('database', lower(hex(randomblob(16)))) ON CONFLICT DO NOTHING;

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
-- Mistakes are counted from these, which are few.
CREATE INDEX IF NOT EXISTS defib_ledger_late ON defib_ledger (watch, at)
    WHERE event = 'LATE_COMPLETION';
CREATE INDEX IF NOT EXISTS defib_ledger_batch ON defib_ledger (batch);

-- Entries are chained: those that one transaction adds are sealed by a hash over them and over the
-- previous seal, so that `defib ledger verify` finds what was changed or removed since. See
-- postgres_ledger.sql; here defib itself writes the seals (src/ledger/seal.c).
CREATE TABLE IF NOT EXISTS defib_ledger_seal (
    last_id  INTEGER PRIMARY KEY,
    first_id INTEGER NOT NULL,
    entries  INTEGER NOT NULL,
    role     TEXT NOT NULL,
    seal     TEXT NOT NULL,
    next_id  INTEGER
);
CREATE UNIQUE INDEX IF NOT EXISTS defib_ledger_seal_end ON defib_ledger_seal (next_id IS NULL)
    WHERE next_id IS NULL;
-- Entries that exist before the first anchor have lost their seals: `defib ledger verify` says so.
INSERT INTO defib_ledger_seal (last_id, first_id, entries, role, seal)
SELECT coalesce((SELECT max(id) FROM defib_ledger), 0), 0, 0, '',
       'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
WHERE NOT EXISTS (SELECT 1 FROM defib_ledger_seal);

-- The ledger only grows. Entries may be deleted only up to the anchor, the first seal, which marks
-- them as pruned.
CREATE TRIGGER IF NOT EXISTS defib_ledger_no_update BEFORE UPDATE ON defib_ledger
BEGIN
    SELECT RAISE(ABORT, 'defib_ledger is append-only: UPDATE is refused');
END;

CREATE TRIGGER IF NOT EXISTS defib_ledger_kept BEFORE DELETE ON defib_ledger
WHEN OLD.id > coalesce((SELECT min(last_id) FROM defib_ledger_seal), 0)
BEGIN
    SELECT RAISE(ABORT, 'defib_ledger is append-only: DELETE is refused (see defib ledger prune)');
END;

CREATE TABLE IF NOT EXISTS defib_hold (
    table_key TEXT NOT NULL,
    watch    TEXT NOT NULL,
    job      TEXT NOT NULL,
    at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    cause    TEXT NOT NULL,
    reason   TEXT,
    owner    TEXT,
    sign_us  INTEGER,
    batch    TEXT NOT NULL,
    -- of an excuse: the verdict that it covers, what was judged (sign_us is of this sign), by whom
    verdict  TEXT,
    sign     TEXT,
    state    TEXT,
    progress TEXT,
    attempts INTEGER,
    actor    TEXT,
    PRIMARY KEY (table_key, job)
);

CREATE INDEX IF NOT EXISTS defib_hold_of_watch ON defib_hold (watch, job);

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
    role     TEXT, -- SQLite has none
    PRIMARY KEY (watch, job)
);

CREATE INDEX IF NOT EXISTS defib_retry_due ON defib_retry (watch, due_at);

-- Since when a job shows the same progress, or is in the same state, where its own table does not
-- say it. A row is written when the value changes; the row of job '' says when all jobs of the
-- watch were last looked at, and its value how long after the look before.
CREATE TABLE IF NOT EXISTS defib_seen (
    watch    TEXT NOT NULL,
    job      TEXT NOT NULL,
    what     TEXT NOT NULL, -- progress, state; look
    value    TEXT NOT NULL,
    run      TEXT NOT NULL, -- which run of the job had it
    since_us INTEGER NOT NULL, -- since 1970
    at       INTEGER NOT NULL,
    PRIMARY KEY (watch, job, what)
);

CREATE INDEX IF NOT EXISTS defib_seen_at ON defib_seen (at);
