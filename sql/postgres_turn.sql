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

-- The parameters are an array of each column of the settled jobs, and what to claim. "call": it
-- writes, so a lost reply leaves the outcome unknown.
-- @turn
SELECT *
FROM defib.turn($1::bigint, $2::bigint[], $3::bigint[], $4::text[], $5::jsonb[], $6::text[],
    $7::bigint[], $8::jsonb[], $9::bigint, $10::text, $11::integer,
    CASE WHEN $12::jsonb IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text($12::jsonb)) END,
    $13::integer, $14::bigint, $15::integer, $16::integer::boolean, $17::integer::boolean) /* call */
