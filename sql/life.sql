-- Statements of src/life on every engine. Each part begins with a line "-- @name"; {{rows}} stands
-- for the SELECT of a list. They are translated as src/store/dialect.h describes: {now} is the clock.

-- @lead: asks for the leadership of watches ({{rows}}: watch, holder, lease_ms). Nothing is written,
-- and no row locked, if a live leader exists.
INSERT INTO defib.leader AS l (watch, holder, since, expires_at)
SELECT u.watch, u.holder, {now}, {now} + {span_ms u.lease_ms}
FROM ({{rows}}) AS u
WHERE NOT EXISTS (
    SELECT 1 FROM defib.leader AS o
    WHERE o.watch = u.watch AND o.holder <> u.holder
      AND o.holder IN (SELECT d.holder FROM defib.leader AS d WHERE d.expires_at >= {now}))
ORDER BY 1
ON CONFLICT (watch) DO UPDATE
SET holder = excluded.holder, expires_at = excluded.expires_at,
    epoch = l.epoch + (l.holder <> excluded.holder)::int,
    since = CASE WHEN l.holder = excluded.holder THEN l.since ELSE excluded.since END
WHERE l.holder = excluded.holder OR l.expires_at < {now}
RETURNING watch
