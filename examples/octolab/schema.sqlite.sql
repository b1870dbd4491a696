-- OctoLab's labs. `error` and `origin` are additions: why a teardown failed, and who asked for it.
CREATE TABLE labs (
    id          TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(16)))),
    owner_id    TEXT NOT NULL,
    status      TEXT NOT NULL DEFAULT 'running'
        CHECK (status IN ('running', 'ending', 'finished', 'failed')),
    origin      TEXT NOT NULL DEFAULT 'user' CHECK (origin IN ('user', 'cleanup')),
    error       TEXT,
    updated_at  TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    finished_at TEXT
);
