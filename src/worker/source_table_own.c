/* SPDX-License-Identifier: Apache-2.0
 * source_table_own.c: the statements of a table's worker on defib's own tables: leases, workers,
 * and the steps of workflows with the attempts at them.
 */
#include "store/dialect.h"
#include "watch/lease_sql.h"
#include "worker/source_table_inside.h"

void own_relation(enum own_rows of, enum store_engine engine, struct relation *r)
{
	/* Alternating names and types. */
	static const char *const columns[][15] = {
		[ROWS_GIVEN] = {"pos", "bigint", "job", "text", "epoch", "bigint"},
		[ROWS_JOBS] = {"job", "text"},
		[ROWS_RUNS] = {"job", "text", "step", "text", "position", "bigint", "epoch", "bigint",
	                   "output", "jsonb"},
		[ROWS_UNDOS] = {"job", "text", "step", "text", "state", "text", "error", "text", "epoch",
	                    "bigint", "ran", "bigint"},
		[ROWS_ATTEMPTS] = {"job", "text", "step", "text", "position", "bigint", "epoch", "bigint",
	                       "undo", "bigint", "outcome", "text", "error", "text"},
		[ROWS_ENDED] = {"job", "text", "settled", "bigint", "attempts", "bigint", "pause_ms",
	                    "bigint"},
	};
	relation_make(r, engine, columns[of]);
}

/* Claims, including the current one, since one was last settled … */
#define LOST "coalesce(epoch - settled_epoch, attempts)"
/* … and above this, two workers in a row died with it in hand. */
#define ALONE "2"

/* The leases of given jobs that this worker has. */
#define GIVEN_LEASES                                                                               \
	"SELECT g.pos, l.attempts, w.name, {us {now}} FROM (@rows) AS g\nJOIN defib.lease AS l ON "    \
	"l.watch = @watch AND l.job = g.job AND l.epoch = g.epoch AND l.owner = $1::bigint\nLEFT "     \
	"JOIN defib.worker AS w ON w.id = l.owner"
#define OWN_LEASES                                                                                 \
	"SELECT l.job, l.epoch FROM defib.lease AS l WHERE l.watch = @watch AND l.owner = $1::bigint"

/* The lease and the worker of each row. */
#define OF_LEASE                                                                                   \
	" JOIN defib.lease AS l ON l.watch = @watch AND l.job = g.job LEFT JOIN defib.worker AS w ON " \
	"w.id = l.owner"

