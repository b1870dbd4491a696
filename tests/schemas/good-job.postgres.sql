-- GoodJob's tables of version 4, from facts: naive UTC times, rows or advisory locks as locks.
CREATE TABLE good_jobs (
	id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	queue_name text,
	priority integer,
	serialized_params jsonb,
	scheduled_at timestamp(6),
	performed_at timestamp(6),
	finished_at timestamp(6),
	error text,
	created_at timestamp(6) NOT NULL,
	updated_at timestamp(6) NOT NULL,
	active_job_id uuid,
	concurrency_key text,
	cron_key text,
	retried_good_job_id uuid,
	cron_at timestamp(6),
	batch_id uuid,
	batch_callback_id uuid,
	is_discrete boolean,
	executions_count integer,
	job_class text,
	error_event smallint,
	labels text[],
	locked_by_id uuid,
	locked_at timestamp(6),
	lock_type smallint
);
CREATE INDEX ON good_jobs (active_job_id, created_at);
CREATE INDEX ON good_jobs (locked_by_id) WHERE locked_by_id IS NOT NULL;
CREATE INDEX ON good_jobs (priority, scheduled_at, id)
	WHERE finished_at IS NULL AND locked_by_id IS NULL;
CREATE UNIQUE INDEX ON good_jobs (cron_key, cron_at) WHERE cron_key IS NOT NULL;

CREATE TABLE good_job_executions (
	id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	created_at timestamp(6) NOT NULL,
	updated_at timestamp(6) NOT NULL,
	active_job_id uuid NOT NULL,
	job_class text,
	queue_name text,
	serialized_params jsonb,
	scheduled_at timestamp(6),
	finished_at timestamp(6),
	error text,
	error_event smallint,
	error_backtrace text[],
	process_id uuid,
	duration interval
);
CREATE INDEX ON good_job_executions (active_job_id, created_at);

CREATE TABLE good_job_processes (
	id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	created_at timestamp(6) NOT NULL,
	updated_at timestamp(6) NOT NULL,
	state jsonb,
	lock_type smallint
);
