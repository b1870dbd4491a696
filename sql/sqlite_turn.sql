-- The built-in queue on SQLite, which has no functions: what sql/postgres_queue.sql does in
-- functions, as statements that worker/queue_statements.c runs job by job. Each begins with a line
-- "-- @name". They are translated as store/dialect.h describes: {now} is the clock.

-- @look: queue, kinds (JSON or null)
SELECT 1 FROM defib.job
WHERE state = 'queued' AND queue = $1
  AND ($2 IS NULL OR kind IN (SELECT value FROM json_each($2)))
LIMIT 1;

-- @claim: worker, queue, most, kinds
UPDATE defib.job
SET state = 'running', owner = $1, epoch = epoch + 1, attempts = attempts + 1, claimed_at = {now}
WHERE id IN (SELECT id FROM defib.job
             WHERE state = 'queued' AND queue = $2
               AND ($4 IS NULL OR kind IN (SELECT value FROM json_each($4)))
             ORDER BY priority DESC, id LIMIT $3)
RETURNING id, epoch, attempts, max_attempts, kind, priority, timeout_ms,
    (SELECT d.payload FROM defib.job_data d WHERE d.job = id),
    CASE WHEN epoch > 1 THEN (SELECT p.step FROM defib.progress p WHERE p.job = id) END,
    undoing,
    CASE WHEN epoch > 1 THEN (
        SELECT json_group_array(json_object('step', s.step, 'state', s.state, 'output', s.output))
        FROM (SELECT * FROM defib.step
              WHERE watch = 'queue' AND job = CAST(defib.job.id AS TEXT)
              ORDER BY position, finished_at) s
        HAVING count(*) > 0) END,
    crashes > 1 AND cause IS 'lost';

-- The end of a job: job, epoch, worker, error. The most common one need not read the job.
-- @settle_done
UPDATE defib.job AS t
SET owner = NULL, state = 'done', finished_at = {now}, cause = NULL, error = $4
WHERE t.id = $1 AND t.epoch = $2 AND +t.owner = $3;

-- @settle_facts
SELECT t.state = 'cancelling', t.attempts, t.max_attempts FROM defib.job AS t
WHERE t.id = $1 AND t.epoch = $2 AND +t.owner = $3;

-- The result of settle_after(): state, attempts, crashed, over, kept, wait or null, cause.
-- @settle_other
UPDATE defib.job AS t
SET owner = NULL, state = $5, attempts = $6, crashes = t.crashes + $7,
    finished_at = CASE WHEN $8 THEN {now} END,
    run_at = CASE $5 WHEN 'scheduled'
        THEN {now} + coalesce($10, abs(random()) % min(3600000, 1000 * (1 << min(t.attempts, 12))))
        ELSE t.run_at END,
    cause = CASE WHEN $9 THEN t.cause ELSE $11 END,
    error = CASE WHEN $9 THEN t.error ELSE $4 END
WHERE t.id = $1 AND t.epoch = $2 AND +t.owner = $3;

-- @keep_result: job, result
INSERT INTO defib.job_data (job, result) VALUES ($1, $2)
ON CONFLICT (job) DO UPDATE SET result = excluded.result;

-- A settlement that is repeated because its reply was lost was accepted.
-- @repeated: job, epoch, outcome, is it of a step, worker
SELECT ($3 = 'done' AND t.state = 'done' AND NOT $4)
    OR ($3 NOT IN ('done', 'released', 'stopped')
        AND t.state IN ('scheduled', 'failed', 'timed_out', 'cancelled')
        AND t.cause IS NOT 'lost')
    OR ($3 NOT IN ('done', 'released', 'stopped')
        AND t.state = 'queued' AND t.cause = CASE $3
            WHEN 'timed_out' THEN 'time-out' WHEN 'crashed' THEN 'crash' ELSE 'error' END)
    OR ($3 IN ('released', 'stopped') AND t.state IN ('queued', 'cancelled')
        AND t.cause IS NOT 'lost')
