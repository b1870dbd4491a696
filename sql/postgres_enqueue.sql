-- How src/worker/queue.c adds a batch of jobs on PostgreSQL. Each part begins with a line "-- @name";
-- {{@name}} stands for the text of another part, {{rows}} for the SELECT of the batch.
--
-- They also run in a transaction of the library's caller, by whose search path names are found:
-- operators and functions take exactly these types, so that none that another role made fits better.

-- @numbered: ids are drawn first, so that both tables agree. The sequence is looked up once, in a
-- subquery, not for every row.
u AS MATERIALIZED (
    SELECT nextval((SELECT pg_get_serial_sequence('defib.job', 'id')::regclass)) AS id, g.*
    FROM ({{rows}}) AS g ORDER BY g.at)

-- @tags
CASE WHEN u.tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(u.tags)) END

-- @plain: queue, kind and payload only
WITH {{@numbered}},
j AS (INSERT INTO defib.job (id, queue, kind) SELECT u.id, u.queue, u.kind FROM u),
d AS (INSERT INTO defib.job_data (job, payload)
      SELECT u.id, u.payload FROM u WHERE u.payload IS NOT NULL)
SELECT u.at, u.id FROM u

-- @full
WITH {{@numbered}},
j AS (INSERT INTO defib.job (id, queue, kind, state, run_at, priority, max_attempts, timeout_ms)
      SELECT u.id, u.queue, u.kind, CASE WHEN u.delay_ms > 0 THEN 'scheduled' ELSE 'queued' END,
          clock_timestamp() + u.delay_ms::float8 * interval '1 millisecond', u.priority,
          u.max_attempts, u.timeout_ms
      FROM u),
d AS (INSERT INTO defib.job_data (job, payload, tags)
      SELECT u.id, u.payload, {{@tags}}
      FROM u WHERE u.payload IS NOT NULL OR u.tags IS NOT NULL)
SELECT u.at, u.id FROM u

-- @unique: jobs with a unique key
SELECT u.at, defib.enqueue(u.queue, u.kind, u.payload, u.delay_ms, u.priority, u.max_attempts,
    u.timeout_ms, u.unique_key, {{@tags}})
FROM ({{rows}}) AS u ORDER BY u.at
