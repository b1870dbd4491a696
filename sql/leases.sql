-- Statements on defib's own tables of workers that take jobs from a user's table: leases, workers,
-- and the steps of workflows with the attempts at them (src/worker/source_table_sql.c, heartbeat.c).
-- Each part begins with a line "-- @name"; {{@name}} stands for the text of another part, {{watch}}
-- for the watch's name as a literal, {{rows}} for the SELECT of a list of jobs. The rest is
-- translated as src/store/dialect.h describes: {now} is the clock.

-- ---- fragments ----

-- @lease_floor: the highest epoch of leases that were removed
coalesce((SELECT CAST(m.value AS bigint) FROM defib.meta m WHERE m.name = 'lease_floor'), 0)

-- @of_lease: the lease and the worker of each row
JOIN defib.lease AS l ON l.watch = {{watch}} AND l.job = g.job
LEFT JOIN defib.worker AS w ON w.id = l.owner

-- ---- leases ----

-- @live: the name of the worker $1, if it is alive
SELECT w.name, {us {now}} FROM defib.worker AS w WHERE w.state = 'alive' AND w.id = $1::bigint

-- @take: the row is locked by then, so no other worker takes the same lease at once. Only a worker
-- that was declared dead can be settling it; if the two deadlock, the database ends one of them and
-- it is tried again. Claims, including the current one, since one was last settled: above 2, two
-- workers in a row died with the job in hand.
INSERT INTO defib.lease AS l (watch, job, epoch, owner, claimed_at, attempts)
SELECT {{watch}}, u.job, 1 + {{@lease_floor}}, $1::bigint, {now}, 1 FROM ({{rows}}) AS u WHERE true
ON CONFLICT (watch, job) DO UPDATE
SET owner = excluded.owner, epoch = l.epoch + 1, claimed_at = excluded.claimed_at,
    attempts = l.attempts + 1, by_beat = false, run_at = NULL
WHERE l.owner IS NULL
   OR NOT EXISTS (SELECT 1 FROM defib.worker AS w WHERE w.id = l.owner AND w.state = 'alive')
RETURNING job, epoch, attempts, coalesce(epoch - settled_epoch, attempts) > 2

-- @given: the leases of given jobs that the worker $1 has
SELECT g.pos, l.attempts, w.name, {us {now}}
FROM ({{rows}}) AS g
JOIN defib.lease AS l
    ON l.watch = {{watch}} AND l.job = g.job AND l.epoch = g.epoch AND l.owner = $1::bigint
LEFT JOIN defib.worker AS w ON w.id = l.owner

-- @repeated: of given jobs those that the worker $1 has settled before
SELECT g.pos
FROM ({{rows}}) AS g
JOIN defib.lease AS l ON l.watch = {{watch}} AND l.job = g.job
    AND l.settled_epoch = g.epoch AND l.settled_by = $1::bigint

-- @now_held
SELECT g.pos, l.epoch, l.owner
FROM ({{rows}}) AS g
LEFT JOIN defib.lease AS l ON l.watch = {{watch}} AND l.job = g.job

-- @end
UPDATE defib.lease AS l
SET owner = NULL, attempts = g.attempts, run_at = {now} + {span_ms g.pause_ms},
    settled_by = CASE WHEN g.settled IS NULL THEN l.settled_by ELSE $1::bigint END,
    settled_epoch = coalesce(g.settled, l.settled_epoch)
FROM ({{rows}}) AS g
WHERE l.watch = {{watch}} AND l.job = g.job

-- @owned: all of the worker $1
SELECT l.job, l.epoch FROM defib.lease AS l WHERE l.watch = {{watch}} AND l.owner = $1::bigint

-- @holds
{{@owned}} AND l.job = $2 AND l.epoch = $3

-- @keep: watch, job, instance, epoch, whether this is the job's first heartbeat. The lease of an
-- instance is made or kept by the heartbeat. The first one of a job takes it over, but not from a
-- worker of ours that lives; a later one only if nobody had it meanwhile.
INSERT INTO defib.lease AS l (watch, job, epoch, owner, claimed_at, by_beat)
SELECT $1, $2, 1 + {{@lease_floor}}, me.id, {now}, true
FROM defib.worker AS me
WHERE me.id = $3::bigint AND me.state = 'alive'
ON CONFLICT (watch, job) DO UPDATE
SET epoch = CASE WHEN l.owner = excluded.owner OR l.epoch = $4::bigint THEN l.epoch
                 ELSE l.epoch + 1 END,
    owner = excluded.owner, claimed_at = excluded.claimed_at, by_beat = true, run_at = NULL
