-- River's tables after all of its migrations (line "main", 7), from facts: the job table with its
-- CHECKs and the unique index that counts states by a bit mask.
CREATE TYPE river_job_state AS ENUM ('available', 'cancelled', 'completed', 'discarded', 'pending',
	'retryable', 'running', 'scheduled');

CREATE TABLE river_job (
	id bigserial PRIMARY KEY,
	state river_job_state NOT NULL DEFAULT 'available',
	attempt smallint NOT NULL DEFAULT 0,
	max_attempts smallint NOT NULL DEFAULT 25,
	attempted_at timestamptz,
	created_at timestamptz NOT NULL DEFAULT now(),
	finalized_at timestamptz,
	scheduled_at timestamptz NOT NULL DEFAULT now(),
	priority smallint NOT NULL DEFAULT 1,
	args jsonb NOT NULL,
	attempted_by text[],
	errors jsonb[],
	kind text NOT NULL,
	metadata jsonb NOT NULL DEFAULT '{}',
	queue text NOT NULL DEFAULT 'default',
	tags varchar(255)[] NOT NULL DEFAULT '{}',
	unique_key bytea,
	unique_states bit(8),
	CONSTRAINT finalized_or_finalized_at_null CHECK ((finalized_at IS NOT NULL)
		= (state IN ('cancelled', 'completed', 'discarded'))),
	CONSTRAINT max_attempts_is_positive CHECK (max_attempts > 0),
	CONSTRAINT priority_in_range CHECK (priority BETWEEN 1 AND 4),
	CONSTRAINT queue_length CHECK (char_length(queue) BETWEEN 1 AND 127),
	CONSTRAINT kind_length CHECK (char_length(kind) BETWEEN 1 AND 127)
);

-- A bit for each state. It names no type: since PostgreSQL 17, an index is built without the
-- search path of the session.
CREATE FUNCTION river_job_state_in_bitmask(bitmask bit(8), state river_job_state) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE state
		WHEN 'available' THEN get_bit(bitmask, 7)
		WHEN 'cancelled' THEN get_bit(bitmask, 6)
		WHEN 'completed' THEN get_bit(bitmask, 5)
		WHEN 'discarded' THEN get_bit(bitmask, 4)
		WHEN 'pending' THEN get_bit(bitmask, 3)
		WHEN 'retryable' THEN get_bit(bitmask, 2)
		WHEN 'running' THEN get_bit(bitmask, 1)
		WHEN 'scheduled' THEN get_bit(bitmask, 0)
		ELSE 0
	END = 1
$$;

CREATE INDEX river_job_kind ON river_job (kind);
CREATE INDEX river_job_state_and_finalized_at_index ON river_job (state, finalized_at)
	WHERE finalized_at IS NOT NULL;
CREATE INDEX river_job_prioritized_fetching_index
	ON river_job (state, queue, priority, scheduled_at, id);
CREATE INDEX river_job_args_index ON river_job USING gin (args);
CREATE INDEX river_job_metadata_index ON river_job USING gin (metadata);
CREATE UNIQUE INDEX river_job_unique_idx ON river_job (unique_key) WHERE unique_key IS NOT NULL
	AND unique_states IS NOT NULL AND river_job_state_in_bitmask(unique_states, state);
