/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/counts.h"

#include "base/clock.h"
#include "ledger/events.h"
#include "ledger/jobs.h"
#include "ledger/schema.h"
#include "store/dialect.h"

#include <assert.h>

/* One statement that only reads our own tables, in a transaction if writers could block it. */
static defib_err counts_ask(struct store *s, const char *sql, const struct store_param *params,
                            int n, struct arena *a, struct store_rows *rows, struct failure *f)
{
	*rows = (struct store_rows){0};
	if (!store_dialect(s)->one_writer)
		return dialect_exec(s, sql, params, n, a, rows, f);
	defib_err err = store_begin(s, TX_READ, f);
	if (err)
		return err;
	err = dialect_exec(s, sql, params, n, a, rows, f);
	store_rollback(s); /* nothing was written */
	return err;
}

defib_err ledger_count_held(struct store *s, const char *watch, const char *table_key,
                            struct held_rows *out, struct failure *f)
{
	static const char sql[] =
		"SELECT (SELECT count(*) FROM defib.hold WHERE watch = $1 AND verdict IS NULL), "
		"(SELECT count(*) FROM defib.hold WHERE table_key = $2 AND watch <> $1 AND verdict IS "
		"NULL), (SELECT count(*) FROM defib.hold WHERE table_key = $2 AND verdict IS NOT NULL), "
		"(SELECT count(*) FROM defib.retry WHERE watch = $1)";
	AUTO_ARENA a = ARENA_INIT;
	struct store_param params[] = {P_TEXT(watch), P_TEXT(table_key)};
	struct store_rows rows;
	defib_err err = counts_ask(s, sql, params, 2, &a, &rows, f);
	out->own = row_int(&rows, 0, 0, 0);
	out->others = row_int(&rows, 0, 1, 0);
	out->excuses = row_int(&rows, 0, 2, 0);
	out->retries = row_int(&rows, 0, 3, 0);
	return err;
}

defib_err ledger_retries_all(struct store *s, struct arena *a, struct retries_of **out, int *n,
                             struct failure *f)
{
	static const struct row_member members[] = {ROW_MEMBER(struct retries_of, watch),
	                                            ROW_MEMBER(struct retries_of, retries)};
	struct store_rows rows;
	static const char sql[] = "SELECT watch, count(*) FROM defib.retry GROUP BY watch";
	defib_err err = counts_ask(s, sql, NULL, 0, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct retries_of, a, n);
	return err;
}

static void since_sql(struct buf *sql)
{
	buf_add(sql, "SELECT l.watch, l.event, CASE WHEN ");
	event_judged_sql(sql, "l");
	buf_add(sql, " THEN l.verdict END, ");
	event_by_person_sql(sql, "l");
	buf_add(sql,
	        ", count(*) FROM defib.ledger AS l WHERE l.id > $1 AND l.id <= $2 GROUP BY 1, 2, 3, "
	        "4 ORDER BY 1, 2, 3, 4");
}

defib_err ledger_events_between(struct store *s, int64_t after, int64_t to, struct arena *a,
                                struct event_count **out, int *n, struct failure *f)
{
#define M(member) ROW_MEMBER(struct event_count, member)
	static const struct row_member members[] = {M(watch), M(event), M(verdict), M(by_person), M(n)};
#undef M
	struct store_param params[] = {P_INT(after), P_INT(to)};
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	since_sql(&sql);
	defib_err err = counts_ask(s, buf_text(&sql), params, 2, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct event_count, a, n);
	for (struct event_count *e = *out; e < *out + *n; e++)
		e->counts = event_counts(e->event, e->verdict != NULL, e->by_person);
	return err;
}

defib_err ledger_events_since(struct store *s, int64_t after, struct arena *a,
                              struct event_count **out, int *n, int64_t *last, struct failure *f)
{
	int64_t top = 0;
	*n = 0;
	*last = after;
	/* First the end: entries committed meanwhile are left to the next call. */
	defib_err err = ledger_top_after(s, last, &top, f);
	if (err || top <= after)
		return err;
	top = top - after > LEDGER_COUNT_IDS ? after + LEDGER_COUNT_IDS : top;
	err = ledger_events_between(s, after, top, a, out, n, f);
	if (!err)
		*last = top;
	return err;
}

