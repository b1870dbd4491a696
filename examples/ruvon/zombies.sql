-- Three workflows that wait. The worker of the first two was killed in the middle of a step and
-- beats no more; nobody has started on the third, so it is no zombie. For PostgreSQL and SQLite.
INSERT INTO workflow_executions (id, workflow_type, status, current_step, metadata) VALUES
    ('550e8400-e29b-41d4-a716-446655440000', 'Order', 'PENDING_ASYNC', 'Process_Payment', '{}'),
    ('550e8400-e29b-41d4-a716-446655440001', 'Order', 'PENDING_ASYNC', 'Process_Payment',
     '{"saga_enabled": true}'),
    ('550e8400-e29b-41d4-a716-446655440002', 'Order', 'PENDING_ASYNC', 'Process_Payment', '{}');

INSERT INTO workflow_heartbeats (workflow_id, worker_id, last_heartbeat, current_step, step_started_at)
SELECT id, 'celery@worker1', '2024-02-13 10:15:45', 'Process_Payment', '2024-02-13 10:15:30'
FROM workflow_executions WHERE id <> '550e8400-e29b-41d4-a716-446655440002';
