-- DBOS Transact: PENDING is what an executor has, ENQUEUED what waits; times in milliseconds.
CREATE SCHEMA dbos;
CREATE TABLE dbos.workflow_status (
	workflow_uuid text PRIMARY KEY,
	status text,
	name text,
	authenticated_user text,
	output text,
	error text,
	executor_id text,
	created_at bigint NOT NULL DEFAULT (extract(epoch FROM now()) * 1000)::bigint,
	updated_at bigint NOT NULL DEFAULT (extract(epoch FROM now()) * 1000)::bigint,
	application_version text,
	recovery_attempts bigint DEFAULT 0,
	queue_name text,
	workflow_timeout_ms bigint,
	workflow_deadline_epoch_ms bigint,
	started_at_epoch_ms bigint,
	priority integer NOT NULL DEFAULT 0
);
CREATE FUNCTION pg_temp.ms(ago interval) RETURNS bigint LANGUAGE sql AS
	'SELECT (extract(epoch FROM now() - ago) * 1000)::bigint';
INSERT INTO dbos.workflow_status (workflow_uuid, status, name, executor_id, created_at, updated_at, recovery_attempts)
SELECT 'done-' || i, 'SUCCESS', 'checkout', 'ex-1', pg_temp.ms(i * interval '1 hour'), pg_temp.ms(i * interval '1 hour'), 1
FROM generate_series(1, 40) i;
INSERT INTO dbos.workflow_status (workflow_uuid, status, name, error, executor_id, recovery_attempts)
VALUES ('bad', 'ERROR', 'checkout', 'no stock', 'ex-1', 1),
	('never', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED', 'checkout', NULL, 'ex-2', 100);
INSERT INTO dbos.workflow_status (workflow_uuid, status, name, queue_name)
SELECT 'wait-' || i, 'ENQUEUED', 'checkout', 'orders' FROM generate_series(1, 5) i;
INSERT INTO dbos.workflow_status (workflow_uuid, status, name, executor_id, created_at, updated_at, started_at_epoch_ms, recovery_attempts)
VALUES ('alive', 'PENDING', 'checkout', 'ex-1', pg_temp.ms('20 s'), pg_temp.ms('10 s'), pg_temp.ms('10 s'), 1),
	('dead', 'PENDING', 'checkout', 'ex-2', pg_temp.ms('9 h'), pg_temp.ms('9 h'), pg_temp.ms('9 h'), 1);
