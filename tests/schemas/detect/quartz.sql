-- Quartz (Java), JDBC job store: what was fired and by which instance; times in milliseconds.
CREATE TABLE qrtz_triggers (
	sched_name varchar(120) NOT NULL,
	trigger_name varchar(200) NOT NULL,
	trigger_group varchar(200) NOT NULL,
	job_name varchar(200) NOT NULL,
	job_group varchar(200) NOT NULL,
	next_fire_time bigint,
	prev_fire_time bigint,
	priority integer,
	trigger_state varchar(16) NOT NULL,
	trigger_type varchar(8) NOT NULL,
	start_time bigint NOT NULL,
	end_time bigint,
	misfire_instr smallint,
	PRIMARY KEY (sched_name, trigger_name, trigger_group)
);
CREATE TABLE qrtz_fired_triggers (
	sched_name varchar(120) NOT NULL,
	entry_id varchar(95) NOT NULL,
	trigger_name varchar(200) NOT NULL,
	trigger_group varchar(200) NOT NULL,
	instance_name varchar(200) NOT NULL,
	fired_time bigint NOT NULL,
	sched_time bigint NOT NULL,
	priority integer NOT NULL,
	state varchar(16) NOT NULL,
	job_name varchar(200),
	job_group varchar(200),
	is_nonconcurrent boolean,
	requests_recovery boolean,
	PRIMARY KEY (sched_name, entry_id)
);
CREATE TABLE qrtz_scheduler_state (
	sched_name varchar(120) NOT NULL,
	instance_name varchar(200) NOT NULL,
	last_checkin_time bigint NOT NULL,
	checkin_interval bigint NOT NULL,
	PRIMARY KEY (sched_name, instance_name)
);
CREATE FUNCTION pg_temp.ms(ago interval) RETURNS bigint LANGUAGE sql AS
	'SELECT (extract(epoch FROM now() - ago) * 1000)::bigint';
INSERT INTO qrtz_triggers
SELECT 'main', 't' || i, 'g', 'job' || i, 'g', pg_temp.ms(i * interval '-1 minute'), pg_temp.ms('1 h'), 5,
	CASE WHEN i < 3 THEN 'ACQUIRED' WHEN i = 3 THEN 'ERROR' ELSE 'WAITING' END, 'CRON', pg_temp.ms('90 days'), 0, 0
FROM generate_series(1, 12) i;
INSERT INTO qrtz_fired_triggers VALUES
	('main', 'e1', 't1', 'g', 'node-a', pg_temp.ms('6 s'), pg_temp.ms('6 s'), 5, 'EXECUTING', 'job1', 'g', false, true),
	('main', 'e2', 't2', 'g', 'node-b', pg_temp.ms('10 h'), pg_temp.ms('10 h'), 5, 'EXECUTING', 'job2', 'g', false, true),
	('main', 'e3', 't4', 'g', 'node-a', pg_temp.ms('1 s'), pg_temp.ms('1 s'), 5, 'ACQUIRED', NULL, NULL, false, false);
INSERT INTO qrtz_scheduler_state VALUES ('main', 'node-a', pg_temp.ms('3 s'), 7500), ('main', 'node-b', pg_temp.ms('10 h'), 7500);
