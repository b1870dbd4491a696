-- Hatchet v1: tasks, the queue, and the runtime: a row there is a task that a worker has.
CREATE TYPE v1_readable_status_olap AS ENUM ('QUEUED', 'RUNNING', 'CANCELLED', 'FAILED', 'COMPLETED');
CREATE TABLE v1_task (
	id bigint GENERATED ALWAYS AS IDENTITY,
	inserted_at timestamptz NOT NULL DEFAULT now(),
	tenant_id uuid NOT NULL,
	queue text NOT NULL,
	action_id text NOT NULL,
	schedule_timeout text NOT NULL,
	step_timeout text,
	priority integer DEFAULT 1,
	external_id uuid NOT NULL,
	display_name text NOT NULL,
	input jsonb NOT NULL,
	retry_count integer NOT NULL DEFAULT 0,
	internal_retry_count integer NOT NULL DEFAULT 0,
	app_retry_count integer NOT NULL DEFAULT 0,
	PRIMARY KEY (id, inserted_at)
) PARTITION BY RANGE (inserted_at);
CREATE TABLE v1_task_default PARTITION OF v1_task DEFAULT;
CREATE TABLE v1_queue_item (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant_id uuid NOT NULL,
	queue text NOT NULL,
	task_id bigint NOT NULL,
	task_inserted_at timestamptz NOT NULL,
	action_id text NOT NULL,
	schedule_timeout_at timestamp(3),
	priority integer NOT NULL DEFAULT 1,
	desired_worker_id uuid,
	retry_count integer NOT NULL DEFAULT 0
);
CREATE TABLE v1_task_runtime (
	task_id bigint NOT NULL,
	task_inserted_at timestamptz NOT NULL,
	retry_count integer NOT NULL,
	worker_id uuid,
	tenant_id uuid NOT NULL,
	timeout_at timestamp(3) NOT NULL,
	evicted_at timestamptz,
	PRIMARY KEY (task_id, task_inserted_at, retry_count)
);
CREATE TABLE v1_tasks_olap (
	tenant_id uuid NOT NULL,
	id bigint NOT NULL,
	inserted_at timestamptz NOT NULL,
	queue text NOT NULL,
	action_id text NOT NULL,
	readable_status v1_readable_status_olap NOT NULL DEFAULT 'QUEUED',
	latest_retry_count integer NOT NULL DEFAULT 0,
	latest_worker_id uuid,
	PRIMARY KEY (inserted_at, id, readable_status)
);
CREATE TABLE "Worker" (
	id uuid PRIMARY KEY,
	"createdAt" timestamp(3) NOT NULL DEFAULT now(),
	"updatedAt" timestamp(3) NOT NULL DEFAULT now(),
	"tenantId" uuid NOT NULL,
	"lastHeartbeatAt" timestamp(3),
	name text NOT NULL,
	"isActive" boolean NOT NULL DEFAULT false
);
INSERT INTO v1_task (tenant_id, queue, action_id, schedule_timeout, external_id, display_name, input)
SELECT gen_random_uuid(), 'default', 'mail:send', '5m', gen_random_uuid(), 'mail', '{}' FROM generate_series(1, 25);
INSERT INTO v1_tasks_olap (tenant_id, id, inserted_at, queue, action_id, readable_status, latest_worker_id)
SELECT tenant_id, id, inserted_at, queue, action_id,
	(CASE WHEN id < 3 THEN 'RUNNING' WHEN id < 8 THEN 'QUEUED' WHEN id = 8 THEN 'FAILED' ELSE 'COMPLETED' END)::v1_readable_status_olap,
	CASE WHEN id BETWEEN 3 AND 7 THEN NULL ELSE gen_random_uuid() END
FROM v1_task;
INSERT INTO v1_queue_item (tenant_id, queue, task_id, task_inserted_at, action_id, schedule_timeout_at)
SELECT tenant_id, queue, id, inserted_at, action_id, now() AT TIME ZONE 'UTC' + interval '5 minutes' FROM v1_task WHERE id BETWEEN 3 AND 7;
INSERT INTO v1_task_runtime (task_id, task_inserted_at, retry_count, worker_id, tenant_id, timeout_at)
SELECT id, inserted_at, 0, gen_random_uuid(), tenant_id,
	now() AT TIME ZONE 'UTC' + CASE id WHEN 1 THEN interval '4 minutes' ELSE interval '-3 hours' END
FROM v1_task WHERE id < 3;
