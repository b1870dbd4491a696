/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c: see digest.h. */
#include "ledger/digest.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "ledger/tables.h"

#include <assert.h>

/* ---- parts of statements; parameters are the watch, and from when till when ---- */

#define SOURCE                                                                                     \
	" FROM defib.ledger AS l WHERE l.watch = $1 AND l.at >= $2::timestamptz AND l.at < "           \
	"$3::timestamptz"

/* Run over the entries of a watch from one moment to another; *more are further parameters. */
static defib_err ask(struct store *s, const char *sql, const char *watch, const struct period *p,
                     const struct store_param *more, int nmore, struct arena *a,
                     struct store_rows *rows, struct failure *f)
{
	struct buf from = BUF_INIT, to = BUF_INIT;
	time_iso(p->from_us, &from);
	time_iso(p->to_us, &to);
	struct store_param params[5] = {P_TEXT(watch), P_TEXT(buf_text(&from)), P_TEXT(buf_text(&to))};
	for (int i = 0; i < nmore; i++)
		params[3 + i] = more[i];
	defib_err err = dialect_exec(s, sql, params, 3 + nmore, a, rows, f);
	buf_release(&from);
	buf_release(&to);
	return err;
}

/* ---- events by day ---- */

static void events_sql(struct buf *sql)
{
	/* Days are written out behind the counting: of some hundred groups, not of each entry. */
	buf_add(sql, "SELECT l.at < $4::timestamptz, {day_text {stamp_day l.at}}, l.event, CASE WHEN "
	             "l.event = '" ENTRY_GUARD_HELD "' THEN l.rule END, ");
	event_judged_sql(sql, "l");
	buf_add(sql, ", ");
	event_by_person_sql(sql, "l");
	buf_add(sql, ", count(*)" SOURCE
	             " GROUP BY 1, {stamp_day l.at}, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6");
}

defib_err digest_events(struct store *s, const char *watch, const struct period *p, struct arena *a,
                        struct digest_event **out, int *n, struct failure *f)
{
	struct period both = {2 * p->from_us - p->to_us, p->to_us};
	struct buf sql = BUF_INIT, from = BUF_INIT;
	struct store_rows rows;
	*n = 0;
	events_sql(&sql);
	time_iso(p->from_us, &from);
	struct store_param border = P_TEXT(buf_text(&from));
	defib_err err = ask(s, buf_text(&sql), watch, &both, &border, 1, a, &rows, f);
	buf_release(&sql);
	buf_release(&from);
	if (err)
		return err;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct digest_event, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		(*out)[i] = (struct digest_event){row_bool(&rows, i, 0),  row_text(&rows, i, 1),
		                                  row_text(&rows, i, 2),  row_text(&rows, i, 3),
		                                  row_bool(&rows, i, 4),  row_bool(&rows, i, 5),
		                                  row_int(&rows, i, 6, 0)};
	return DEFIB_OK;
}

/* ---- the most frequent ---- */

/* What entries are counted by, of those that are read once (entries_sql), and which ones. */
static const struct {
	const char *name, *also, *which;
} groupings[DIGEST_LISTS] = {
	[DIGEST_CAUSES] = {"verdict", "coalesce(law, rule)", "detected"},
	[DIGEST_KINDS] = {"kind", "NULL", "detected"},
	[DIGEST_OWNERS] = {"owner", "NULL", "detected"},
	[DIGEST_JOBS] = {"job", "NULL", "recovered"},
	[DIGEST_ACTORS] = {"actor", "event", "by_person"},
};

static void entries_sql(struct buf *sql)
{
	buf_add(sql, "WITH m AS MATERIALIZED (SELECT l.verdict, l.rule, l.job, l.actor, l.event, ");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, " AS detected, ");
	event_counts_sql(sql, "l", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(sql, " AS recovered, ");
	event_by_person_sql(sql, "l");
	buf_add(sql, " AS by_person, {member l.evidence|law} AS law, {member l.evidence|kind} AS kind, "
	             "{member l.evidence|owner} AS owner" SOURCE " AND (");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, " OR ");
	event_by_person_sql(sql, "l");
	buf_add(sql, "))");
}

static void tops_sql(struct buf *sql)
{
	entries_sql(sql);
	for (int by = 0; by < DIGEST_LISTS; by++) {
		/* The names too, so that of equally many the same are told each time. */
		buf_addf(sql,
		         "%s SELECT * FROM (SELECT %d AS list, %s AS name, %s AS also, count(*) AS n FROM "
		         "m WHERE %s GROUP BY 2, 3 ORDER BY 4 DESC, 2, 3 LIMIT $4) AS t%d",
		         by ? " UNION ALL" : "", by, groupings[by].name, groupings[by].also,
		         groupings[by].which, by);
	}
}

defib_err digest_tops(struct store *s, const char *watch, const struct period *p, int64_t limit,
                      struct arena *a, struct digest_list *out, struct failure *f)
{
	struct buf sql = BUF_INIT;
	struct store_rows rows;
	tops_sql(&sql);
	defib_err err = ask(s, buf_text(&sql), watch, p, &P_INT(limit), 1, a, &rows, f);
	buf_release(&sql);
	if (err)
		return err;
	for (int by = 0; by < DIGEST_LISTS; by++)
		out[by] = (struct digest_list){ARENA_ARRAY(a, struct digest_count, limit), 0};
	for (int i = 0; i < rows.nrows; i++) {
		struct digest_list *list = &out[row_int(&rows, i, 0, 0)];
		struct digest_count c = {row_text(&rows, i, 1), row_text(&rows, i, 2),
		                         row_int(&rows, i, 3, 0)};
		/* A watch without kinds or owners has one group, of those that have none. */
		if (c.name)
			list->items[list->n++] = c;
	}
	return DEFIB_OK;
}

