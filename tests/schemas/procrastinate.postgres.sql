-- Procrastinate's tables, triggers and functions of version 3.4, from facts: only what its workers
-- and a rescue use. Workers beat in a table of their own; every change of status leaves an event.
CREATE TYPE procrastinate_job_status AS ENUM ('todo', 'doing', 'succeeded', 'failed', 'cancelled',
	'aborting', 'aborted');
CREATE TYPE procrastinate_job_event_type AS ENUM ('deferred', 'started', 'deferred_for_retry',
	'failed', 'succeeded', 'cancelled', 'abort_requested', 'aborted', 'scheduled', 'retried');

CREATE TABLE procrastinate_workers (
	id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	last_heartbeat timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE procrastinate_jobs (
	id bigserial PRIMARY KEY,
	queue_name varchar(128) NOT NULL,
	task_name varchar(128) NOT NULL,
	priority integer NOT NULL DEFAULT 0,
	lock text,
	queueing_lock text,
	args jsonb NOT NULL DEFAULT '{}',
	status procrastinate_job_status NOT NULL DEFAULT 'todo',
	scheduled_at timestamptz,
	attempts integer NOT NULL DEFAULT 0,
	abort_requested boolean NOT NULL DEFAULT false,
	worker_id bigint REFERENCES procrastinate_workers (id) ON DELETE SET NULL,
	CONSTRAINT check_not_todo_abort_requested CHECK (NOT (status = 'todo' AND abort_requested))
);
CREATE UNIQUE INDEX procrastinate_jobs_queueing_lock_idx_v1 ON procrastinate_jobs (queueing_lock)
	WHERE status = 'todo';
CREATE UNIQUE INDEX procrastinate_jobs_lock_idx_v1 ON procrastinate_jobs (lock)
	WHERE status = 'doing';
CREATE INDEX procrastinate_jobs_priority_idx_v1 ON procrastinate_jobs (priority DESC, id)
	WHERE status = 'todo';

CREATE TABLE procrastinate_events (
	id bigserial PRIMARY KEY,
	job_id bigint NOT NULL REFERENCES procrastinate_jobs ON DELETE CASCADE,
	type procrastinate_job_event_type,
	at timestamptz DEFAULT now()
);
CREATE INDEX procrastinate_events_job_id_fkey_v1 ON procrastinate_events (job_id);

CREATE FUNCTION procrastinate_status_event() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	was text := CASE WHEN tg_op = 'UPDATE' THEN old.status::text END;
	event text := CASE
		WHEN was IS NULL AND new.status = 'todo' THEN 'deferred'
		WHEN was = 'todo' AND new.status = 'doing' THEN 'started'
		WHEN was = 'doing' AND new.status = 'todo' THEN 'deferred_for_retry'
		WHEN was = 'doing' AND new.status IN ('failed', 'succeeded', 'aborted') THEN new.status::text
		WHEN was = 'todo' AND new.status IN ('cancelled', 'failed', 'succeeded') THEN 'cancelled'
		WHEN was = 'failed' AND new.status = 'todo' THEN 'retried' END;
BEGIN
	IF event IS NOT NULL THEN
		INSERT INTO procrastinate_events (job_id, type)
			VALUES (new.id, event::procrastinate_job_event_type);
	END IF;
	IF new.status = 'todo' AND new.scheduled_at IS NOT NULL THEN
		INSERT INTO procrastinate_events (job_id, type, at)
			VALUES (new.id, 'scheduled', new.scheduled_at);
	END IF;
	RETURN new;
END $$;
CREATE TRIGGER procrastinate_status_events AFTER INSERT OR UPDATE OF status ON procrastinate_jobs
	FOR EACH ROW EXECUTE FUNCTION procrastinate_status_event();

CREATE FUNCTION procrastinate_fetch_job_v2(target_queue_names varchar[], p_worker_id bigint)
RETURNS procrastinate_jobs LANGUAGE sql AS $$
	UPDATE procrastinate_jobs SET status = 'doing', worker_id = p_worker_id WHERE id = (
		SELECT j.id FROM procrastinate_jobs j WHERE j.status = 'todo'
		AND (target_queue_names IS NULL OR j.queue_name = ANY (target_queue_names))
		AND (j.scheduled_at IS NULL OR j.scheduled_at <= now())
		AND NOT EXISTS (SELECT 1 FROM procrastinate_jobs o WHERE o.lock = j.lock
			AND o.status = 'doing')
		ORDER BY j.priority DESC, j.id LIMIT 1 FOR UPDATE SKIP LOCKED)
	RETURNING *
$$;

CREATE FUNCTION procrastinate_finish_job_v1(job_id bigint, end_status procrastinate_job_status,
	delete_job boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	found_id bigint;
BEGIN
	IF end_status NOT IN ('succeeded', 'failed', 'aborted') THEN
		RAISE 'End status should be either "succeeded", "failed" or "aborted" (job id: %)', job_id;
	ELSIF delete_job THEN
		DELETE FROM procrastinate_jobs WHERE id = job_id AND status IN ('todo', 'doing')
			RETURNING id INTO found_id;
	ELSE
		UPDATE procrastinate_jobs SET status = end_status, abort_requested = false,
			attempts = attempts + (status = 'doing')::int
			WHERE id = job_id AND status IN ('todo', 'doing') RETURNING id INTO found_id;
	END IF;
	IF found_id IS NULL THEN
		RAISE 'Job was not found or not in "doing" or "todo" status (job id: %)', job_id;
	END IF;
END $$;

CREATE FUNCTION procrastinate_retry_job_v2(job_id bigint, retry_at timestamptz,
	new_priority integer, new_queue_name varchar, new_lock varchar)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	found_id bigint;
BEGIN
	UPDATE procrastinate_jobs SET
		status = CASE WHEN status = 'doing' AND abort_requested THEN 'failed' ELSE 'todo'
			END::procrastinate_job_status,
		attempts = attempts + (NOT abort_requested)::int,
		scheduled_at = retry_at,
		priority = coalesce(new_priority, priority),
		queue_name = coalesce(new_queue_name, queue_name),
		lock = coalesce(new_lock, lock)
		WHERE id = job_id AND status IN ('doing', 'failed') RETURNING id INTO found_id;
	IF found_id IS NULL THEN
		RAISE 'Job was not found or has an invalid status to retry (job id: %)', job_id;
	END IF;
END $$;