FROM defib.job t JOIN defib.worker w ON w.id = $5
WHERE t.id = $1 AND t.epoch = $2;

-- @note_late: job, epoch, worker, outcome
INSERT INTO defib.ledger (batch, watch, job, event, actor, evidence, epoch)
SELECT 'late', 'queue', $1, 'LATE_COMPLETION', 'worker:' || $3,
       json_object('outcome', $4, 'state', t.state, 'current_epoch', t.epoch), $2
FROM (SELECT 1) LEFT JOIN defib.job t ON t.id = $1;

-- The end of a step. All of these have the same parameters:
--   1 job   2 epoch   3 worker   4 result of step_after()   5 outcome   6 step   7 position
--   8 saga   9 output   10 error   11 delay or null   12 passed   13 is it an undo   14 attempts
-- @step_facts
SELECT state = 'cancelling', attempts < max_attempts, saga, undoing, attempts,
       EXISTS (SELECT 1 FROM defib.step WHERE watch = 'queue' AND job = $1 AND state = 'done')
FROM defib.job WHERE id = $1 AND epoch = $2 AND owner = $3;

-- @record_run
INSERT INTO defib.step (watch, job, step, position, state, epoch, output, started_at, finished_at,
                        attempt, worker)
SELECT 'queue', $1, $6, $7, 'done', $2, $9, claimed_at, {now}, $14,
       (SELECT w.name FROM defib.worker w WHERE w.id = $3)
FROM defib.job WHERE id = $1 AND $6 IS NOT NULL
ON CONFLICT (watch, job, step) DO UPDATE
    SET position = excluded.position, state = 'done', epoch = excluded.epoch,
        output = excluded.output, error = NULL, started_at = excluded.started_at,
        finished_at = excluded.finished_at, attempt = excluded.attempt, worker = excluded.worker;

-- As defib.record_attempt(): the run in a step's record, before an undo changes it.
-- @keep_run
INSERT INTO defib.step_attempt (watch, job, step, epoch, position, attempt, worker, outcome,
                                started_at, ended_at)
SELECT watch, job, step, epoch, position, attempt, worker, 'done', started_at, finished_at
FROM defib.step
WHERE watch = 'queue' AND job = $1 AND state = 'done' AND error IS NULL
  AND (step = $6 OR $4 <> 'again' AND step IN (SELECT value ->> 'step'
                                               FROM json_each(coalesce($12, '[]'))))
ON CONFLICT DO NOTHING;

-- @record_attempt
INSERT INTO defib.step_attempt (watch, job, step, epoch, position, attempt, undo, worker, outcome,
                                error, started_at, ended_at)
SELECT 'queue', $1, $6, $2, $7, $14, $13, (SELECT w.name FROM defib.worker w WHERE w.id = $3), $5,
       $10, claimed_at, {now}
FROM defib.job WHERE id = $1 AND $6 IS NOT NULL
ON CONFLICT DO NOTHING;

-- @drop_attempts
DELETE FROM defib.step_attempt
WHERE watch = 'queue' AND job = $1 AND step = $6 AND epoch <= (
    SELECT o.epoch FROM defib.step_attempt o
    WHERE o.watch = 'queue' AND o.job = $1 AND o.step = $6
    ORDER BY o.epoch DESC LIMIT 1 OFFSET 20);

-- @record_undo_again
UPDATE defib.step SET error = coalesce($10, $5), epoch = $2
WHERE watch = 'queue' AND job = $1 AND step = $6;

-- @record_undo
UPDATE defib.step AS s
SET state = e.state, error = e.error, epoch = $2, finished_at = {now},
    started_at = CASE WHEN e.ran THEN (SELECT claimed_at FROM defib.job WHERE id = $1) END,
    attempt = CASE WHEN e.ran THEN $14 END,
    worker = CASE WHEN e.ran THEN (SELECT w.name FROM defib.worker w WHERE w.id = $3) END
