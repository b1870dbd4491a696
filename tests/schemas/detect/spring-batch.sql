-- Spring Batch: executions of jobs and of their steps, which are STARTED until they end.
CREATE TABLE batch_job_instance (
	job_instance_id bigint PRIMARY KEY,
	version bigint,
	job_name varchar(100) NOT NULL,
	job_key varchar(32) NOT NULL,
	UNIQUE (job_name, job_key)
);
CREATE TABLE batch_job_execution (
	job_execution_id bigint PRIMARY KEY,
	version bigint,
	job_instance_id bigint NOT NULL REFERENCES batch_job_instance,
	create_time timestamp NOT NULL,
	start_time timestamp,
	end_time timestamp,
	status varchar(10),
	exit_code varchar(2500),
	exit_message varchar(2500),
	last_updated timestamp
);
CREATE TABLE batch_step_execution (
	step_execution_id bigint PRIMARY KEY,
	version bigint NOT NULL,
	step_name varchar(100) NOT NULL,
	job_execution_id bigint NOT NULL REFERENCES batch_job_execution,
	create_time timestamp NOT NULL,
	start_time timestamp,
	end_time timestamp,
	status varchar(10),
	commit_count bigint,
	read_count bigint,
	exit_code varchar(2500),
	exit_message varchar(2500),
	last_updated timestamp
);
INSERT INTO batch_job_instance SELECT i, 0, 'import', md5(i::text) FROM generate_series(1, 22) i;
INSERT INTO batch_job_execution
SELECT i, 2, i, t.at, t.at, t.at + interval '4 minutes', CASE i % 7 WHEN 0 THEN 'FAILED' ELSE 'COMPLETED' END,
	CASE i % 7 WHEN 0 THEN 'FAILED' ELSE 'COMPLETED' END, '', t.at + interval '4 minutes'
FROM generate_series(1, 20) i, LATERAL (SELECT now() AT TIME ZONE 'UTC' - i * interval '1 day' AS at) t;
INSERT INTO batch_job_execution
SELECT i, 1, i, t.at, t.at, NULL, 'STARTED', 'UNKNOWN', '', CASE i WHEN 21 THEN now() AT TIME ZONE 'UTC' - interval '9 seconds' ELSE t.at END
FROM generate_series(21, 22) i, LATERAL (SELECT now() AT TIME ZONE 'UTC' - (i - 20) * interval '6 hours' AS at) t;
INSERT INTO batch_step_execution
SELECT job_execution_id, version, 'load', job_execution_id, create_time, start_time, end_time, status, 10, 100, exit_code, exit_message, last_updated
FROM batch_job_execution;
