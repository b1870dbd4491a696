-- Laravel's tables for the database queue, from facts: times are seconds since 1970.
CREATE TABLE jobs (
	id bigserial PRIMARY KEY,
	queue varchar(255) NOT NULL,
	payload text NOT NULL,
	attempts smallint NOT NULL,
	reserved_at integer,
	available_at integer NOT NULL,
	created_at integer NOT NULL
);
CREATE INDEX jobs_queue_index ON jobs (queue);

CREATE TABLE failed_jobs (
	id bigserial PRIMARY KEY,
	uuid varchar(255) NOT NULL,
	connection text NOT NULL,
	queue text NOT NULL,
	payload text NOT NULL,
	exception text NOT NULL,
	failed_at timestamp(0) NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE UNIQUE INDEX failed_jobs_uuid_unique ON failed_jobs (uuid);
