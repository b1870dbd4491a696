/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/stats_sql.h"

#include "store/dialect.h"
#include "store/sql.h"
#include "watch/list_sql.h"
#include "watch/timesql.h"

/* Number of evenly spaced ranges of row ids. */
#define STRETCHES 100

void table_size_sql(const struct binding *b, struct buf *out)
{
	if (dialect_of(b->engine)->has_page_samples) {
		buf_add(out, "SELECT coalesce((SELECT sum(pg_relation_size(p.relid)) FROM "
		             "pg_partition_tree(c.oid) AS p), pg_relation_size(c.oid))::bigint / "
		             "current_setting('block_size')::bigint, NULL FROM pg_class AS c "
		             "WHERE c.oid = to_regclass($1) AND c.relkind IN ('r', 'p', 'm')");
		return;
	}
	buf_add(out, "SELECT (SELECT max(t.rowid)");
	from_table(b, out);
	buf_add(out, "), (SELECT min(t.rowid)");
	from_table(b, out);
	buf_add(out, ")");
}

struct stats_sample stats_sample(enum store_engine engine, int64_t size, int64_t first)
{
	struct stats_sample all = {.share = 0};
	int64_t span = size - first + 1;
	bool pages = dialect_of(engine)->has_page_samples;
	if (pages ? size <= 2 * SAMPLE_PAGES : span <= (int64_t)2 * SAMPLE_ROWS)
		return all;
	if (pages)
		return (struct stats_sample){.share = (double)SAMPLE_PAGES / (double)size};
	return (struct stats_sample){(double)SAMPLE_ROWS / (double)span, first, span};
}

static void from_sample(const struct binding *b, const struct stats_sample *sample, struct buf *out)
{
	if (sample->share > 0 && !dialect_of(b->engine)->has_page_samples) {
		buf_addf(out,
		         "\nFROM (WITH RECURSIVE defib_n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM "
		         "defib_n WHERE i < %d) SELECT %lld + i * %lld AS defib_at FROM defib_n)\n"
		         "CROSS JOIN ",
		         STRETCHES - 1, (long long)sample->first, (long long)sample->span / STRETCHES);
		sql_table(out, b->watch->table);
		buf_addf(out, " AS t ON t.rowid >= defib_at AND t.rowid < defib_at + %d",
		         SAMPLE_ROWS / STRETCHES);
		return;
	}
	from_table(b, out);
	if (sample->share > 0)
		buf_addf(out, " TABLESAMPLE SYSTEM (%.9f) REPEATABLE (1)", 100 * sample->share);
}

static void where_rows(const struct binding *b, const struct stats_sample *sample, struct buf *out)
{
	from_sample(b, sample, out);
	if (b->watch->stats.where.text)
		buf_addf(out, "\nWHERE (%s)", b->watch->stats.where.text);
}

bool states_sql(const struct binding *b, const struct stats_sample *sample, struct buf *out)
{
	AUTO_BUF state = BUF_INIT;
	bool known = state_sql(b, &state);
	if (known) {
		buf_add(out, "SELECT ");
		dialect_cast(dialect_of(b->engine), out, buf_text(&state), "text");
		buf_add(out, " AS defib_state, count(*) AS defib_n");
		where_rows(b, sample, out);
		buf_addf(out, "\nGROUP BY 1 ORDER BY 2 DESC, 1 LIMIT %d", STATS_STATES_MAX);
	}
	return known;
}

