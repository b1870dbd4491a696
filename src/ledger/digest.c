/* digest.c: see digest.h. */
#include "ledger/digest.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "ledger/lost.h"
#include "ledger/tables.h"

#include <assert.h>

/* ---- parts of statements; parameters are the watch, and from when till when ---- */

/* A member of the evidence; what is not JSON has none. */
static void add_member(struct buf *sql, enum store_engine engine, const char *name)
{
	if (engine == STORE_POSTGRES)
		buf_addf(sql, "l.evidence->>'%s'", name);
	else
		buf_addf(sql, "CASE WHEN json_valid(l.evidence) THEN l.evidence->>'%s' END", name);
}

static void add_source(struct buf *sql, enum store_engine engine)
{
	buf_addf(sql, " FROM %s AS l WHERE l.watch = %c1 AND l.at >= ", ledger_table[engine],
	         param_mark(engine));
	buf_add(sql, engine == STORE_POSTGRES ? "$2::timestamptz AND l.at < $3::timestamptz"
	                                      : "?2 AND l.at < ?3");
}

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
	defib_err err = store_exec(s, sql, params, 3 + nmore, a, rows, f);
	buf_release(&from);
	buf_release(&to);
	return err;
}

/* ---- events by day ---- */

static void events_sql(enum store_engine engine, struct buf *sql)
{
	bool postgres = engine == STORE_POSTGRES;
	/* Days are written out behind the counting: of some hundred groups, not of each entry. */
	const char *day = postgres ? "(l.at AT TIME ZONE 'UTC')::date" : "substr(l.at, 1, 10)";
	buf_addf(sql, "SELECT l.at < %s, ", postgres ? "$4::timestamptz" : "?4");
	buf_addf(sql, postgres ? "to_char(%s, 'YYYY-MM-DD')" : "%s", day);
	buf_add(sql, ", l.event, CASE WHEN l.event = '" ENTRY_GUARD_HELD "' THEN l.rule END, ");
	event_judged_sql(sql, "l");
	buf_add(sql, ", ");
	event_by_person_sql(sql, "l");
	buf_add(sql, ", count(*)");
	add_source(sql, engine);
	buf_addf(sql, " GROUP BY 1, %s, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6", day);
}

defib_err digest_events(struct store *s, const char *watch, const struct period *p, struct arena *a,
                        struct digest_event **out, int *n, struct failure *f)
{
	struct period both = {2 * p->from_us - p->to_us, p->to_us};
	struct buf sql = BUF_INIT, from = BUF_INIT;
	struct store_rows rows;
	*n = 0;
	events_sql(s->engine, &sql);
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

static void entries_sql(enum store_engine engine, struct buf *sql)
{
	static const char *const members[] = {"law", "kind", "owner"};
	buf_add(sql, "WITH m AS MATERIALIZED (SELECT l.verdict, l.rule, l.job, l.actor, l.event, ");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, " AS detected, ");
	event_counts_sql(sql, "l", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(sql, " AS recovered, ");
	event_by_person_sql(sql, "l");
	buf_add(sql, " AS by_person");
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		buf_add(sql, ", ");
		add_member(sql, engine, members[i]);
		buf_addf(sql, " AS %s", members[i]);
	}
	add_source(sql, engine);
	buf_add(sql, " AND (");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, " OR ");
	event_by_person_sql(sql, "l");
	buf_add(sql, "))");
}

static void tops_sql(enum store_engine engine, struct buf *sql)
{
	entries_sql(engine, sql);
	for (int by = 0; by < DIGEST_LISTS; by++) {
		/* The names too, so that of equally many the same are told each time. */
		buf_addf(sql,
		         "%s SELECT * FROM (SELECT %d AS list, %s AS name, %s AS also, count(*) AS n FROM "
		         "m WHERE %s GROUP BY 2, 3 ORDER BY 4 DESC, 2, 3 LIMIT %c4) AS t%d",
		         by ? " UNION ALL" : "", by, groupings[by].name, groupings[by].also,
		         groupings[by].which, param_mark(engine), by);
	}
}

