-- django-tasks, database backend.
CREATE TABLE django_tasks_database_dbtaskresult (
	id uuid PRIMARY KEY,
	status varchar(10) NOT NULL,
	enqueued_at timestamptz NOT NULL,
	started_at timestamptz,
	finished_at timestamptz,
	args_kwargs jsonb NOT NULL,
	priority integer NOT NULL,
	task_path text NOT NULL,
	queue_name varchar(32) NOT NULL,
	backend_name varchar(32) NOT NULL,
	run_after timestamptz NOT NULL,
	return_value jsonb,
	exception_class_path text NOT NULL,
	traceback text NOT NULL,
	worker_ids jsonb NOT NULL DEFAULT '[]'
);
INSERT INTO django_tasks_database_dbtaskresult
SELECT gen_random_uuid(), CASE i % 11 WHEN 0 THEN 'FAILED' ELSE 'SUCCESSFUL' END, now() - i * interval '1 hour', now() - i * interval '1 hour',
	now() - i * interval '1 hour' + interval '2 seconds', '{}', 0, 'app.tasks.mail', 'default', 'default', now(), NULL, '', '', '["w1"]'
FROM generate_series(1, 33) i;
INSERT INTO django_tasks_database_dbtaskresult
SELECT gen_random_uuid(), 'READY', now(), NULL, NULL, '{}', 0, 'app.tasks.mail', 'default', 'default', now(), NULL, '', '', '[]'
FROM generate_series(1, 7);
INSERT INTO django_tasks_database_dbtaskresult VALUES
	(gen_random_uuid(), 'RUNNING', now(), now() - interval '3 seconds', NULL, '{}', 0, 'app.tasks.mail', 'default', 'default', now(), NULL, '', '', '["w1"]'),
	(gen_random_uuid(), 'RUNNING', now(), now() - interval '9 hours', NULL, '{}', 0, 'app.tasks.mail', 'default', 'default', now(), NULL, '', '', '["w2"]');
