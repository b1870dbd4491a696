-- absurd (SQL and Python): a table of runs for each queue, whose claims expire; tasks beside it.
CREATE SCHEMA absurd;
CREATE TABLE absurd.t_default (
	task_id uuid PRIMARY KEY,
	task_name text NOT NULL,
	params jsonb NOT NULL,
	enqueue_at timestamptz NOT NULL DEFAULT now(),
	first_started_at timestamptz,
	state text NOT NULL CHECK (state IN ('pending', 'running', 'sleeping', 'completed', 'failed', 'cancelled')),
	attempts integer NOT NULL DEFAULT 0,
	max_attempts integer,
	last_attempt_run uuid,
	completed_payload jsonb,
	cancelled_at timestamptz
);
CREATE TABLE absurd.r_default (
	run_id uuid PRIMARY KEY,
	task_id uuid NOT NULL,
	attempt integer NOT NULL,
	state text NOT NULL CHECK (state IN ('pending', 'running', 'sleeping', 'completed', 'failed', 'cancelled')),
	claimed_by text,
	claim_expires_at timestamptz,
	available_at timestamptz NOT NULL,
	wake_event text,
	event_payload jsonb,
	started_at timestamptz,
	completed_at timestamptz,
	failed_at timestamptz,
	result jsonb,
	failure_reason jsonb,
	created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO absurd.r_default (run_id, task_id, attempt, state, available_at, started_at, completed_at, claimed_by)
SELECT gen_random_uuid(), gen_random_uuid(), 1, 'completed', now() - i * interval '1 hour', now() - i * interval '1 hour', now() - i * interval '1 hour' + interval '3 seconds', 'w1'
FROM generate_series(1, 30) i;
INSERT INTO absurd.r_default (run_id, task_id, attempt, state, available_at, started_at, failed_at)
VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'failed', now(), now() - interval '1 hour', now());
INSERT INTO absurd.r_default (run_id, task_id, attempt, state, available_at)
SELECT gen_random_uuid(), gen_random_uuid(), 1, 'pending', now() FROM generate_series(1, 6);
INSERT INTO absurd.r_default (run_id, task_id, attempt, state, claimed_by, claim_expires_at, available_at, started_at)
VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'running', 'w1', now() + interval '25 seconds', now(), now()),
	(gen_random_uuid(), gen_random_uuid(), 2, 'running', 'w2', now() - interval '2 hours', now(), now() - interval '3 hours');
INSERT INTO absurd.t_default (task_id, task_name, params, state, attempts, first_started_at)
SELECT task_id, 'mail', '{}', state, attempt, started_at FROM absurd.r_default;
