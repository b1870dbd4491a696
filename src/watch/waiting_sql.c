/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/waiting_sql.h"

#include "store/dialect.h"
#include "store/sql.h"
#include "watch/timesql.h"

/* Waits, and is due for longer than late_after. */
static void late_condition(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	enum time_type time = b->sign_time[TIME_DUE];
	AUTO_BUF due = BUF_INIT;
	sql_time_comparable(b, time, w->due_at.text, &due);
	buf_addf(out, "(%s) AND (%s) IS NOT TRUE\n  AND %s < ", w->waiting.text, w->running.text,
	         buf_text(&due));
	sql_time_cutoff(b, time, &w->late_after, NULL, out);
	if (!w->late_after.n)
		return;
	buf_addf(out, " AND %s < ", buf_text(&due));
	sql_time_cutoff(b, time, &w->late_after, w->kind.text, out);
}

static void late_order(const struct binding *b, struct buf *out)
{
	buf_add(out, "\nORDER BY ");
	sql_time_comparable(b, b->sign_time[TIME_DUE], b->watch->due_at.text, out);
}

static const char *compile_look_waiting(const struct binding *b, const struct watch_sql *q,
                                        struct arena *a)
{
	const struct watch *w = b->watch;
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT ");
	fact_list(b, q, false, &sql);
	from_table(b, &sql);
	buf_add(&sql, "\nWHERE ");
	if (w->last_run_at.text) {
		buf_addf(&sql, "(%s) AND (%s) IS NOT NULL\nORDER BY ", w->waiting.text, w->due_at.text);
	} else {
		late_condition(b, &sql);
		late_order(b, &sql);
		buf_add(&sql, ", ");
	}
	for (int k = 0; k < w->key.n; k++) {
		buf_add(&sql, k ? ", " : "");
		key_column(b, k, &sql);
	}
	buf_add(&sql, "\nLIMIT ");
	parameter(b, 1, "bigint", &sql);
	return buf_to_arena(&sql, a);
}

static const char *compile_late_kinds(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT defib_k, count(*), min(defib_d) FROM (SELECT ");
	text_column(b, &b->watch->kind, &sql);
	buf_add(&sql, " AS defib_k, ");
	sql_time_us(b, b->sign_time[TIME_DUE], b->watch->due_at.text, &sql);
	buf_add(&sql, " AS defib_d");
	from_table(b, &sql);
	buf_add(&sql, "\nWHERE ");
	late_condition(b, &sql);
	late_order(b, &sql);
	buf_addf(&sql, "\nLIMIT %d) AS defib_late\nGROUP BY defib_k\nORDER BY 3\nLIMIT %d",
	         ROWS_COUNT_MAX, WAITING_KINDS);
	return buf_to_arena(&sql, a);
}

/* When a row was claimed: its start, else its last sign of life, which is no earlier. */
static void claim_time(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	enum sign s = w->started_at.text ? SIGN_STARTED : SIGN_ALIVE;
	if (watch_sign(w, s)->text && !w->only_waits)
		sql_time_us(b, b->sign_time[s], watch_sign(w, s)->text, out);
	else
		buf_add(out, dialect_of(b->engine)->has_types ? "NULL::bigint" : "NULL");
}

static const char *compile_claims(const struct binding *b, struct arena *a)
{
	struct buf sql = BUF_INIT;
	buf_add(&sql, "SELECT defib_k, count(*), count(DISTINCT defib_o), max(defib_c) FROM (SELECT ");
	text_column(b, &b->watch->kind, &sql);
	buf_add(&sql, " AS defib_k, ");
	text_column(b, &b->watch->owner, &sql);
	buf_add(&sql, " AS defib_o, ");
	claim_time(b, &sql);
	buf_add(&sql, " AS defib_c, CASE WHEN ");
	stuck_condition(b, &sql);
	buf_add(&sql, " THEN 1 ELSE 0 END AS defib_s");
	from_table(b, &sql);
	buf_addf(&sql,
	         "\nWHERE (%s)\nLIMIT %d) AS defib_running\nWHERE defib_s = 0\nGROUP BY defib_k\n"
	         "LIMIT %d",
	         b->watch->running.text, WAITING_CLAIMS, WAITING_CLAIMS);
	return buf_to_arena(&sql, a);
}

void compile_waiting(const struct binding *b, struct arena *a, struct watch_sql *out)
{
	if (!watch_waits(b->watch))
		return;
	out->look_waiting = compile_look_waiting(b, out, a);
	out->late_kinds = compile_late_kinds(b, a);
	out->claims = compile_claims(b, a);
}

bool sql_ended_claims(const struct binding *b, int64_t within_us, struct buf *out)
{
	const struct watch *w = b->watch;
	const struct threshold within = {.given = true, .standard_us = within_us};
	enum time_type time = b->sign_time[SIGN_STARTED];
	if (!w->started_at.text)
		return false;
	buf_add(out, "SELECT ");
	text_column(b, &w->kind, out);
	buf_add(out, ", max(");
	sql_time_us(b, time, w->started_at.text, out);
	buf_add(out, ")");
	from_table(b, out);
	buf_add(out, "\nWHERE ");
	sql_time_comparable(b, time, w->started_at.text, out);
	buf_add(out, " > ");
	sql_time_cutoff(b, time, &within, NULL, out);
	buf_addf(out, " AND (%s) IS NOT TRUE\nGROUP BY 1\nLIMIT %d", w->running.text, WAITING_CLAIMS);
	return true;
}
