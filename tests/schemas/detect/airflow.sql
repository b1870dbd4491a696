-- Apache Airflow 3: a task instance beats into its own row while it runs.
CREATE TABLE dag_run (
	id serial PRIMARY KEY,
	dag_id varchar(250) NOT NULL,
	run_id varchar(250) NOT NULL,
	state varchar(50),
	queued_at timestamptz,
	start_date timestamptz,
	end_date timestamptz,
	updated_at timestamptz,
	UNIQUE (dag_id, run_id)
);
CREATE TABLE task_instance (
	id uuid PRIMARY KEY,
	task_id varchar(250) NOT NULL,
	dag_id varchar(250) NOT NULL,
	run_id varchar(250) NOT NULL,
	map_index integer NOT NULL DEFAULT -1,
	start_date timestamptz,
	end_date timestamptz,
	duration double precision,
	state varchar(20),
	try_number integer,
	max_tries integer DEFAULT -1,
	hostname varchar(1000),
	unixname varchar(1000),
	pool varchar(256) NOT NULL,
	queue varchar(256),
	priority_weight integer,
	operator varchar(1000),
	queued_dttm timestamptz,
	scheduled_dttm timestamptz,
	queued_by_job_id integer,
	last_heartbeat_at timestamptz,
	pid integer,
	executor varchar(1000),
	updated_at timestamptz,
	UNIQUE (dag_id, task_id, run_id, map_index)
);
INSERT INTO dag_run (dag_id, run_id, state, queued_at, start_date, end_date, updated_at)
SELECT 'etl', 'r' || i, CASE i WHEN 1 THEN 'running' ELSE 'success' END, now() - i * interval '1 day', now() - i * interval '1 day',
	CASE i WHEN 1 THEN NULL ELSE now() - i * interval '1 day' + interval '1 hour' END, now() - i * interval '1 day'
FROM generate_series(1, 8) i;
INSERT INTO task_instance (id, task_id, dag_id, run_id, start_date, end_date, duration, state, try_number, max_tries, hostname, pool, queue, operator, updated_at, last_heartbeat_at)
SELECT gen_random_uuid(), 't' || i, 'etl', 'r2', now() - i * interval '1 hour', now() - i * interval '1 hour' + interval '5 minutes', 300,
	CASE i % 9 WHEN 0 THEN 'failed' ELSE 'success' END, 1, 2, 'host-a', 'default_pool', 'default', 'BashOperator', now() - i * interval '1 hour', now() - i * interval '1 hour'
FROM generate_series(1, 36) i;
INSERT INTO task_instance (id, task_id, dag_id, run_id, state, try_number, max_tries, pool, queue, operator, queued_dttm, updated_at)
VALUES (gen_random_uuid(), 'q1', 'etl', 'r1', 'queued', 0, 2, 'default_pool', 'default', 'BashOperator', now(), now()),
	(gen_random_uuid(), 's1', 'etl', 'r1', 'scheduled', 0, 2, 'default_pool', 'default', 'BashOperator', NULL, now()),
	(gen_random_uuid(), 'n1', 'etl', 'r1', NULL, 0, 2, 'default_pool', 'default', 'BashOperator', NULL, now());
INSERT INTO task_instance (id, task_id, dag_id, run_id, start_date, state, try_number, max_tries, hostname, pool, queue, operator, updated_at, last_heartbeat_at)
VALUES (gen_random_uuid(), 'alive', 'etl', 'r1', now() - interval '3 hours', 'running', 1, 2, 'host-a', 'default_pool', 'default', 'BashOperator', now() - interval '3 hours', now() - interval '4 seconds'),
	(gen_random_uuid(), 'dead', 'etl', 'r1', now() - interval '8 hours', 'running', 1, 2, 'host-b', 'default_pool', 'default', 'BashOperator', now() - interval '8 hours', now() - interval '8 hours');