bool few_states_sql(const struct binding *b, struct buf *out)
{
	const struct stats *st = &b->watch->stats;
	AUTO_BUF state = BUF_INIT;
	bool known = st->indexed_states.n > 0 && state_sql(b, &state);
	if (known)
		buf_add(out, "SELECT defib_state, count(*), sum(defib_failed) FROM (");
	for (int i = 0; known && i < st->indexed_states.n; i++) {
		buf_add(out, i ? "\nUNION ALL SELECT * FROM (SELECT " : "SELECT * FROM (SELECT ");
		sql_literal(out, st->indexed_states.items[i]);
		buf_addf(out, " AS defib_state, CASE WHEN %s THEN 1 ELSE 0 END AS defib_failed",
		         st->failed.text ? st->failed.text : "false");
		from_table(b, out);
		buf_addf(out, " WHERE %s = ", buf_text(&state));
		sql_literal(out, st->indexed_states.items[i]);
		buf_addf(out, " LIMIT %d) AS defib_s%d", FEW_STATES_MAX, i);
	}
	if (known)
		buf_add(out, ") AS defib_s GROUP BY 1");
	return known;
}

/* For each row: whether it failed, whether it ended, and how long it took. */
static void each_end(const struct binding *b, const struct stats_sample *sample, struct buf *out)
{
	const struct stats *s = &b->watch->stats;
	buf_addf(out, "SELECT (%s) IS TRUE AS failed, ", s->failed.text ? s->failed.text : "false");
	if (s->finished_at.text)
		buf_addf(out, "(%s) IS NOT NULL AS ended, ", s->finished_at.text);
	else
		buf_add(out, "false AS ended, ");
	if (s->finished_at.text && s->started_at.text) {
		sql_time_us(b, b->time, s->finished_at.text, out);
		buf_add(out, " - ");
		sql_time_us(b, b->time, s->started_at.text, out);
	} else {
		buf_add(out, "CAST(NULL AS bigint)");
	}
	buf_add(out, " AS took");
	where_rows(b, sample, out);
}

bool ends_sql(const struct binding *b, const struct stats_sample *sample, struct buf *out)
{
	const struct stats *s = &b->watch->stats;
	if (!s->failed.text && !s->finished_at.text)
		return false;
	buf_add(out, "WITH defib_ends AS (");
	each_end(b, sample, out);
	buf_addf(out, ")\nSELECT %s, %s, count(took), CAST(avg(took) AS bigint), ",
	         s->failed.text ? "count(*) FILTER (WHERE failed)" : "NULL",
	         s->finished_at.text ? "count(*) FILTER (WHERE ended AND NOT failed)" : "NULL");
	dialect_add(dialect_of(b->engine), out,
	            "{percentile 95|took::bigint|defib_ends} FROM defib_ends");
	return true;
}

/* ---- how many jobs wait ---- */

int depth_states(const struct watch *w, struct depth_state *out)
{
	const struct stats *s = &w->stats;
	int n = 0;
	const char *ready = s->ready.text        ? s->ready.text
	                    : w->work.ready.text ? w->work.ready.text
	                                         : w->waiting.text;
	if (ready)
		out[n++] = (struct depth_state){DEPTH_READY, ready};
	if (s->scheduled.text)
		out[n++] = (struct depth_state){"scheduled", s->scheduled.text};
	return n;
}

void depth_sql(const struct binding *b, const struct depth_state *s, struct buf *out)
{
	buf_addf(out, "SELECT count(*), %s - min(defib_since) FROM (SELECT ", sql_now_us(b->engine));
	since_sql(b, out);
	buf_add(out, " AS defib_since");
	from_table(b, out);
	buf_addf(out, "\nWHERE (%s)\nLIMIT %d) AS defib_q", s->where, DEPTH_COUNT_MAX);
}

/* ---- how long runs took ---- */

/*
 * A condition in the column's own form that can use an index, if there is one; it may let a row too
 * many through. ISO texts sort by their day, whatever follows it and in whatever zone: hence one
 * day of margin.
 */
