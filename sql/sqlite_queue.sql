-- The built-in queue on SQLite: the same tables as on PostgreSQL; times are
-- milliseconds since 1970. Runs as it is in sqlite3; running it again changes nothing.
-- An id is a number followed by nine random digits (life/registry.c), as on PostgreSQL.
CREATE TABLE IF NOT EXISTS defib_worker (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT NOT NULL,
    incarnation TEXT NOT NULL UNIQUE,
    state       TEXT NOT NULL DEFAULT 'alive',
    started_at  INTEGER NOT NULL,
    renewed_at  INTEGER NOT NULL,
    lease_ms    INTEGER NOT NULL DEFAULT 15000,
    expires_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    cause       TEXT,
    holding     INTEGER NOT NULL DEFAULT 0,
    serves      TEXT,
    info        TEXT,
    secret      TEXT
);
CREATE INDEX IF NOT EXISTS defib_worker_alive ON defib_worker (id) WHERE state = 'alive';

CREATE TABLE IF NOT EXISTS defib_job (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch        INTEGER NOT NULL DEFAULT 0,
    owner        INTEGER,
    created_at   INTEGER NOT NULL,
    run_at       INTEGER NOT NULL,
    claimed_at   INTEGER,
    finished_at  INTEGER,
    attempts     INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL DEFAULT 5,
    crashes      INTEGER NOT NULL DEFAULT 0,
    timeout_ms   INTEGER,
    priority     INTEGER NOT NULL DEFAULT 0,
    state        TEXT NOT NULL DEFAULT 'queued',
    queue        TEXT NOT NULL,
    kind         TEXT NOT NULL,
    unique_key   TEXT,
    cause        TEXT,
    error        TEXT,
    saga         INTEGER NOT NULL DEFAULT 0,
    undoing      INTEGER NOT NULL DEFAULT 0,
    -- Not IN: SQLite makes a table of such a list for every row that is checked.
    CHECK (state = 'queued' OR state = 'running' OR state = 'done' OR state = 'scheduled' OR
           state = 'cancelling' OR state = 'failed' OR state = 'timed_out' OR
           state = 'cancelled' OR state = 'held' OR state = 'rolled_back'),
    CHECK ((owner IS NOT NULL) = (state IN ('running', 'cancelling')))
);
CREATE INDEX IF NOT EXISTS defib_job_ready ON defib_job (queue, priority DESC, id)
    WHERE state = 'queued';
CREATE INDEX IF NOT EXISTS defib_job_due ON defib_job (run_at) WHERE state = 'scheduled';
CREATE INDEX IF NOT EXISTS defib_job_owner ON defib_job (owner) WHERE owner IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS defib_job_unique ON defib_job (queue, unique_key)
    WHERE unique_key IS NOT NULL AND
          (state = 'scheduled' OR state = 'queued' OR state = 'running' OR state = 'cancelling');
-- Jobs are searched and counted by state.
CREATE INDEX IF NOT EXISTS defib_job_state ON defib_job (state);

CREATE TABLE IF NOT EXISTS defib_job_data (
    job     INTEGER PRIMARY KEY,
    payload TEXT,
    result  TEXT,
    tags    TEXT
);

CREATE TABLE IF NOT EXISTS defib_enqueued (
    token TEXT NOT NULL PRIMARY KEY,
    jobs  TEXT NOT NULL DEFAULT '[]',
    at    INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS defib_enqueued_at ON defib_enqueued (at);

CREATE TABLE IF NOT EXISTS defib_progress (
    job      INTEGER PRIMARY KEY,
    epoch    INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    step     TEXT,
    progress TEXT
);

CREATE TABLE IF NOT EXISTS defib_step (
    watch       TEXT NOT NULL,
    job         TEXT NOT NULL,
    step        TEXT NOT NULL,
    position    INTEGER NOT NULL,
    state       TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    output      TEXT,
    error       TEXT,
    started_at  INTEGER,
    finished_at INTEGER NOT NULL,
    attempt     INTEGER,
    worker      TEXT,
    PRIMARY KEY (watch, job, step),
    CHECK (state = 'done' OR state = 'undone' OR state = 'undo_failed' OR state = 'again')
);

CREATE TABLE IF NOT EXISTS defib_step_attempt (
    watch       TEXT NOT NULL,
    job         TEXT NOT NULL,
    step        TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    attempt     INTEGER,
    undo        INTEGER NOT NULL DEFAULT 0,
    worker      TEXT,
    outcome     TEXT NOT NULL,
    error       TEXT,
    started_at  INTEGER,
    ended_at    INTEGER NOT NULL,
    PRIMARY KEY (watch, job, step, epoch)
);

CREATE TABLE IF NOT EXISTS defib_lease (
    watch      TEXT NOT NULL,
    job        TEXT NOT NULL,
    epoch      INTEGER NOT NULL DEFAULT 1,
    owner      INTEGER,
    claimed_at INTEGER NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0,
    run_at     INTEGER,
    settled_by INTEGER,
    settled_epoch INTEGER,
    by_beat    INTEGER NOT NULL DEFAULT 0, -- of an instance's own code, by its heartbeats
    PRIMARY KEY (watch, job)
);
CREATE INDEX IF NOT EXISTS defib_lease_owner ON defib_lease (owner) WHERE owner IS NOT NULL;

-- Ended jobs by age: a step of retention reads only what it removes.
CREATE INDEX IF NOT EXISTS defib_job_done_at ON defib_job (finished_at) WHERE state = 'done';
CREATE INDEX IF NOT EXISTS defib_job_failed_at ON defib_job (finished_at)
    WHERE state = 'failed' OR state = 'timed_out' OR state = 'cancelled' OR state = 'rolled_back';
CREATE INDEX IF NOT EXISTS defib_worker_ended_at ON defib_worker (ended_at) WHERE state <> 'alive';
CREATE INDEX IF NOT EXISTS defib_lease_free_at ON defib_lease (claimed_at) WHERE owner IS NULL;
CREATE INDEX IF NOT EXISTS defib_step_at ON defib_step (finished_at) WHERE watch <> 'queue';
CREATE INDEX IF NOT EXISTS defib_step_attempt_at ON defib_step_attempt (ended_at)
    WHERE watch <> 'queue';
