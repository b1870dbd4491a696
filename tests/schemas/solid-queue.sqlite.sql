-- Solid Queue's tables of version 1, from facts: a job, and one row in the table of its state.
CREATE TABLE solid_queue_jobs (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	queue_name varchar NOT NULL,
	class_name varchar NOT NULL,
	arguments text,
	priority integer NOT NULL DEFAULT 0,
	active_job_id varchar,
	scheduled_at datetime(6),
	finished_at datetime(6),
	concurrency_key varchar,
	created_at datetime(6) NOT NULL,
	updated_at datetime(6) NOT NULL
);

CREATE TABLE solid_queue_processes (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	kind varchar NOT NULL,
	last_heartbeat_at datetime(6) NOT NULL,
	supervisor_id integer,
	pid integer NOT NULL,
	hostname varchar,
	metadata text,
	created_at datetime(6) NOT NULL,
	name varchar NOT NULL
);
CREATE INDEX solid_queue_processes_beat ON solid_queue_processes (last_heartbeat_at);
CREATE UNIQUE INDEX solid_queue_processes_name ON solid_queue_processes (name, supervisor_id);

CREATE TABLE solid_queue_ready_executions (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	job_id integer NOT NULL REFERENCES solid_queue_jobs (id) ON DELETE CASCADE,
	queue_name varchar NOT NULL,
	priority integer NOT NULL DEFAULT 0,
	created_at datetime(6) NOT NULL
);
CREATE UNIQUE INDEX solid_queue_ready_job ON solid_queue_ready_executions (job_id);

CREATE TABLE solid_queue_claimed_executions (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	job_id integer NOT NULL REFERENCES solid_queue_jobs (id) ON DELETE CASCADE,
	process_id integer,
	created_at datetime(6) NOT NULL
);
CREATE UNIQUE INDEX solid_queue_claimed_job ON solid_queue_claimed_executions (job_id);
CREATE INDEX solid_queue_claimed_process ON solid_queue_claimed_executions (process_id, job_id);

CREATE TABLE solid_queue_failed_executions (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	job_id integer NOT NULL REFERENCES solid_queue_jobs (id) ON DELETE CASCADE,
	error text,
	created_at datetime(6) NOT NULL
);
CREATE UNIQUE INDEX solid_queue_failed_job ON solid_queue_failed_executions (job_id);