static void bare_condition(const struct binding *b, const char *expr, struct buf *out)
{
	AUTO_BUF after = BUF_INIT;
	parameter(b, 1, "bigint", &after);
	bool number = b->time == TIME_TYPE_EPOCH || b->time == TIME_TYPE_EPOCH_MS;
	if (number || (dialect_of(b->engine)->has_time_types && b->time != TIME_TYPE_TEXT)) {
		buf_addf(out, "\n  AND (%s) >= ", expr);
		sql_time_value(b, buf_text(&after), out);
	} else if (!dialect_of(b->engine)->has_time_types) {
		buf_addf(out,
		         "\n  AND (%s) >= strftime('%%Y-%%m-%%d', %s / 1000000.0, 'unixepoch', '-1 day')",
		         expr, buf_text(&after));
	}
}

static void stats_sql_within(const struct binding *b, const char *expr, struct buf *out)
{
	AUTO_BUF us = BUF_INIT;
	sql_time_us(b, b->time, expr, &us);
	buf_addf(out, "\n  AND %s > ", buf_text(&us));
	parameter(b, 1, "bigint", out);
	buf_addf(out, " AND %s <= ", buf_text(&us));
	parameter(b, 2, "bigint", out);
}

/* By the condition of the watch, which an index may cover, or because they did not fail. */
static void ended_well(const struct binding *b, struct buf *out)
{
	const struct stats *s = &b->watch->stats;
	if (s->done.text)
		buf_addf(out, "\n  AND (%s)", s->done.text);
	else if (s->failed.text)
		buf_addf(out, "\n  AND (%s) IS NOT TRUE", s->failed.text);
}

/* One row for each that ended within the time: its minute, and whether it ended well. */
static void each_ended(const struct binding *b, bool well, struct buf *out)
{
	const struct stats *s = &b->watch->stats;
	buf_add(out, "SELECT (");
	sql_time_us(b, b->time, s->finished_at.text, out);
	buf_addf(out, ") / 60000000 AS defib_minute, %d AS defib_well", well);
	from_table(b, out);
	buf_addf(out, "\nWHERE (%s) IS NOT NULL", s->finished_at.text);
	bare_condition(b, s->finished_at.text, out);
	stats_sql_within(b, s->finished_at.text, out);
	if (s->where.text)
		buf_addf(out, "\n  AND (%s)", s->where.text);
	if (well)
		ended_well(b, out);
	else
		buf_addf(out, "\n  AND (%s)", s->failed.text);
}

/* Both halves apart, so that each can use its own index. */
bool ended_sql(const struct binding *b, struct buf *out)
{
	const struct stats *s = &b->watch->stats;
	if (!s->finished_at.text)
		return false;
	buf_add(out, "SELECT defib_minute, sum(defib_well), count(*) - sum(defib_well) FROM (");
	each_ended(b, true, out);
	if (s->failed.text) {
		buf_add(out, "\nUNION ALL ");
		each_ended(b, false, out);
	}
	buf_add(out, ") AS defib_ended GROUP BY 1 ORDER BY 1");
	return true;
}

bool runs_sql(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	const struct stats *s = &w->stats;
	const char *kind = w->kind.text ? w->kind.text : "NULL";
	if (!s->started_at.text || !s->finished_at.text)
		return false;
	buf_add(out, "SELECT ");
	key_list(b, "t.", out);
	buf_add(out, ", ");
	dialect_cast(dialect_of(b->engine), out, kind, "text");
	buf_add(out, " AS defib_kind, ");
	sql_time_us(b, b->time, s->started_at.text, out);
	buf_add(out, " AS defib_started, ");
	sql_time_us(b, b->time, s->finished_at.text, out);
	buf_add(out, " AS defib_finished");
	from_table(b, out);
	buf_addf(out, "\nWHERE (%s) IS NOT NULL", s->started_at.text);
	bare_condition(b, s->finished_at.text, out);
	stats_sql_within(b, s->finished_at.text, out);
	if (s->where.text)
		buf_addf(out, "\n  AND (%s)", s->where.text);
	ended_well(b, out);
	buf_addf(out, "\nORDER BY (%s) DESC LIMIT ", s->finished_at.text);
	parameter(b, 3, "bigint", out);
	return true;
}
