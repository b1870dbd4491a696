-- Ruvon's workflows. While a step runs, its worker beats into workflow_heartbeats.
CREATE TABLE workflow_executions (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    workflow_type text NOT NULL,
    status        text NOT NULL DEFAULT 'ACTIVE',
    current_step  text,
    state         jsonb NOT NULL DEFAULT '{}',
    metadata      jsonb NOT NULL DEFAULT '{}',
    updated_at    timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE workflow_heartbeats (
    workflow_id     uuid PRIMARY KEY REFERENCES workflow_executions (id) ON DELETE CASCADE,
    worker_id       varchar(100) NOT NULL,
    last_heartbeat  timestamptz NOT NULL DEFAULT now(),
    current_step    varchar(200),
    step_started_at timestamptz,
    metadata        jsonb DEFAULT '{}'
);

CREATE TABLE workflow_audit_log (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow_id uuid NOT NULL REFERENCES workflow_executions (id) ON DELETE CASCADE,
    event_type  text NOT NULL,
    event_data  jsonb NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX idx_heartbeat_time ON workflow_heartbeats (last_heartbeat ASC);
CREATE INDEX idx_pending_async ON workflow_executions (id) WHERE status = 'PENDING_ASYNC';
