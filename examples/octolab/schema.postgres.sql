-- OctoLab's labs. `error` and `origin` are additions: why a teardown failed, and who asked for it.
CREATE TABLE labs (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    owner_id    uuid NOT NULL,
    status      text NOT NULL DEFAULT 'running'
        CHECK (status IN ('running', 'ending', 'finished', 'failed')),
    origin      text NOT NULL DEFAULT 'user' CHECK (origin IN ('user', 'cleanup')),
    error       text,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz
);

-- What a scan reads, and nothing else.
CREATE INDEX labs_ending ON labs (updated_at, id) WHERE status = 'ending';
