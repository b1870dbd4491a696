/* SPDX-License-Identifier: Apache-2.0 */
/* runs_sql.c: see runs_sql.h. */
#include "watch/runs_sql.h"

#include "store/dialect.h"
#include "watch/compile_read.h"
#include "watch/compile_write.h"
#include "watch/timesql.h"

/*
 * A condition in the column's own form that an index can serve, where there is
 * one; it may let a row too many through. ISO texts are in order by their day,
 * whatever stands behind it and in whatever zone: one day of room.
 */
static void bare_condition(const struct binding *b, const char *expr, struct buf *out)
{
	struct buf after = BUF_INIT;
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
	buf_release(&after);
}

static void within(const struct binding *b, const char *expr, struct buf *out)
{
	struct buf us = BUF_INIT;
	sql_time_us(b, b->time, expr, &us);
	buf_addf(out, "\n  AND %s > ", buf_text(&us));
	parameter(b, 1, "bigint", out);
	buf_addf(out, " AND %s <= ", buf_text(&us));
	parameter(b, 2, "bigint", out);
	buf_release(&us);
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
	within(b, s->finished_at.text, out);
	if (s->where.text)
		buf_addf(out, "\n  AND (%s)", s->where.text);
	if (s->failed.text)
		buf_addf(out, "\n  AND (%s) IS NOT TRUE", s->failed.text);
	buf_addf(out, "\nORDER BY (%s) DESC LIMIT ", s->finished_at.text);
	parameter(b, 3, "bigint", out);
	return true;
}
