-- The job table of pg-boss 12 (beats, seconds instead of an interval), from facts. Version 10 comes
-- from npm, with its own migrations.
CREATE SCHEMA pgboss;
CREATE TYPE pgboss.job_state AS ENUM ('created', 'retry', 'active', 'completed', 'cancelled',
	'failed');

CREATE TABLE pgboss.queue (
	name text PRIMARY KEY,
	policy text NOT NULL,
	dead_letter text REFERENCES pgboss.queue (name) CHECK (dead_letter IS DISTINCT FROM name)
);

CREATE TABLE pgboss.job (
	id uuid NOT NULL DEFAULT gen_random_uuid(),
	name text NOT NULL,
	priority integer NOT NULL DEFAULT 0,
	data jsonb,
	state pgboss.job_state NOT NULL DEFAULT 'created',
	retry_limit integer NOT NULL DEFAULT 2,
	retry_count integer NOT NULL DEFAULT 0,
	retry_delay integer NOT NULL DEFAULT 0,
	retry_backoff boolean NOT NULL DEFAULT false,
	retry_delay_max integer,
	expire_seconds integer NOT NULL DEFAULT 900,
	deletion_seconds integer NOT NULL DEFAULT 604800,
	singleton_key text,
	singleton_on timestamp,
	group_id text,
	group_tier text,
	start_after timestamptz NOT NULL DEFAULT now(),
	created_on timestamptz NOT NULL DEFAULT now(),
	started_on timestamptz,
	completed_on timestamptz,
	keep_until timestamptz NOT NULL DEFAULT now() + interval '14 days',
	output jsonb,
	dead_letter text,
	policy text,
	heartbeat_on timestamptz,
	heartbeat_seconds integer,
	PRIMARY KEY (name, id)
) PARTITION BY LIST (name);

CREATE TABLE pgboss.job_common PARTITION OF pgboss.job DEFAULT;
ALTER TABLE pgboss.job_common ADD FOREIGN KEY (name) REFERENCES pgboss.queue (name)
	DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE pgboss.job_common ADD FOREIGN KEY (dead_letter) REFERENCES pgboss.queue (name)
	DEFERRABLE INITIALLY DEFERRED;
CREATE UNIQUE INDEX ON pgboss.job_common (name, state, coalesce(singleton_key, ''))
	WHERE state <= 'active' AND policy = 'stately';
CREATE UNIQUE INDEX ON pgboss.job_common (name, coalesce(singleton_key, ''))
	WHERE state <= 'active' AND policy = 'exclusive';
CREATE UNIQUE INDEX ON pgboss.job_common (name, singleton_on, coalesce(singleton_key, ''))
	WHERE state <> 'cancelled' AND singleton_on IS NOT NULL;
CREATE INDEX ON pgboss.job_common (name, start_after) INCLUDE (priority, created_on, id)
	WHERE state < 'active';
