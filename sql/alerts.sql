-- Statements of src/alert/alert_store.c, for every engine. Each part begins with a line "-- @name",
-- and is translated as src/store/dialect.h describes: {now} is the clock.

-- @take: sink, lease. The next message that is due. It waits behind an unfinished one of its topic,
-- even if that one is not due.
UPDATE defib.delivery
SET tries = CASE WHEN tries BETWEEN 0 AND 1000 THEN tries ELSE 0 END + 1,
    due_at = {now} + {span $2::bigint}
WHERE seq = (
    SELECT d.seq FROM defib.delivery AS d
    WHERE d.sink = $1 AND d.ended IS NULL AND d.due_at <= {now}
      AND NOT EXISTS (SELECT 1 FROM defib.delivery AS e
                      WHERE e.sink = d.sink AND e.ended IS NULL AND e.seq < d.seq
                        AND e.topic = d.topic)
    ORDER BY d.seq LIMIT 1{skip_locked})
RETURNING seq, tries, kind, id, document::text, {us {now}} - {us made_at}

-- @write: a state, and what it was before: it is not written if another process has changed it
INSERT INTO defib.alert AS x (watch, rule, severity, state, since, fired_at, told_at, repeats, value,
    sentence, topic, holder)
VALUES ($1, $2, $3, $4, {instant nullif($5::bigint, 0)}, {instant nullif($6::bigint, 0)},
    {instant nullif($7::bigint, 0)}, $8, CAST($9 AS float8), $10, $11, $12)
ON CONFLICT (watch, rule) DO UPDATE
SET severity = excluded.severity, state = excluded.state, since = excluded.since,
    fired_at = excluded.fired_at, told_at = excluded.told_at, repeats = excluded.repeats,
    value = excluded.value, sentence = excluded.sentence, topic = excluded.topic,
    holder = excluded.holder
WHERE x.state = $13 AND x.since = {instant nullif($14::bigint, 0)} AND x.repeats = $15
