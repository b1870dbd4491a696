/* stats_sql.c: see stats_sql.h. */
#include "watch/stats_sql.h"

#include "watch/compile_read.h"
#include "watch/list_sql.h"
#include "watch/timesql.h"

static void where_rows(const struct binding *b, struct buf *out)
{
	from_table(b, out);
	if (b->watch->stats.where.text)
		buf_addf(out, "\nWHERE (%s)", b->watch->stats.where.text);
}

bool states_sql(const struct binding *b, struct buf *out)
{
	struct buf state = BUF_INIT;
	bool known = state_sql(b, &state);
	if (known) {
		buf_addf(out,
		         b->engine == STORE_POSTGRES ? "SELECT (%s)::text" : "SELECT CAST((%s) AS TEXT)",
		         buf_text(&state));
		buf_add(out, " AS defib_state, count(*) AS defib_n");
		where_rows(b, out);
		buf_addf(out, "\nGROUP BY 1 ORDER BY 2 DESC, 1 LIMIT %d", STATS_STATES_MAX);
	}
	buf_release(&state);
	return known;
}

/* Of each row: whether it failed, whether it ended, and how long it took. */
static void each_end(const struct binding *b, struct buf *out)
{
	const struct stats *s = &b->watch->stats;
	buf_addf(out, "SELECT (%s) IS TRUE AS failed, ", s->failed.text ? s->failed.text : "false");
	if (s->finished_at.text)
		buf_addf(out, "(%s) IS NOT NULL AS ended, ", s->finished_at.text);
	else
		buf_add(out, "false AS ended, ");
	if (s->finished_at.text && s->started_at.text) {
		sql_time_us(b->engine, b->time, s->finished_at.text, out);
		buf_add(out, " - ");
		sql_time_us(b->engine, b->time, s->started_at.text, out);
	} else {
		buf_add(out, "NULL");
	}
	buf_add(out, " AS took");
	where_rows(b, out);
}

/* The least duration that 95 of 100 do not exceed, on both engines. */
static const char *const p95[] = {
	[STORE_POSTGRES] = "percentile_disc(0.95) WITHIN GROUP (ORDER BY took::bigint)",
	[STORE_SQLITE] = "(SELECT took FROM defib_ends WHERE took IS NOT NULL ORDER BY took LIMIT 1 "
					 "OFFSET (SELECT max((count(took) * 95 + 99) / 100 - 1, 0) FROM defib_ends))",
};

bool ends_sql(const struct binding *b, struct buf *out)
{
	const struct stats *s = &b->watch->stats;
	if (!s->failed.text && !s->finished_at.text)
		return false;
	buf_add(out, "WITH defib_ends AS (");
	each_end(b, out);
	buf_addf(out, ")\nSELECT %s, %s, count(took), CAST(avg(took) AS bigint), %s FROM defib_ends",
	         s->failed.text ? "count(*) FILTER (WHERE failed)" : "NULL",
	         s->finished_at.text ? "count(*) FILTER (WHERE ended AND NOT failed)" : "NULL",
	         p95[b->engine]);
	return true;
}
