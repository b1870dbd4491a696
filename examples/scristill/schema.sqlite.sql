-- Scristill's queue: three kinds of jobs in one table.
CREATE TABLE projects (
    id   TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(16)))),
    name TEXT NOT NULL
);

CREATE TABLE jobs (
    id           TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(16)))),
    project_id   TEXT NOT NULL REFERENCES projects (id),
    type         TEXT NOT NULL CHECK (type IN ('scrape', 'crawl', 'extract')),
    status       TEXT NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'running', 'cancelling', 'completed', 'failed', 'cancelled')),
    payload      TEXT NOT NULL DEFAULT '{}',
    error        TEXT,
    created_at   TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at   TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    completed_at TEXT
);
