/* SPDX-License-Identifier: Apache-2.0
 * source_table_own_sql.c: the statements of a table's source that touch only
 * defib's own tables: leases, workers and the steps of workflows.
 */
#include "store/dialect.h"
#include "watch/compile.h"
#include "watch/lease_sql.h"
#include "watch/timesql.h"
#include "worker/source_table_inside.h"

/* Before the name of a table of ours. */
static const char *own(const struct binding *b)
{
	return dialect_of(b->engine)->own;
}

const char *sql_finish(struct buf *sql, struct arena *a)
{
	const char *text = arena_strdup(a, buf_text(sql));
	buf_release(sql);
	return text;
}

void sql_parameter(const struct binding *b, int n, struct buf *out)
{
	parameter(b, n, "bigint", out);
}

void sql_of_watch(const struct binding *b, const char *alias, struct buf *out)
{
	buf_addf(out, "%s.watch = ", alias);
	sql_literal(out, b->watch->name);
}

/* ---- relations ---- */

void given_relation(enum store_engine engine, struct relation *r)
{
	relation_init(r, engine);
	relation_column(r, "pos", "bigint");
	relation_column(r, "job", "text");
	relation_column(r, "epoch", "bigint");
}

void ended_relation(enum store_engine engine, struct relation *r)
{
	relation_init(r, engine);
	relation_column(r, "job", "text");
	relation_column(r, "settled", "bigint");
	relation_column(r, "attempts", "bigint");
	relation_column(r, "pause_ms", "bigint");
}

void jobs_only_relation(enum store_engine engine, struct relation *r)
{
	relation_init(r, engine);
	relation_column(r, "job", "text");
}

void runs_relation(enum store_engine engine, struct relation *r)
{
	jobs_only_relation(engine, r);
	relation_column(r, "step", "text");
	relation_column(r, "position", "bigint");
	relation_column(r, "epoch", "bigint");
	relation_column(r, "output", "jsonb");
}

void undos_relation(enum store_engine engine, struct relation *r)
{
	jobs_only_relation(engine, r);
	relation_column(r, "step", "text");
	relation_column(r, "state", "text");
	relation_column(r, "error", "text");
	relation_column(r, "epoch", "bigint");
}

/* (SELECT … ) AS g, with parameters from `first` on */
static void from_given(const struct binding *b, int first, struct buf *out)
{
	struct relation r;
	given_relation(b->engine, &r);
	buf_add(out, " FROM (");
	relation_select(&r, first, out);
	buf_add(out, ") AS g");
	relation_release(&r);
}

/* ---- claim ---- */

/* With the claim that is being made, how many there were since one was settled … */
#define LOST "coalesce(epoch - settled_epoch, attempts)"
/* … and after more than these, two workers in a row died with it in hand. */
#define ALONE "2"

/*
 * The row is locked by then, so nobody else takes the same lease at once. Only
 * a worker that was declared dead can be settling it; if the two deadlock, the
 * database ends one of them and it is tried again.
 */
static const char *compile_take(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	struct relation r;
	jobs_only_relation(b->engine, &r);
	buf_addf(&sql,
	         "INSERT INTO %slease AS l (watch, job, epoch, owner, claimed_at, attempts)\nSELECT ",
	         own(b));
	sql_literal(&sql, b->watch->name);
	dialect_add(dialect_of(b->engine), &sql, ", u.job, 1 + " LEASE_FLOOR ", ");
	sql_parameter(b, 1, &sql);
	buf_addf(&sql, ", %s, 1 FROM (", dialect_text(dialect_of(b->engine), "now"));
	relation_select(&r, 2, &sql);
	buf_addf(
		&sql,
		") AS u WHERE true\nON CONFLICT (watch, job) DO UPDATE SET owner = excluded.owner, "
		"epoch = l.epoch + 1, claimed_at = excluded.claimed_at, attempts = l.attempts + 1, "
		"run_at = NULL\nWHERE l.owner IS NULL OR NOT EXISTS (SELECT 1 FROM %sworker AS w WHERE "
		"w.id = l.owner AND w.state = 'alive')\nRETURNING job, epoch, attempts, " LOST " > " ALONE,
		own(b));
	relation_release(&r);
	return sql_finish(&sql, a);
}

static const char *compile_live(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_addf(&sql, "SELECT w.name, %s FROM %sworker AS w WHERE w.state = 'alive' AND w.id = ",
	         sql_now_us(b->engine), own(b));
	sql_parameter(b, 1, &sql);
	return sql_finish(&sql, a);
}

/* ---- settle ---- */

static const char *compile_lock_leases(const struct binding *b, const char *lock, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_addf(&sql, "SELECT g.pos, l.attempts, w.name, %s", sql_now_us(b->engine));
	from_given(b, 2, &sql);
	buf_addf(&sql, "\nJOIN %slease AS l ON ", own(b));
	sql_of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.job = g.job AND l.epoch = g.epoch AND l.owner = ");
	sql_parameter(b, 1, &sql);
	buf_addf(&sql, "\nLEFT JOIN %sworker AS w ON w.id = l.owner%s", own(b),
	         dialect_of(b->engine)->has_row_locks ? lock : "");
	return sql_finish(&sql, a);
}