FROM (SELECT $6 AS step, CASE $5 WHEN 'done' THEN 'undone' ELSE 'undo_failed' END AS state,
             CASE WHEN $5 <> 'done' THEN coalesce($10, $5) END AS error, 1 AS ran
      UNION ALL
      SELECT value ->> 'step', value ->> 'state', value ->> 'error', 0
      FROM json_each(coalesce($12, '[]'))) AS e
WHERE s.watch = 'queue' AND s.job = $1 AND s.step = e.step AND s.state = 'done';

-- @record_result
INSERT INTO defib.job_data (job, result) SELECT $1, $9 WHERE $9 IS NOT NULL
ON CONFLICT (job) DO UPDATE SET result = excluded.result;

-- As defib.move_after_step().
-- @move_job
UPDATE defib.job AS t
SET owner = NULL,
    state = CASE WHEN $4 IN ('next', 'released', 'rollback') THEN 'queued'
        WHEN $4 = 'again' THEN 'scheduled' ELSE $4 END,
    attempts = CASE WHEN $4 IN ('next', 'rollback') THEN 0
        ELSE t.attempts - ($5 IN ('released', 'stopped')) END,
    crashes = t.crashes + ($5 = 'crashed'),
    saga = CASE WHEN $4 = 'rolled_back' THEN 0 WHEN $5 = 'done' AND NOT t.undoing THEN $8
        ELSE t.saga END,
    undoing = $4 = 'rollback' OR (t.undoing AND $4 <> 'rolled_back'),
    finished_at = CASE WHEN $4 IN ('done', 'failed', 'timed_out', 'cancelled', 'rolled_back')
        THEN {now} END,
    run_at = CASE WHEN $4 <> 'again' THEN t.run_at
        ELSE {now} + coalesce($11, abs(random())
            % min(3600000, 1000 * (1 << min(t.attempts, 12)))) END,
    cause = CASE WHEN t.undoing OR $5 IN ('released', 'stopped') THEN t.cause
        WHEN $5 = 'done' THEN NULL WHEN $5 = 'timed_out' THEN 'time-out'
        WHEN $5 = 'crashed' THEN 'crash' ELSE 'error' END,
    error = CASE WHEN $4 = 'rolled_back'
            THEN (SELECT coalesce(t.error || '; ' || n.text, t.error, n.text)
                  FROM (SELECT 'could not undo: '
                               || group_concat(step || coalesce(' (' || error || ')', ''), ', ')
                               AS text
                        FROM (SELECT * FROM defib.step
                              WHERE watch = 'queue' AND job = $1 AND state = 'undo_failed'
                              ORDER BY position DESC)) n)
        WHEN t.undoing OR $5 IN ('released', 'stopped') THEN t.error
        ELSE $10 END
WHERE t.id = $1;

-- @note_rollback
INSERT INTO defib.ledger (batch, watch, job, event, actor, reason, evidence, epoch)
SELECT 'workflow', 'queue', $1, 'ROLLBACK_STARTED', 'worker:' || $3, $10,
       json_object('step', $6, 'outcome', $5, 'error', $10, 'attempts', $14), $2;

-- @note_undo_failed
INSERT INTO defib.ledger (batch, watch, job, event, actor, reason, evidence, epoch)
SELECT 'workflow', 'queue', $1, 'UNDO_FAILED', 'worker:' || $3, error,
       json_object('step', step, 'error', error), $2
FROM defib.step
WHERE watch = 'queue' AND job = $1 AND state = 'undo_failed' AND epoch = $2;

-- json(): newer versions of SQLite take the result of a subquery for text.
-- @note_rolled_back
INSERT INTO defib.ledger (batch, watch, job, event, actor, reason, evidence, epoch)
SELECT 'workflow', 'queue', $1, 'ROLLED_BACK', 'worker:' || $3,
       (SELECT 'could not undo: ' || group_concat(step || coalesce(' (' || error || ')', ''), ', ')
        FROM (SELECT * FROM defib.step
              WHERE watch = 'queue' AND job = $1 AND state = 'undo_failed'
              ORDER BY position DESC)),
       json_object('undone', json((SELECT json_group_array(step)
                                   FROM (SELECT step FROM defib.step
                                         WHERE watch = 'queue' AND job = $1 AND state = 'undone'
                                         ORDER BY position DESC))),
                   'not_undone', json((SELECT json_group_array(json_object('step', step, 'error', error))
                                       FROM (SELECT step, error FROM defib.step
                                             WHERE watch = 'queue' AND job = $1
                                               AND state = 'undo_failed'
                                             ORDER BY position DESC)))),
       $2;