defib_err ledger_id_before(struct store *s, int64_t ago_us, int64_t *id, struct failure *f)
{
	static const char sql[] =
		"SELECT l.id, l.at < {stamp_ago $2} FROM defib.ledger AS l WHERE l.id "
		"> $1 ORDER BY l.id LIMIT 1";
	int64_t low = 0, high = 0;
	*id = 0;
	defib_err err = ledger_top(s, &high, f);
	/* Ids rise with time: a binary search between an id that is old enough and one that is not. */
	while (!err && low < high) {
		AUTO_ARENA a = ARENA_INIT;
		int64_t middle = low + (high - low) / 2;
		struct store_param params[] = {P_INT(middle), P_INT(ago_us)};
		struct store_rows rows;
		err = counts_ask(s, sql, params, 2, &a, &rows, f);
		if (row_bool(&rows, 0, 1))
			low = row_int(&rows, 0, 0, 0);
		else
			high = middle;
	}
	*id = low;
	return err;
}

/* Whether a query has a row. */
static defib_err any(struct store *s, const char *sql, const struct store_param *params, int n,
                     bool *is, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = counts_ask(s, sql, params, n, &a, &rows, f);
	*is = rows.nrows > 0;
	return err;
}

defib_err ledger_has_watch(struct store *s, const char *watch, bool *tells, struct failure *f)
{
	bool there = false;
	struct store_param name = P_TEXT(watch);
	*tells = false;
	defib_err err = ledger_exists(s, &there, f);
	if (err || !there)
		return err;
	return any(s, "SELECT 1 FROM defib.ledger WHERE watch = $1 LIMIT 1", &name, 1, tells, f);
}

defib_err queue_in_use(struct store *s, bool *used, struct failure *f)
{
	bool there = false;
	*used = false;
	defib_err err = schema_has(s, "job", &there, f);
	if (err || !there)
		return err;
	err = any(s, "SELECT 1 FROM defib.job LIMIT 1", NULL, 0, used, f);
	if (err || *used)
		return err;
	/* Ended jobs may have been removed; the ledger still mentions them. */
	return ledger_has_watch(s, "queue", used, f);
}

/* ---- mistakes ---- */

/* An entry `r` that recovers a job of watch $1 and is not older than $2. */
static void counts_is_recovery(struct buf *sql)
{
	buf_add(sql, "r.watch = $1 AND ");
	event_counts_sql(sql, "r", COUNTS_RECOVERED, BY_AUTOMATION);
	buf_add(sql, " AND r.at > {stamp_ago $2}");
}

/* Counts of the week and of the day, of entries `r`. */
#define WEEK_AND_DAY                                                                               \
	"(SELECT count(*) AS week, count(*) FILTER (WHERE r.at > {stamp_ago $3}) AS day FROM "         \
	"defib.ledger AS r WHERE "

/*
 * Recoveries by their own index, and mistakes from the late completions, which are few: a join of
 * the two lists would compare each recovery with each late completion.
 */