static const char *compile_repeated(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT g.pos");
	from_given(b, 2, &sql);
	buf_addf(&sql, "\nJOIN %slease AS l ON ", own(b));
	sql_of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.job = g.job AND l.settled_epoch = g.epoch AND l.settled_by = ");
	sql_parameter(b, 1, &sql);
	return sql_finish(&sql, a);
}

static const char *compile_now_held(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT g.pos, l.epoch, l.owner");
	from_given(b, 1, &sql);
	buf_addf(&sql, "\nLEFT JOIN %slease AS l ON ", own(b));
	sql_of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.job = g.job");
	return sql_finish(&sql, a);
}

static const char *compile_end_leases(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	struct relation r;
	ended_relation(b->engine, &r);
	dialect_add(
		dialect_of(b->engine), &sql,
		"UPDATE defib.lease AS l SET owner = NULL, attempts = g.attempts,\n  run_at = {now} "
		"+ {span_ms g.pause_ms},\n  settled_by = CASE WHEN g.settled IS NULL THEN "
		"l.settled_by ELSE ");
	sql_parameter(b, 1, &sql);
	buf_add(&sql, " END, settled_epoch = coalesce(g.settled, l.settled_epoch)\nFROM (");
	relation_select(&r, 2, &sql);
	buf_add(&sql, ") AS g WHERE ");
	sql_of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.job = g.job");
	relation_release(&r);
	return sql_finish(&sql, a);
}

/* ---- steps ---- */

/* In the order of enum step_column. */
static const char *compile_steps(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	struct relation r;
	jobs_only_relation(b->engine, &r);
	buf_add(&sql, "SELECT s.job, s.step, s.state, s.output, s.error FROM (");
	relation_select(&r, 1, &sql);
	buf_addf(&sql, ") AS g JOIN %sstep AS s ON ", own(b));
	sql_of_watch(b, "s", &sql);
	buf_add(&sql, " AND s.job = g.job\nORDER BY s.job, s.position, s.step");
	relation_release(&r);
	return sql_finish(&sql, a);
}

static const char *compile_record_runs(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	struct relation r;
	runs_relation(b->engine, &r);
	buf_addf(&sql,
	         "INSERT INTO %sstep (watch, job, step, position, state, epoch, output, started_at, "
	         "finished_at)\nSELECT l.watch, g.job, g.step, g.position, 'done', g.epoch, g.output, "
	         "l.claimed_at, %s FROM (",
	         own(b), dialect_text(dialect_of(b->engine), "now"));
	relation_select(&r, 1, &sql);
	buf_addf(&sql, ") AS g JOIN %slease AS l ON ", own(b));
	sql_of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.job = g.job WHERE true\nON CONFLICT (watch, job, step) DO UPDATE SET "
	              "position = excluded.position, state = excluded.state, epoch = excluded.epoch, "
	              "output = excluded.output, error = NULL, started_at = excluded.started_at, "
	              "finished_at = excluded.finished_at");
	relation_release(&r);
	return sql_finish(&sql, a);
}

static const char *compile_record_undos(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	struct relation r;
	undos_relation(b->engine, &r);
	buf_addf(
		&sql,
		"UPDATE %sstep AS s SET state = g.state, error = g.error, epoch = g.epoch,\n  finished_at "
		"= CASE WHEN g.state = 'done' THEN s.finished_at ELSE %s END\nFROM (",
		own(b), dialect_text(dialect_of(b->engine), "now"));
	relation_select(&r, 1, &sql);
	buf_add(&sql, ") AS g WHERE ");
	sql_of_watch(b, "s", &sql);
	buf_add(&sql, " AND s.job = g.job AND s.step = g.step AND s.state = 'done'");
	relation_release(&r);
	return sql_finish(&sql, a);
}

/* ---- the rest ---- */

static const char *compile_owned(const struct binding *b, const char *more, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_addf(&sql, "SELECT l.job, l.epoch FROM %slease AS l WHERE ", own(b));
	sql_of_watch(b, "l", &sql);
	buf_add(&sql, " AND l.owner = ");
	sql_parameter(b, 1, &sql);
	buf_add(&sql, more);
	return sql_finish(&sql, a);
}

void table_sql_own(const struct binding *b, struct arena *a, struct table_sql *out)
{
	out->live = compile_live(b, a);
	out->take = compile_take(b, a);
	out->lock_leases = compile_lock_leases(b, "\nFOR UPDATE OF l", a);
	out->beat_leases = compile_lock_leases(b, "\nFOR UPDATE OF l SKIP LOCKED", a);
	out->repeated = compile_repeated(b, a);
	out->end_leases = compile_end_leases(b, a);
	out->now_held = compile_now_held(b, a);
	out->owned = compile_owned(b, "", a);
	out->holds = compile_owned(
		b, dialect_sql(dialect_of(b->engine), a, " AND l.job = $2 AND l.epoch = $3"), a);
	out->steps = compile_steps(b, a);
	out->record_runs = compile_record_runs(b, a);
	out->record_undos = compile_record_undos(b, a);
}
