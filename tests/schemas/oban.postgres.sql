-- Oban's table after migration 14, from facts: naive UTC times, CHECKs on attempts and names.
CREATE TYPE oban_job_state AS ENUM ('available', 'suspended', 'scheduled', 'executing',
	'retryable', 'completed', 'discarded', 'cancelled');

CREATE TABLE oban_jobs (
	id bigserial PRIMARY KEY,
	state oban_job_state NOT NULL DEFAULT 'available',
	queue text NOT NULL DEFAULT 'default',
	worker text NOT NULL,
	args jsonb NOT NULL DEFAULT '{}',
	errors jsonb[] NOT NULL DEFAULT '{}',
	attempt integer NOT NULL DEFAULT 0,
	max_attempts integer NOT NULL DEFAULT 20,
	inserted_at timestamp NOT NULL DEFAULT timezone('UTC', now()),
	scheduled_at timestamp NOT NULL DEFAULT timezone('UTC', now()),
	attempted_at timestamp,
	completed_at timestamp,
	attempted_by text[],
	discarded_at timestamp,
	priority integer NOT NULL DEFAULT 0,
	tags text[] DEFAULT '{}',
	meta jsonb DEFAULT '{}',
	cancelled_at timestamp,
	CONSTRAINT worker_length CHECK (char_length(worker) BETWEEN 1 AND 127),
	CONSTRAINT queue_length CHECK (char_length(queue) BETWEEN 1 AND 127),
	CONSTRAINT positive_max_attempts CHECK (max_attempts > 0),
	CONSTRAINT attempt_range CHECK (attempt BETWEEN 0 AND max_attempts),
	CONSTRAINT non_negative_priority CHECK (priority >= 0)
);

CREATE INDEX ON oban_jobs (state, queue, priority, scheduled_at, id);
CREATE INDEX ON oban_jobs (state, cancelled_at);
CREATE INDEX ON oban_jobs (state, discarded_at);
CREATE INDEX ON oban_jobs USING gin (args);
CREATE INDEX ON oban_jobs USING gin (meta);