static void count_sql(struct buf *sql)
{
	buf_add(sql, "SELECT n.week, k.week, n.day, k.day FROM " WEEK_AND_DAY);
	counts_is_recovery(sql);
	buf_add(sql, ") AS n CROSS JOIN " WEEK_AND_DAY);
	counts_is_recovery(sql);
	buf_add(sql, " AND r.id IN (SELECT (SELECT max(m.id) FROM defib.ledger AS m WHERE m.watch = "
	             "l.watch AND m.job = l.job AND m.id < l.id AND ");
	event_counts_sql(sql, "m", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(sql, ") FROM defib.ledger AS l WHERE l.watch = $1 AND l.at > {stamp_ago $2} AND "
	             "l.event = '" ENTRY_LATE_COMPLETION "')) AS k");
}

defib_err mistakes_count(struct store *s, const char *watch, struct mistakes *out,
                         struct failure *f)
{
	struct store_param params[] = {P_TEXT(watch), P_INT(7 * DAY_US), P_INT(DAY_US)};
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	count_sql(&sql);
	defib_err err = dialect_exec(s, buf_text(&sql), params, 3, &a, &rows, f);
	out->week.recoveries = row_int(&rows, 0, 0, 0);
	out->week.mistakes = row_int(&rows, 0, 1, 0);
	out->day.recoveries = row_int(&rows, 0, 2, 0);
	out->day.mistakes = row_int(&rows, 0, 3, 0);
	return err;
}

defib_err mistakes_candidates(struct store *s, const char *watch, int64_t within_us, int64_t limit,
                              struct arena *a, struct recovered **out, int *n, struct failure *f)
{
#define M(member) ROW_MEMBER(struct recovered, member)
	static const struct row_member members[] = {M(job), M(event), M(at), M(owner)};
#undef M
	struct store_param params[] = {P_TEXT(watch), P_INT(within_us), P_INT(limit)};
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	buf_addf(&sql,
	         "SELECT r.job, r.event, {iso r.at}, {member r.evidence|owner} FROM (SELECT * FROM "
	         "defib.ledger ORDER BY id DESC LIMIT %d) AS r WHERE ",
	         MISTAKES_ENTRIES);
	counts_is_recovery(&sql);
	buf_add(&sql, " AND NOT EXISTS (SELECT 1 FROM defib.ledger AS l WHERE l.watch = r.watch AND "
	              "l.job = r.job AND l.id > r.id AND (l.event = '" ENTRY_LATE_COMPLETION "' OR ");
	event_counts_sql(&sql, "l", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(&sql, ")) ORDER BY r.id DESC LIMIT $3");
	defib_err err = dialect_exec(s, buf_text(&sql), params, 3, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct recovered, a, n);
	return err;
}

/* Entries whose job is still a candidate, under the ledger's lock. */
static defib_err still_open(struct store *s, const char *watch, const struct ledger_entry *entries,
                            int n, int64_t within_us, struct arena *a, struct ledger_entry *out,
                            int *kept, struct failure *f)
{
	struct recovered *open;
	struct job_index index;
	int nopen = 0;
	defib_err err = ledger_lock(s, a, f);
	if (!err)
		err = mistakes_candidates(s, watch, within_us, MISTAKES_ENTRIES, a, &open, &nopen, f);
	if (err)
		return err;
	job_index_init(&index, JOBS_OF(open, job, nopen, a), nopen, a);
	for (int i = 0; i < n; i++)
		if (job_index_find(&index, entries[i].job) >= 0)
			out[(*kept)++] = entries[i];
	return DEFIB_OK;
}

defib_err mistakes_note(struct store *s, const struct ledger_context *ctx,
                        const struct ledger_entry *entries, int n, int64_t within_us,
                        struct arena *a, int64_t *noted, struct failure *f)
{
	struct ledger_entry *open = ARENA_ARRAY(a, struct ledger_entry, n + 1);
	int kept = 0;
	*noted = 0;
	if (n == 0)
		return DEFIB_OK;
	defib_err err = store_begin(s, TX_WRITE, f);
	if (err)
		return err;
	err = still_open(s, ctx->watch, entries, n, within_us, a, open, &kept, f);
	if (!err && kept)
		err = ledger_append(s, ctx, open, kept, a, f);
	err = store_end(s, err, f);
	*noted = err ? 0 : kept;
	return err;
}

/* ---- digests ---- */

/* ---- parts of statements; parameters are the watch, and the start and end of the period ---- */

#define SOURCE                                                                                     \
	" FROM defib.ledger AS l WHERE l.watch = $1 AND l.at >= $2::timestamptz AND l.at < "           \
	"$3::timestamptz"

/* The entries of a watch within a period. */
struct period_entries {
	struct store *s;
	const char *watch;
	const struct period *period;
	struct arena *a;
};

/* Run over them; *more is one further parameter, or NULL. */
static defib_err ask_period(const struct period_entries *of, const char *sql,
                            const struct store_param *more, struct store_rows *rows,
                            struct failure *f)
{
	AUTO_BUF from = BUF_INIT, to = BUF_INIT;
	time_iso(of->period->from_us, &from);
	time_iso(of->period->to_us, &to);
	struct store_param params[4] = {P_TEXT(of->watch), P_TEXT(buf_text(&from)),
	                                P_TEXT(buf_text(&to))};
	if (more)
		params[3] = *more;
	return dialect_exec(of->s, sql, params, more ? 4 : 3, of->a, rows, f);
}

/* ---- a trend ---- */

/* The part of the period is computed in whole seconds; each part has a whole number of them. */
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
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows;
	assert(part_s > 0 && part_s * buckets * US_PER_S == p->to_us - p->from_us);
	*out = ARENA_ARRAY(a, struct digest_bucket, buckets);
	trend_sql(&sql);
	defib_err err = ask_period(&(struct period_entries){s, watch, p, a}, buf_text(&sql),
	                           &P_INT(part_s), &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		int64_t at = row_int(&rows, i, 0, -1);
		if (at >= 0 && at < buckets)
			(*out)[at] = (struct digest_bucket){row_int(&rows, i, 1, 0), row_int(&rows, i, 2, 0)};
	}
	return err;
}

/* ---- how long it took ---- */

/*
 * A member of the evidence that looks like a time of ours; a shown column may have the same name.
 */
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
	AUTO_BUF point = BUF_INIT;
	buf_addf(&point, "{stamp_point %s}", until);
	add_elapsed(buf_text(&point), out);
}

void sql_seconds_to_detection(struct buf *out)
{
	add_elapsed("(" POINT("now") ")", out);
}

