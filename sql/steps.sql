-- Statements of src/ledger/retries.c on the steps of workflows, for every engine. Each part begins
-- with a line "-- @name".

-- @keep_finished: watch, job, step: what the records say about attempts from that step on, before
-- the steps run again
INSERT INTO defib.step_attempt (watch, job, step, epoch, position, attempt, undo, worker, outcome,
    error, started_at, ended_at)
SELECT watch, job, step, epoch, position, attempt, state <> 'done', worker,
    CASE state WHEN 'undo_failed' THEN 'failed' ELSE 'done' END, error, started_at, finished_at
FROM defib.step
WHERE watch = $1 AND job = $2 AND attempt IS NOT NULL
  AND (state IN ('undone', 'undo_failed') OR state = 'done' AND error IS NULL)
  AND position >= (SELECT position FROM defib.step WHERE watch = $1 AND job = $2 AND step = $3)
ON CONFLICT DO NOTHING
