-- Hangfire.PostgreSql (.NET): a queue entry that was fetched has fetchedat; names without underscores.
CREATE SCHEMA hangfire;
CREATE TABLE hangfire.job (
	id bigserial PRIMARY KEY,
	stateid bigint,
	statename text,
	invocationdata jsonb NOT NULL,
	arguments jsonb NOT NULL,
	createdat timestamptz NOT NULL,
	expireat timestamptz,
	updatecount integer NOT NULL DEFAULT 0
);
CREATE TABLE hangfire.jobqueue (
	id bigserial PRIMARY KEY,
	jobid bigint NOT NULL,
	queue text NOT NULL,
	fetchedat timestamptz,
	updatecount integer NOT NULL DEFAULT 0
);
CREATE TABLE hangfire.state (
	id bigserial PRIMARY KEY,
	jobid bigint NOT NULL REFERENCES hangfire.job,
	name text NOT NULL,
	reason text,
	createdat timestamptz NOT NULL,
	data jsonb,
	updatecount integer NOT NULL DEFAULT 0
);
CREATE TABLE hangfire.server (
	id text PRIMARY KEY,
	data jsonb,
	lastheartbeat timestamptz NOT NULL,
	updatecount integer NOT NULL DEFAULT 0
);
INSERT INTO hangfire.job (statename, invocationdata, arguments, createdat, expireat)
SELECT CASE WHEN i < 3 THEN 'Processing' WHEN i < 9 THEN 'Enqueued' WHEN i = 9 THEN 'Failed' ELSE 'Succeeded' END,
	'{}', '[]', now() - i * interval '10 minutes', CASE WHEN i > 9 THEN now() + interval '1 day' END
FROM generate_series(1, 30) i;
INSERT INTO hangfire.state (jobid, name, createdat) SELECT id, statename, createdat FROM hangfire.job;
INSERT INTO hangfire.jobqueue (jobid, queue, fetchedat)
SELECT id, 'default', CASE id WHEN 1 THEN now() - interval '12 seconds' WHEN 2 THEN now() - interval '6 hours' END
FROM hangfire.job WHERE id < 9;
INSERT INTO hangfire.server VALUES ('host-a:1', '{}', now() - interval '5 seconds');