void sql_bucket(const char *column, const struct time_bounds *b, struct buf *out)
{
	buf_addf(out, "CASE WHEN %s IS NULL THEN NULL", column);
	for (int i = 0; i < b->n; i++)
		buf_addf(out, " WHEN %s <= %g THEN %d", column, b->upper[i], i);
	buf_addf(out, " ELSE %d END", b->n);
}

/* MATERIALIZED: the times of an entry are read once, not once for each bound. */
static void detections_sql(struct buf *sql, const struct time_bounds *bounds)
{
	buf_add(sql, "WITH m AS MATERIALIZED (SELECT l.watch, ");
	sql_seconds_to_detection(sql);
	buf_add(sql, " AS found, CASE WHEN ");
	event_counts_sql(sql, "l", COUNTS_RECOVERED, BY_AUTOMATION);
	buf_add(sql, " THEN ");
	sql_seconds_lost("l.at", sql);
	buf_add(sql, " END AS recovered FROM defib.ledger AS l WHERE l.id > $1 AND l.id <= $2 AND ");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, ") SELECT m.watch, ");
	sql_bucket("m.found", &bounds[TO_DETECTION], sql);
	buf_add(sql, ", ");
	sql_bucket("m.recovered", &bounds[TO_RECOVERY], sql);
	buf_add(sql, ", CAST(round(sum(m.found) * 1000) AS BIGINT), CAST(round(sum(m.recovered) * 1000)"
	             " AS BIGINT), count(*) FROM m GROUP BY 1, 2, 3 ORDER BY 1, 2, 3");
}

defib_err ledger_detections_between(struct store *s, int64_t after, int64_t to,
                                    const struct time_bounds *bounds, struct arena *a,
                                    struct detection_count **out, int *n, struct failure *f)
{
#define M(member) ROW_MEMBER(struct detection_count, member)
	static const struct row_member members[] = {M(watch),     M(bucket[0]), M(bucket[1]),
	                                            M(sum_ms[0]), M(sum_ms[1]), M(n)};
#undef M
	struct store_param params[] = {P_INT(after), P_INT(to)};
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	detections_sql(&sql, bounds);
	defib_err err = counts_ask(s, buf_text(&sql), params, 2, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct detection_count, a, n);
	return err;
}

/* ---- mistakes ---- */

/* From the late completions, which are few, to the recovery that each of them blames. */
defib_err digest_mistakes(struct store *s, const char *watch, const struct period *p,
                          int64_t *mistakes, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows;
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
	defib_err err =
		ask_period(&(struct period_entries){s, watch, p, &a}, buf_text(&sql), NULL, &rows, f);
	*mistakes = row_int(&rows, 0, 0, 0);
	return err;
}

/* ---- each minute ---- */

/* MATERIALIZED: the time of an entry is read once, not once for each bound. */
static void minutes_sql(struct buf *sql, const struct time_bounds *bounds)
{
	buf_add(sql, "WITH m AS MATERIALIZED (SELECT l.watch, {stamp_us l.at} / 60000000 AS minute, "
	             "l.verdict, CASE WHEN ");
	event_counts_sql(sql, "l", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(sql, " THEN 1 ELSE 0 END AS recovered, CASE WHEN ");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, " THEN 1 ELSE 0 END AS detected, CASE WHEN ");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, " THEN ");
	sql_seconds_to_detection(sql);
	buf_add(sql, " END AS found FROM defib.ledger AS l WHERE l.id > $1 AND l.id <= $2 AND (");
	event_counts_sql(sql, "l", COUNTS_DETECTED, BY_AUTOMATION);
	buf_add(sql, " OR ");
	event_counts_sql(sql, "l", COUNTS_RECOVERED, BY_ANYBODY);
	buf_add(sql, ")) SELECT m.watch, m.minute, m.verdict, ");
	sql_bucket("m.found", bounds, sql);
	buf_add(sql, ", sum(m.recovered), sum(m.detected) FROM m GROUP BY 1, 2, 3, 4 "
	             "ORDER BY 1, 2, 3, 4");
}

defib_err ledger_minutes_between(struct store *s, int64_t after, int64_t to,
                                 const struct time_bounds *bounds, struct arena *a,
                                 struct minute_count **out, int *n, struct failure *f)
{
#define M(member) ROW_MEMBER(struct minute_count, member)
	static const struct row_member members[] = {M(watch),  M(minute),    M(verdict),
	                                            M(bucket), M(recovered), M(detected)};
#undef M
	struct store_param params[] = {P_INT(after), P_INT(to)};
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	minutes_sql(&sql, bounds);
	defib_err err = dialect_exec(s, buf_text(&sql), params, 2, a, &rows, f);
	*out = ROWS_READ(&rows, members, struct minute_count, a, n);
	return err;
}