defib_err digest_tops(struct store *s, const char *watch, const struct period *p, int64_t limit,
                      struct arena *a, struct digest_list *out, struct failure *f)
{
	struct buf sql = BUF_INIT;
	struct store_rows rows;
	tops_sql(s->engine, &sql);
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
static void trend_sql(enum store_engine engine, struct buf *sql)
{
	if (engine == STORE_POSTGRES)
		buf_add(sql, "SELECT (floor(extract(epoch FROM l.at - $2::timestamptz))::bigint / $4)");
	else
		buf_add(sql, "SELECT ((strftime('%s', l.at) - strftime('%s', ?2)) / ?4)");
	buf_add(sql, ", count(*) FILTER (WHERE ");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, "), count(*) FILTER (WHERE ");
	event_counts_sql(sql, "l", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(sql, ")");
	add_source(sql, engine);
	buf_add(sql, " GROUP BY 1");
}

defib_err digest_trend(struct store *s, const char *watch, const struct period *p, int buckets,
                       struct arena *a, struct digest_bucket **out, struct failure *f)
{
	int64_t part_s = (p->to_us - p->from_us) / US_PER_S / buckets;
	struct buf sql = BUF_INIT;
	struct store_rows rows;
	assert(part_s > 0 && part_s * buckets * US_PER_S == p->to_us - p->from_us);
	*out = ARENA_ARRAY(a, struct digest_bucket, buckets);
	trend_sql(s->engine, &sql);
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

static void times_sql(enum store_engine engine, struct buf *sql)
{
	buf_add(sql, "WITH m AS MATERIALIZED (SELECT ");
	sql_seconds_lost(engine, "l.at", sql);
	buf_add(sql, " AS v");
	add_source(sql, engine);
	buf_add(sql, " AND ");
	event_counts_sql(sql, "l", COUNTS_RECOVERED, BY_AUTOMATION);
	buf_add(sql, ") SELECT count(v), ");
	if (engine == STORE_POSTGRES)
		buf_add(sql, "(percentile_disc(0.5) WITHIN GROUP (ORDER BY v) * 1000000)::bigint, (max(v) "
		             "* 1000000)::bigint FROM m");
	else
		buf_add(sql, "CAST((SELECT v FROM m WHERE v IS NOT NULL ORDER BY v LIMIT 1 OFFSET (SELECT "
		             "(count(v) - 1) / 2 FROM m)) * 1000000 AS INTEGER), CAST(max(v) * 1000000 AS "
		             "INTEGER) FROM m");
}

defib_err digest_times(struct store *s, const char *watch, const struct period *p,
                       struct digest_times *out, struct failure *f)
{
	struct arena a = ARENA_INIT;
	struct buf sql = BUF_INIT;
	struct store_rows rows;
	*out = (struct digest_times){0};
	times_sql(s->engine, &sql);
	defib_err err = ask(s, buf_text(&sql), watch, p, NULL, 0, &a, &rows, f);
	if (!err)
		*out = (struct digest_times){row_int(&rows, 0, 0, 0), row_int(&rows, 0, 1, 0),
		                             row_int(&rows, 0, 2, 0)};
	buf_release(&sql);
	arena_release(&a);
	return err;
}

/* ---- mistakes and holds ---- */

/* From the late completions, which are few, to the recovery that each of them blames. */
defib_err digest_mistakes(struct store *s, const char *watch, const struct period *p,
                          int64_t *mistakes, struct failure *f)
{
	const char *table = ledger_table[s->engine];
	char mark = param_mark(s->engine);
	const char *moment = s->engine == STORE_POSTGRES ? "::timestamptz" : "";
	struct arena a = ARENA_INIT;
	struct buf sql = BUF_INIT;
	struct store_rows rows;
	*mistakes = 0;
	buf_addf(&sql,
	         "SELECT count(*) FROM %s AS l WHERE l.id IN (SELECT (SELECT max(m.id) FROM %s AS m "
	         "WHERE m.watch = c.watch AND m.job = c.job AND m.id < c.id AND ",
	         table, table);
	event_counts_sql(&sql, "m", COUNTS_RECOVERED, BY_ANYBODY);
	buf_addf(&sql,
	         ") FROM %s AS c WHERE c.watch = %c1 AND c.event = '" ENTRY_LATE_COMPLETION
	         "' AND c.at >= "
	         "%c2%s) AND l.at >= %c2%s AND l.at < %c3%s AND NOT ",
	         table, mark, mark, moment, mark, moment, mark, moment);
	event_by_person_sql(&sql, "l");
	defib_err err = ask(s, buf_text(&sql), watch, p, NULL, 0, &a, &rows, f);
	if (!err)
		*mistakes = row_int(&rows, 0, 0, 0);
	buf_release(&sql);
	arena_release(&a);
	return err;
}

defib_err digest_held(struct store *s, const char *watch, int64_t *held, struct failure *f)
{
	struct store_param param = P_TEXT(watch);
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	*held = 0;
	const char *sql = arena_printf(&a, "SELECT count(*) FROM %s WHERE watch = %c1",
	                               hold_table[s->engine], param_mark(s->engine));
	defib_err err = store_exec(s, sql, &param, 1, &a, &rows, f);
	if (!err)
		*held = row_int(&rows, 0, 0, 0);
	arena_release(&a);
	return err;
}