WHERE l.owner = excluded.owner
   OR (l.owner IS NULL AND $4::bigint IN (0, l.epoch))
   OR ($4::bigint = 0
       AND (NOT EXISTS (SELECT 1 FROM defib.worker AS w WHERE w.id = l.owner AND w.state = 'alive')
            OR (l.by_beat AND $5::bigint = 1)))
RETURNING epoch

-- ---- steps ----

-- @steps: in the order of enum step_column
SELECT s.job, s.step, s.state, s.output, s.error
FROM ({{rows}}) AS g JOIN defib.step AS s ON s.watch = {{watch}} AND s.job = g.job
ORDER BY s.job, s.position, s.step

-- @record_runs
INSERT INTO defib.step (watch, job, step, position, state, epoch, output, started_at, finished_at,
    attempt, worker)
SELECT l.watch, g.job, g.step, g.position, 'done', g.epoch, g.output, l.claimed_at, {now},
    l.attempts, w.name
FROM ({{rows}}) AS g {{@of_lease}}
WHERE true
ON CONFLICT (watch, job, step) DO UPDATE
SET position = excluded.position, state = excluded.state, epoch = excluded.epoch,
    output = excluded.output, error = NULL, started_at = excluded.started_at,
    finished_at = excluded.finished_at, attempt = excluded.attempt, worker = excluded.worker

-- @keep_runs: the run in a step's record, before an undo changes it
INSERT INTO defib.step_attempt (watch, job, step, epoch, position, attempt, worker, outcome,
    started_at, ended_at)
SELECT s.watch, s.job, s.step, s.epoch, s.position, s.attempt, s.worker, 'done', s.started_at,
    s.finished_at
FROM ({{rows}}) AS g
JOIN defib.step AS s ON s.watch = {{watch}} AND s.job = g.job AND s.step = g.step
WHERE s.state = 'done' AND s.error IS NULL
ON CONFLICT DO NOTHING

-- @record_undos
UPDATE defib.step AS s
SET state = u.state, error = u.error, epoch = u.epoch,
    finished_at = CASE WHEN u.state = 'done' THEN s.finished_at ELSE {now} END,
    started_at = CASE WHEN u.state = 'done' THEN s.started_at WHEN u.ran = 1 THEN u.claimed_at END,
    attempt = CASE WHEN u.state = 'done' THEN s.attempt WHEN u.ran = 1 THEN u.attempts END,
    worker = CASE WHEN u.state = 'done' THEN s.worker WHEN u.ran = 1 THEN u.name END
FROM (SELECT g.*, l.claimed_at, l.attempts, w.name FROM ({{rows}}) AS g {{@of_lease}}) AS u
WHERE s.watch = {{watch}} AND s.job = u.job AND s.step = u.step AND s.state = 'done'

-- @record_attempts
INSERT INTO defib.step_attempt (watch, job, step, epoch, position, attempt, undo, worker, outcome,
    error, started_at, ended_at)
SELECT l.watch, g.job, g.step, g.epoch, g.position, l.attempts, g.undo = 1, w.name, g.outcome,
    g.error, l.claimed_at, {now}
FROM ({{rows}}) AS g {{@of_lease}}
WHERE true
ON CONFLICT DO NOTHING

-- @drop_attempts
DELETE FROM defib.step_attempt
WHERE (watch, job, step, epoch) IN (
    SELECT a.watch, a.job, a.step, a.epoch
    FROM ({{rows}}) AS g
    JOIN defib.step_attempt AS a ON a.watch = {{watch}} AND a.job = g.job AND a.step = g.step
    WHERE (SELECT count(*) FROM defib.step_attempt AS o
           WHERE o.watch = a.watch AND o.job = a.job AND o.step = a.step AND o.epoch > a.epoch) >= 20)