/* ---- a trend ---- */

/* The part of the period is told by whole seconds, of which each part has a whole number. */
static void trend_sql(struct buf *sql)
{
	buf_add(sql, "SELECT ({stamp_seconds l.at|$2::timestamptz} / $4), count(*) FILTER (WHERE ");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, "), count(*) FILTER (WHERE ");
	event_counts_sql(sql, "l", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(sql, ")" SOURCE " GROUP BY 1");
}

defib_err digest_trend(struct store *s, const char *watch, const struct period *p, int buckets,
                       struct arena *a, struct digest_bucket **out, struct failure *f)
{
	int64_t part_s = (p->to_us - p->from_us) / US_PER_S / buckets;
	struct buf sql = BUF_INIT;
	struct store_rows rows;
	assert(part_s > 0 && part_s * buckets * US_PER_S == p->to_us - p->from_us);
	*out = ARENA_ARRAY(a, struct digest_bucket, buckets);
	trend_sql(&sql);
	defib_err err = ask(s, buf_text(&sql), watch, p, &P_INT(part_s), 1, a, &rows, f);
	buf_release(&sql);
	for (int i = 0; !err && i < rows.nrows; i++) {
		int64_t at = row_int(&rows, i, 0, -1);
		if (at >= 0 && at < buckets)
			(*out)[at] = (struct digest_bucket){row_int(&rows, i, 1, 0), row_int(&rows, i, 2, 0)};
	}
	return err;
}

/* ---- how long it took ---- */

/* A member of the evidence that reads like a time of ours; a shown column may only be named so. */
#define POINT(name)                                                                                \
	"CASE WHEN {member l.evidence|" name "} LIKE '____-__-__T__:__:__%Z' THEN {iso_point "         \
	"{member l.evidence|" name "}} END"

static void add_elapsed(const char *until, struct buf *out)
{
	buf_add(out, "{elapsed_s coalesce(" POINT("lost_at") ", " POINT("alive_at") ", CASE WHEN ");
	buf_add(out, POINT("expires_at") " <= ");
	buf_add(out, until);
	buf_add(out, " THEN " POINT("expires_at") " END, " POINT("started_at") ")|");
	buf_add(out, until);
	buf_add(out, "}");
}

void sql_seconds_lost(const char *until, struct buf *out)
{
	struct buf point = BUF_INIT;
	buf_addf(&point, "{stamp_point %s}", until);
	add_elapsed(buf_text(&point), out);
	buf_release(&point);
}

void sql_seconds_to_detection(struct buf *out)
{
	add_elapsed("(" POINT("now") ")", out);
}

static void times_sql(struct buf *sql)
{
	buf_add(sql, "WITH m AS MATERIALIZED (SELECT ");
	sql_seconds_lost("l.at", sql);
	buf_add(sql, " AS v" SOURCE " AND ");
	event_counts_sql(sql, "l", COUNTS_RECOVERED, BY_AUTOMATION);
	buf_add(sql, ") SELECT count(v), CAST({percentile 50|v|m} * 1000000 AS bigint), CAST(max(v) * "
	             "1000000 AS bigint) FROM m");
}

defib_err digest_times(struct store *s, const char *watch, const struct period *p,
                       struct digest_times *out, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct buf sql = BUF_INIT;
	struct store_rows rows;
	*out = (struct digest_times){0};
	times_sql(&sql);
	defib_err err = ask(s, buf_text(&sql), watch, p, NULL, 0, &a, &rows, f);
	if (!err)
		*out = (struct digest_times){row_int(&rows, 0, 0, 0), row_int(&rows, 0, 1, 0),
		                             row_int(&rows, 0, 2, 0)};
	buf_release(&sql);
	arena_release(&a);
	return err;
}

/* ---- mistakes ---- */

/* From the late completions, which are few, to the recovery that each of them blames. */
defib_err digest_mistakes(struct store *s, const char *watch, const struct period *p,
                          int64_t *mistakes, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct buf sql = BUF_INIT;
	struct store_rows rows;
	*mistakes = 0;
	buf_add(&sql,
	        "SELECT count(*) FROM defib.ledger AS l WHERE l.id IN (SELECT (SELECT max(m.id) "
	        "FROM defib.ledger AS m WHERE m.watch = c.watch AND m.job = c.job AND m.id < c.id "
	        "AND ");
	event_counts_sql(&sql, "m", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(&sql,
	        ") FROM defib.ledger AS c WHERE c.watch = $1 AND c.event = '" ENTRY_LATE_COMPLETION
	        "' AND "
	        "c.at >= $2::timestamptz) AND l.at >= $2::timestamptz AND l.at < $3::timestamptz "
	        "AND NOT ");
	event_by_person_sql(&sql, "l");
	defib_err err = ask(s, buf_text(&sql), watch, p, NULL, 0, &a, &rows, f);
	if (!err)
		*mistakes = row_int(&rows, 0, 0, 0);
	buf_release(&sql);
	arena_release(&a);
	return err;
}
