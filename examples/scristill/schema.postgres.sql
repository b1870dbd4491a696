-- Scristill's queue: three kinds of jobs in one table.
CREATE TABLE projects (
    id   uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name text NOT NULL
);

CREATE TABLE jobs (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    project_id   uuid NOT NULL REFERENCES projects (id),
    type         text NOT NULL CHECK (type IN ('scrape', 'crawl', 'extract')),
    status       text NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'running', 'cancelling', 'completed', 'failed', 'cancelled')),
    payload      jsonb NOT NULL DEFAULT '{}',
    error        text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    completed_at timestamptz
);

-- What a scan reads, and nothing else.
CREATE INDEX jobs_running ON jobs (updated_at, id) WHERE status IN ('running', 'cancelling');