-- As defib.repeated_steps(): its epoch is in the record, or the job is in the state that only it
-- leaves.
-- @repeated_step
SELECT CASE
    WHEN s.step IS NULL AND $6 IS NULL AND $5 = 'done'
        THEN j.state = CASE WHEN $13 THEN 'rolled_back' ELSE 'done' END
    WHEN s.step IS NULL
        THEN NOT $13 AND $5 <> 'done' AND j.state = 'queued' AND j.undoing
             AND j.cause IS NOT 'lost'
    ELSE ($5 = 'done') = (s.state <> 'undo_failed' AND s.error IS NULL) END
FROM (SELECT 1)
LEFT JOIN defib.step s ON s.watch = 'queue' AND s.job = $1 AND s.step = $6 AND s.epoch = $2
LEFT JOIN defib.job j ON j.id = $1 AND j.epoch = $2
WHERE $5 NOT IN ('released', 'stopped');

-- @enqueue: queue, kind, state, delay, priority, max_attempts, timeout or null, unique key or null
INSERT INTO defib.job (queue, kind, state, created_at, run_at, priority, max_attempts, timeout_ms,
                       unique_key)
VALUES ($1, $2, $3, {now}, {now} + $4, $5, $6, $7, $8)
ON CONFLICT DO NOTHING RETURNING id;

-- @same_unique_key: queue, unique key
SELECT id FROM defib.job
WHERE queue = $1 AND unique_key = $2
  AND (state = 'scheduled' OR state = 'queued' OR state = 'running' OR state = 'cancelling');

-- @enqueue_data: job, payload, tags
INSERT INTO defib.job_data (job, payload, tags) VALUES ($1, $2, $3);

-- @cancel: job
UPDATE defib.job
SET state = CASE WHEN owner IS NOT NULL THEN 'cancelling' ELSE 'cancelled' END,
    finished_at = CASE WHEN owner IS NULL THEN {now} END
WHERE id = $1 AND state IN ('scheduled', 'queued', 'running', 'cancelling', 'held') AND NOT undoing
RETURNING state;

-- Whether there is anything to promote: an idle check takes no lock.
-- @promote_look
SELECT 1 FROM defib.job WHERE state = 'scheduled' AND run_at <= {now} LIMIT 1;

-- @promote: most
UPDATE defib.job SET state = 'queued'
WHERE id IN (SELECT id FROM defib.job WHERE state = 'scheduled' AND run_at <= {now}
             ORDER BY run_at LIMIT $1);

-- @progress: worker, job, epoch, step, text
INSERT INTO defib.progress AS p (job, epoch, at, step, progress)
SELECT id, epoch, {now}, $4, $5 FROM defib.job WHERE id = $2 AND epoch = $3 AND owner = $1
ON CONFLICT (job) DO UPDATE SET epoch = excluded.epoch, at = excluded.at,
    step = coalesce(excluded.step, p.step), progress = excluded.progress
RETURNING 1;

-- The number of a worker is made as in defib.worker_id(): the next one, then the nonce.
-- @register: name, incarnation, lease in ms, what it serves
INSERT INTO defib.worker (id, name, incarnation, lease_ms, started_at, renewed_at, expires_at, serves)
SELECT (coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'defib_worker'), 0) / 1000000000 + 1)
        * 1000000000 + abs(random() % 1000000000),
    $1, $2, $3, {now}, {now}, {now} + {span_ms $3}, $4
WHERE true
ON CONFLICT (incarnation) DO UPDATE
SET renewed_at = excluded.renewed_at, expires_at = excluded.expires_at
WHERE state = 'alive'
RETURNING id;
