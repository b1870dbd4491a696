-- Ruvon's workflows. While a step runs, its worker beats into workflow_heartbeats.
CREATE TABLE workflow_executions (
    id            TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(16)))),
    workflow_type TEXT NOT NULL,
    status        TEXT NOT NULL DEFAULT 'ACTIVE',
    current_step  TEXT,
    state         TEXT NOT NULL DEFAULT '{}',
    metadata      TEXT NOT NULL DEFAULT '{}',
    updated_at    TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE TABLE workflow_heartbeats (
    workflow_id     TEXT PRIMARY KEY REFERENCES workflow_executions (id) ON DELETE CASCADE,
    worker_id       TEXT NOT NULL,
    last_heartbeat  TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    current_step    TEXT,
    step_started_at TEXT,
    metadata        TEXT DEFAULT '{}'
);

CREATE TABLE workflow_audit_log (
    id          INTEGER PRIMARY KEY,
    workflow_id TEXT NOT NULL REFERENCES workflow_executions (id) ON DELETE CASCADE,
    event_type  TEXT NOT NULL,
    event_data  TEXT NOT NULL DEFAULT '{}',
    created_at  TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE INDEX idx_heartbeat_time ON workflow_heartbeats (last_heartbeat ASC);
CREATE INDEX idx_pending_async ON workflow_executions (id) WHERE status = 'PENDING_ASYNC';