/* @watch is the watch's name, @rows the SELECT of the relation; the rest needs translation. */
static const struct own_statement {
	size_t member; /* of struct table_sql */
	enum own_rows rows;
	const char *sql;
	const char *lock; /* added if rows can be locked; or NULL */
} own_statements[] = {
#define M(name) offsetof(struct table_sql, name)
	{M(live), ROWS_NONE,
     "SELECT w.name, {us {now}} FROM defib.worker AS w WHERE w.state = 'alive' AND w.id = "
     "$1::bigint",
     NULL},
	/*
     * The row is locked by then, so no other worker takes the same lease at once. Only a worker
     * that was declared dead can be settling it; if the two deadlock, the database ends one of them
     * and it is tried again.
     */
	{M(take), ROWS_JOBS,
     "INSERT INTO defib.lease AS l (watch, job, epoch, owner, claimed_at, attempts)\nSELECT "
     "@watch, "
     "u.job, 1 + " LEASE_FLOOR ", $1::bigint, {now}, 1 FROM (@rows) AS u WHERE true\nON CONFLICT "
     "(watch, job) DO UPDATE SET owner = excluded.owner, epoch = l.epoch + 1, claimed_at = "
     "excluded.claimed_at, attempts = l.attempts + 1, by_beat = false, "
     "run_at = NULL\nWHERE l.owner IS NULL OR NOT "
     "EXISTS (SELECT 1 FROM defib.worker AS w WHERE w.id = l.owner AND w.state = 'alive')\n"
     "RETURNING job, epoch, attempts, " LOST " > " ALONE,
     NULL},
	{M(lock_leases), ROWS_GIVEN, GIVEN_LEASES, "\nFOR UPDATE OF l"},
	{M(beat_leases), ROWS_GIVEN, GIVEN_LEASES, "\nFOR UPDATE OF l SKIP LOCKED"},
	{M(repeated), ROWS_GIVEN,
     "SELECT g.pos FROM (@rows) AS g\nJOIN defib.lease AS l ON l.watch = @watch AND l.job = g.job "
     "AND l.settled_epoch = g.epoch AND l.settled_by = $1::bigint",
     NULL},
	{M(now_held), ROWS_GIVEN,
     "SELECT g.pos, l.epoch, l.owner FROM (@rows) AS g\nLEFT JOIN defib.lease AS l ON l.watch = "
     "@watch AND l.job = g.job",
     NULL},
	{M(end_leases), ROWS_ENDED,
     "UPDATE defib.lease AS l SET owner = NULL, attempts = g.attempts,\n  run_at = {now} + "
     "{span_ms g.pause_ms},\n  settled_by = CASE WHEN g.settled IS NULL THEN l.settled_by ELSE "
     "$1::bigint END, settled_epoch = coalesce(g.settled, l.settled_epoch)\nFROM (@rows) AS g "
     "WHERE l.watch = @watch AND l.job = g.job",
     NULL},
	{M(owned), ROWS_NONE, OWN_LEASES, NULL},
	{M(holds), ROWS_NONE, OWN_LEASES " AND l.job = $2 AND l.epoch = $3", NULL},
	/* In the order of enum step_column. */
	{M(steps), ROWS_JOBS,
     "SELECT s.job, s.step, s.state, s.output, s.error FROM (@rows) AS g JOIN defib.step AS s ON "
     "s.watch = @watch AND s.job = g.job\nORDER BY s.job, s.position, s.step",
     NULL},
	{M(record_runs), ROWS_RUNS,
     "INSERT INTO defib.step (watch, job, step, position, state, epoch, output, started_at, "
     "finished_at, attempt, worker)\nSELECT l.watch, g.job, g.step, g.position, 'done', g.epoch, "
     "g.output, l.claimed_at, {now}, l.attempts, w.name FROM (@rows) AS g" OF_LEASE
     " WHERE true\nON CONFLICT (watch, job, step) DO UPDATE SET position = excluded.position, "
     "state = excluded.state, epoch = excluded.epoch, output = excluded.output, error = NULL, "
     "started_at = excluded.started_at, finished_at = excluded.finished_at, attempt = "
     "excluded.attempt, worker = excluded.worker",
     NULL},
	/* The run in a step's record, before an undo changes it. */
	{M(keep_runs), ROWS_UNDOS,
     "INSERT INTO defib.step_attempt (watch, job, step, epoch, position, attempt, worker, outcome, "
     "started_at, ended_at)\nSELECT s.watch, s.job, s.step, s.epoch, s.position, s.attempt, "
     "s.worker, 'done', s.started_at, s.finished_at FROM (@rows) AS g JOIN defib.step AS s ON "
     "s.watch = @watch AND s.job = g.job AND s.step = g.step WHERE s.state = 'done' AND s.error IS "
     "NULL\nON CONFLICT DO NOTHING",
     NULL},
	{M(record_undos), ROWS_UNDOS,
     "UPDATE defib.step AS s SET state = u.state, error = u.error, epoch = u.epoch,\n  finished_at "
     "= CASE WHEN u.state = 'done' THEN s.finished_at ELSE {now} END,\n  started_at = CASE WHEN "
     "u.state = 'done' THEN s.started_at WHEN u.ran = 1 THEN u.claimed_at END,\n  attempt = CASE "
     "WHEN u.state = 'done' THEN s.attempt WHEN u.ran = 1 THEN u.attempts END,\n  worker = CASE "
     "WHEN u.state = 'done' THEN s.worker WHEN u.ran = 1 THEN u.name END\nFROM (SELECT g.*, "
     "l.claimed_at, l.attempts, w.name FROM (@rows) AS g" OF_LEASE ") AS u WHERE s.watch = @watch "
     "AND s.job = u.job AND s.step = u.step AND s.state = 'done'",
     NULL},
	{M(record_attempts), ROWS_ATTEMPTS,
     "INSERT INTO defib.step_attempt (watch, job, step, epoch, position, attempt, undo, worker, "
     "outcome, error, started_at, ended_at)\nSELECT l.watch, g.job, g.step, g.epoch, g.position, "
     "l.attempts, g.undo = 1, w.name, g.outcome, g.error, l.claimed_at, {now} FROM (@rows) AS "
     "g" OF_LEASE " WHERE true\nON CONFLICT DO NOTHING",
     NULL},
	{M(drop_attempts), ROWS_ATTEMPTS,
     "DELETE FROM defib.step_attempt WHERE (watch, job, step, epoch) IN (SELECT a.watch, a.job, "
     "a.step, a.epoch FROM (@rows) AS g JOIN defib.step_attempt AS a ON a.watch = @watch AND a.job "
     "= g.job AND a.step = g.step WHERE (SELECT count(*) FROM defib.step_attempt AS o WHERE "
     "o.watch "
     "= a.watch AND o.job = a.job AND o.step = a.step AND o.epoch > a.epoch) >= 20)",
     NULL},
#undef M
};

static const char *compile_own(const struct binding *b, const struct own_statement *s,
                               struct arena *a)
{
	AUTO_BUF sql = BUF_INIT;
	AUTO_RELATION r = {0};
	own_relation(s->rows, b->engine, &r);
	for (const char *at = s->sql; *at; at++) {
		if (text_starts(at, "@watch")) {
			sql_literal(&sql, b->watch->name);
			at += strlen("@watch") - 1;
		} else if (text_starts(at, "@rows")) {
			relation_select(&r, strstr(s->sql, "$1") ? 2 : 1, &sql);
			at += strlen("@rows") - 1;
		} else {
			buf_addch(&sql, *at);
		}
	}
	if (s->lock && dialect_of(b->engine)->has_row_locks)
		buf_add(&sql, s->lock);
	return dialect_sql(dialect_of(b->engine), a, buf_text(&sql));
}

void own_statements_compile(const struct binding *b, struct arena *a, struct table_sql *out)
{
	for (size_t i = 0; i < sizeof own_statements / sizeof *own_statements; i++)
		*(const char **)((char *)out + own_statements[i].member) =
			compile_own(b, &own_statements[i], a);
}
