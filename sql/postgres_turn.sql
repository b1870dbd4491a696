-- The built-in queue on PostgreSQL: calls of the functions of sql/postgres_queue.sql that
-- worker/queue_statements.c finds by their name. Each begins with a line "-- @name". Every
-- parameter is given, and cast to its type: no other function of the name can fit better.

-- @cancel: job
SELECT defib.cancel($1::bigint);

-- @promote: most
SELECT defib.promote($1::integer);

-- @progress: worker, job, epoch, step, text
SELECT accepted
FROM defib.beat($1::bigint, ARRAY[$2::bigint], ARRAY[$3::bigint], ARRAY[$4::text], ARRAY[$5::text]);
