-- A queue named "emails" as pgmq 1.5 and later makes one, from facts, with its read and archive:
-- the extension itself is not packaged everywhere.
CREATE SCHEMA pgmq;
CREATE TABLE pgmq.meta (
	queue_name varchar UNIQUE NOT NULL,
	is_partitioned boolean NOT NULL,
	is_unlogged boolean NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO pgmq.meta VALUES ('emails', false, false);

CREATE TABLE pgmq.q_emails (
	msg_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	read_ct int NOT NULL DEFAULT 0,
	enqueued_at timestamptz NOT NULL DEFAULT now(),
	vt timestamptz NOT NULL,
	message jsonb,
	headers jsonb
);
CREATE INDEX q_emails_vt_idx ON pgmq.q_emails (vt);
CREATE TABLE pgmq.a_emails (
	msg_id bigint PRIMARY KEY,
	read_ct int NOT NULL DEFAULT 0,
	enqueued_at timestamptz NOT NULL DEFAULT now(),
	archived_at timestamptz NOT NULL DEFAULT now(),
	vt timestamptz NOT NULL,
	message jsonb,
	headers jsonb
);
CREATE INDEX archived_at_idx_emails ON pgmq.a_emails (archived_at);

CREATE FUNCTION pgmq.read(queue_name text, seconds int, qty int) RETURNS SETOF pgmq.q_emails
LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('UPDATE pgmq.%I SET read_ct = read_ct + 1, vt = clock_timestamp()
		+ make_interval(secs => $1) WHERE msg_id IN (SELECT msg_id FROM pgmq.%1$I
		WHERE vt <= clock_timestamp() ORDER BY msg_id LIMIT $2 FOR UPDATE SKIP LOCKED)
		RETURNING *', lower('q_' || queue_name)) USING seconds, qty;
END $$;

CREATE FUNCTION pgmq.archive(queue_name text, msg_id bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
	moved bigint;
BEGIN
	EXECUTE format('WITH gone AS (DELETE FROM pgmq.%I WHERE msg_id = $1 RETURNING *)
		INSERT INTO pgmq.%I (msg_id, vt, read_ct, enqueued_at, message, headers)
		SELECT msg_id, vt, read_ct, enqueued_at, message, headers FROM gone RETURNING msg_id',
		lower('q_' || queue_name), lower('a_' || queue_name)) INTO moved USING msg_id;
	RETURN moved IS NOT NULL;
END $$;
