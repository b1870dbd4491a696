-- db-scheduler (Java): a flag says that an execution was picked; workers beat while they run it.
CREATE TABLE scheduled_tasks (
	task_name text NOT NULL,
	task_instance text NOT NULL,
	task_data bytea,
	execution_time timestamptz NOT NULL,
	picked boolean NOT NULL,
	picked_by text,
	last_success timestamptz,
	last_failure timestamptz,
	consecutive_failures integer,
	last_heartbeat timestamptz,
	version bigint NOT NULL,
	priority smallint,
	PRIMARY KEY (task_name, task_instance)
);
INSERT INTO scheduled_tasks
SELECT 'send-mail', 'w' || i, NULL, now() + i * interval '1 minute', false, NULL, NULL, NULL, 0, NULL, 1, 0
FROM generate_series(1, 20) i;
INSERT INTO scheduled_tasks VALUES
	('send-mail', 'alive', NULL, now() - interval '1 minute', true, 'host-a', NULL, NULL, 0, now() - interval '5 seconds', 2, 0),
	('send-mail', 'dead', NULL, now() - interval '5 hours', true, 'host-b', NULL, now() - interval '6 hours', 1, now() - interval '5 hours', 4, 0);
