-- delayed_job (Ruby): a lock says who has a job; one that failed for good keeps its lock.
CREATE TABLE delayed_jobs (
	id bigserial PRIMARY KEY,
	priority integer NOT NULL DEFAULT 0,
	attempts integer NOT NULL DEFAULT 0,
	handler text NOT NULL,
	last_error text,
	run_at timestamp(6),
	locked_at timestamp(6),
	failed_at timestamp(6),
	locked_by varchar,
	queue varchar,
	created_at timestamp(6) NOT NULL,
	updated_at timestamp(6) NOT NULL
);
INSERT INTO delayed_jobs (handler, run_at, created_at, updated_at)
SELECT '--- !ruby/object:Mail', now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC'
FROM generate_series(1, 12);
INSERT INTO delayed_jobs (attempts, handler, last_error, run_at, locked_at, failed_at, locked_by, created_at, updated_at)
SELECT a.attempts, '--- !ruby/object:Mail', a.error, a.at, a.locked, a.failed, a.worker, a.at, a.at
FROM (VALUES
	(0, NULL, now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC' - interval '30 seconds', NULL::timestamp, 'delayed_job.1 host:a pid:10'),
	(0, NULL, now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC' - interval '11 hours', NULL, 'delayed_job.2 host:b pid:11'),
	(25, 'Net::ReadTimeout', now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC' - interval '3 days', now() AT TIME ZONE 'UTC' - interval '3 days', 'delayed_job.1 host:a pid:9')
) a (attempts, error, at, locked, failed, worker);
