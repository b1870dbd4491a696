-- The built-in queue on PostgreSQL: calls of the functions of sql/postgres_queue.sql that
-- worker/queue_statements.c finds by their name. Each begins with a line "-- @name".

-- @cancel: job
SELECT defib.cancel($1);

-- @promote: most
SELECT defib.promote($1::integer);

-- @progress: worker, job, epoch, step, text
SELECT accepted
FROM defib.beat($1, ARRAY[$2::bigint], ARRAY[$3::bigint], ARRAY[$4::text], ARRAY[$5::text]);
