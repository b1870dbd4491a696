/* SPDX-License-Identifier: Apache-2.0 */
#include "insight/series.h"

#include "ledger/jobs.h"
#include "ledger/overrides.h"
#include "store/dialect.h"
#include "store/relation.h"

#include <jansson.h>

const struct series_range_about series_ranges[SERIES_RANGES] = {
#define X(id, name, step_s, steps) {name, step_s, steps},
	SERIES_RANGE_LIST(X)
#undef X
};

static const double upper[] = {DETECTION_BOUNDS};
#define NUPPER (int)(sizeof upper / sizeof *upper)
_Static_assert(NUPPER + 1 == SERIES_BUCKETS, "one bucket per bound, and one above all");
const struct time_bounds series_bounds = {upper, NUPPER};

const struct series_point series_none = {.waiting = SERIES_UNKNOWN,
                                         .oldest_ms = SERIES_UNKNOWN,
                                         .running = SERIES_UNKNOWN,
                                         .done = SERIES_UNKNOWN,
                                         .failed = SERIES_UNKNOWN};

int series_range_named(const char *name)
{
	for (int i = 0; i < SERIES_RANGES; i++)
		if (text_eq(name, series_ranges[i].name))
			return i;
	return -1;
}

/* ---- arithmetic ---- */

static int64_t higher(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* An unknown number adds nothing; two of them stay unknown. */
static int64_t both(int64_t a, int64_t b)
{
	if (a == SERIES_UNKNOWN || b == SERIES_UNKNOWN)
		return higher(a, b);
	return a + b;
}

static void add_counts(struct series_point *into, const struct series_point *more)
{
	into->done = both(into->done, more->done);
	into->failed = both(into->failed, more->failed);
	for (int i = 0; i < VERDICT_COUNT; i++)
		into->recovered[i] += more->recovered[i];
	for (int i = 0; i < SERIES_BUCKETS; i++)
		into->detection[i] += more->detection[i];
}

void series_add(struct series_point *into, const struct series_point *more)
{
	into->waiting = higher(into->waiting, more->waiting);
	into->oldest_ms = higher(into->oldest_ms, more->oldest_ms);
	into->running = higher(into->running, more->running);
	add_counts(into, more);
}

void series_join(struct series_point *into, const struct series_point *other)
{
	into->waiting = both(into->waiting, other->waiting);
	into->oldest_ms = higher(into->oldest_ms, other->oldest_ms);
	into->running = both(into->running, other->running);
	add_counts(into, other);
}

int64_t series_recovered(const struct series_point *p)
{
	int64_t sum = 0;
	for (int i = 0; i < VERDICT_COUNT; i++)
		sum += p->recovered[i];
	return sum;
}

double series_detection(const struct series_point *p, double share)
{
	int64_t all = 0, below = 0;
	int at = 0;
	for (int i = 0; i < SERIES_BUCKETS; i++)
		all += p->detection[i];
	if (all == 0)
		return SERIES_UNKNOWN;
	double rank = share * (double)all;
	while (at < NUPPER && (double)(below + p->detection[at]) < rank)
		below += p->detection[at++];
	if (at == NUPPER)
		return upper[NUPPER - 1];
	double from = at ? upper[at - 1] : 0;
	double part = p->detection[at] ? (rank - (double)below) / (double)p->detection[at] : 1;
	return from + (upper[at] - from) * part;
}

/* ---- as a document ---- */

static void put_number(struct buf *out, const char *name, int64_t n)
{
	if (n != SERIES_UNKNOWN)
		buf_addf(out, "%s\"%s\":%lld", out->len > 1 ? "," : "", name, (long long)n);
}

/* A bound as the document names it: the same text for the same number. */
static void bound_name(int bucket, char name[32])
{
	if (bucket < NUPPER)
		snprintf(name, 32, "%g", upper[bucket]);
	else
		snprintf(name, 32, "more");
}

static void put_counts(struct buf *out, const char *name, const int64_t *counts, int n,
                       void (*name_of)(int at, char name[32]))
{
	char one[32];
	bool any = false;
	for (int i = 0; i < n; i++) {
		if (!counts[i])
			continue;
		name_of(i, one);
		if (!any)
			buf_addf(out, "%s\"%s\":{", out->len > 1 ? "," : "", name);
		buf_addf(out, "%s\"%s\":%lld", any ? "," : "", one, (long long)counts[i]);
		any = true;
	}
	buf_add(out, any ? "}" : "");
}

static void verdict_name(int verdict, char name[32])
{
	snprintf(name, 32, "%s", verdict_names[verdict]);
}

void series_json(const struct series_point *p, struct buf *out)
{
	AUTO_BUF text = BUF_INIT;
	buf_add(&text, "{");
	put_number(&text, "waiting", p->waiting);
	put_number(&text, "oldest_ms", p->oldest_ms);
	put_number(&text, "running", p->running);
	put_number(&text, "done", p->done);
	put_number(&text, "failed", p->failed);
	put_counts(&text, "recovered", p->recovered, VERDICT_COUNT, verdict_name);
	put_counts(&text, "detection", p->detection, SERIES_BUCKETS, bound_name);
	buf_addf(out, "%s}", buf_text(&text));
}

#define MOST INT64_C(1000000000000000) /* sums of these do not overflow */

static int64_t series_number_of(const json_t *root, const char *name, int64_t without)
{
	const json_t *n = json_object_get(root, name);
	bool good = json_is_integer(n) && json_integer_value(n) >= 0 && json_integer_value(n) <= MOST;
	return good ? json_integer_value(n) : without;
}

static void counts_of(const json_t *root, const char *name, int64_t *counts, int n,
                      void (*name_of)(int at, char name[32]))
{
	const json_t *given = json_object_get(root, name);
	char one[32];
	for (int i = 0; given && i < n; i++) {
		name_of(i, one);
		counts[i] = series_number_of(given, one, 0);
	}
}

void series_parse(const char *json, struct series_point *out)
{
	json_auto_t *root = json_loads(json ? json : "", 0, NULL);
	*out = series_none;
	if (!root)
		return;
	out->waiting = series_number_of(root, "waiting", SERIES_UNKNOWN);
	out->oldest_ms = series_number_of(root, "oldest_ms", SERIES_UNKNOWN);
	out->running = series_number_of(root, "running", SERIES_UNKNOWN);
	out->done = series_number_of(root, "done", SERIES_UNKNOWN);
	out->failed = series_number_of(root, "failed", SERIES_UNKNOWN);
	counts_of(root, "recovered", out->recovered, VERDICT_COUNT, verdict_name);
	counts_of(root, "detection", out->detection, SERIES_BUCKETS, bound_name);
}

/* ---- the table ---- */

/* ---- places ---- */

/* Beyond MOST is a time in microseconds that is still to come. */
static int64_t place_time(const json_t *root)
{
	int64_t us = json_integer_value(json_object_get(root, "ended_us"));
	return us >= 0 && us <= ROW_INT_MOST ? us : 0;
}

static void parse_place(const char *watch, const char *json, struct series_place *out)
{
	json_auto_t *root = json_loads(json, 0, NULL);
	*out = (struct series_place){
		.watch = watch,
		.turn = series_number_of(root, "turn", 0),
		.ledger = series_number_of(root, "ledger", 0),
		.ended_us = place_time(root),
	};
}

defib_err series_places(struct store *s, struct arena *a, struct series_place **out, int *n,
                        struct failure *f)
{
	struct store_rows rows;
	*n = 0;
	defib_err err =
		dialect_exec(s, "SELECT watch, numbers::text FROM defib.series WHERE step = 0 AND at = 0",
	                 NULL, 0, a, &rows, f);
	if (err)
		return err;
	*n = rows.nrows;
	*out = ARENA_ARRAY(a, struct series_place, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		parse_place(row_text(&rows, i, 0), row_text(&rows, i, 1), &(*out)[i]);
	return DEFIB_OK;
}

static void start_relation(struct relation *r, bool steps)
{
	if (steps) {
		relation_column(r, "step", "bigint");
		relation_column(r, "at", "bigint");
	}
	relation_column(r, "watch", "text");
	relation_column(r, "numbers", "jsonb");
}

/* Move the places on; taken[] says which of them nobody else has moved meanwhile. */
static defib_err take_places(struct store *s, const struct series_news *news, int n, bool *taken,
                             struct arena *a, struct failure *f)
{
	AUTO_RELATION r = {.engine = s->engine};
	struct store_rows rows;
	start_relation(&r, false);
	for (int i = 0; i < n; i++) {
		const struct series_place *p = &news[i].place;
		relation_text(&r, p->watch);
		relation_text(&r, arena_printf(a, "{\"turn\":%lld,\"ledger\":%lld,\"ended_us\":%lld}",
		                               (long long)p->turn + 1, (long long)p->ledger,
		                               (long long)p->ended_us));
		relation_end_row(&r);
	}
	defib_err err = run_over(
		s, &r, "INSERT INTO defib.series AS p (step, at, watch, numbers) SELECT 0, 0, u.* FROM (",
		") AS u WHERE true ON CONFLICT (step, at, watch) DO UPDATE SET numbers = excluded.numbers "
		"WHERE ({member p.numbers|turn})::bigint = ({member excluded.numbers|turn})::bigint - 1 "
		"RETURNING watch",
		NULL, 0, a, &rows, f);
	for (int i = 0; !err && i < n; i++)
		for (int k = 0; k < rows.nrows; k++)
			taken[i] = taken[i] || text_eq(row_text(&rows, k, 0), news[i].place.watch);
	return err;
}

/* ---- steps ---- */

struct series_slot {
	const struct series_range_about *about;
	int64_t at_s;
	const char *watch;
	struct series_point point;
};

/* The first second that a range still has. */
static int64_t oldest_of(const struct series_range_about *about, int64_t now_s)
{
	return (now_s / about->step_s - (about->steps - 1)) * about->step_s;
}

/* Of one watch: its minutes, added up in the steps of each range. */
static int fill_slots(const struct series_news *news, int64_t now_s, struct series_slot *slots)
{
	int n = 0;
	for (int m = 0; m < news->n; m++)
		for (int i = 0; i < SERIES_RANGES; i++) {
			const struct series_range_about *about = &series_ranges[i];
			int64_t at_s = news->minutes[m].minute * 60 / about->step_s * about->step_s;
			int k = 0;
			if (at_s < oldest_of(about, now_s))
				continue;
			while (k < n && (slots[k].about != about || slots[k].at_s != at_s))
				k++;
			if (k == n)
				slots[n++] = (struct series_slot){about, at_s, news->place.watch, series_none};
			series_add(&slots[k].point, &news->minutes[m].point);
		}
	return n;
}

/* The first touched step of each range, as parameters; far in the future if there is none. */
static void touched(const struct series_slot *slots, int n, struct store_param *params)
{
	for (int i = 0; i < SERIES_RANGES; i++) {
		int64_t from = INT64_MAX;
		for (int k = 0; k < n; k++)
			if (slots[k].about == &series_ranges[i] && slots[k].at_s < from)
				from = slots[k].at_s;
		params[i] = P_INT(from);
	}
}

static const char *each_range(const char *head, const char *compare, struct arena *a)
{
	AUTO_BUF sql = BUF_INIT;
	buf_add(&sql, head);
	for (int i = 0; i < SERIES_RANGES; i++)
		buf_addf(&sql, "%s(step = %lld AND at %s $%d::bigint)", i ? " OR " : "",
		         (long long)series_ranges[i].step_s, compare, i + 1);
	return arena_strdup(a, buf_text(&sql));
}

/* What the table has of the same steps. */
static defib_err series_add_stored(struct store *s, struct series_slot *slots, int n,
                                   struct arena *a, struct failure *f)
{
	struct store_param params[SERIES_RANGES];
	struct store_rows rows;
	touched(slots, n, params);
	defib_err err = dialect_exec(
		s, each_range("SELECT step, at, watch, numbers::text FROM defib.series WHERE ", ">=", a),
		params, SERIES_RANGES, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++)
		for (int k = 0; k < n; k++) {
			struct series_point stored;
			if (slots[k].at_s != row_int(&rows, i, 1, 0) ||
			    slots[k].about->step_s != row_int(&rows, i, 0, 0) ||
			    !text_eq(slots[k].watch, row_text(&rows, i, 2)))
				continue;
			series_parse(row_text(&rows, i, 3), &stored);
			series_add(&slots[k].point, &stored);
			break;
		}
	return err;
}

static defib_err store_slots(struct store *s, const struct series_slot *slots, int n,
                             struct arena *a, struct failure *f)
{
	AUTO_RELATION r = {.engine = s->engine};
	start_relation(&r, true);
	for (int i = 0; i < n; i++) {
		AUTO_BUF numbers = BUF_INIT;
		series_json(&slots[i].point, &numbers);
		relation_int(&r, slots[i].about->step_s);
		relation_int(&r, slots[i].at_s);
		relation_text(&r, slots[i].watch);
		relation_text(&r, buf_text(&numbers));
		relation_end_row(&r);
	}
	return run_over(s, &r, "INSERT INTO defib.series (step, at, watch, numbers) SELECT u.* FROM (",
	                ") AS u WHERE true ON CONFLICT (step, at, watch) DO UPDATE SET numbers = "
	                "excluded.numbers",
	                NULL, 0, a, NULL, f);
}

static defib_err remove_old(struct store *s, int64_t now_s, struct arena *a, struct failure *f)
{
	struct store_param params[SERIES_RANGES];
	for (int i = 0; i < SERIES_RANGES; i++)
		params[i] = P_INT(oldest_of(&series_ranges[i], now_s));
	return dialect_exec(s, each_range("DELETE FROM defib.series WHERE ", "<", a), params,
	                    SERIES_RANGES, a, NULL, f);
}

static defib_err write_inside(struct store *s, const struct series_news *news, int n, int64_t now_s,
                              struct arena *a, struct failure *f)
{
	bool *taken = ARENA_ARRAY(a, bool, n + 1);
	int room = 0, nslots = 0;
	for (int i = 0; i < n; i++)
		room += news[i].n * SERIES_RANGES;
	struct series_slot *slots = ARENA_ARRAY(a, struct series_slot, room + 1);
	defib_err err = take_places(s, news, n, taken, a, f);
	for (int i = 0; !err && i < n; i++)
		if (taken[i])
			nslots += fill_slots(&news[i], now_s, &slots[nslots]);
	if (!err && nslots)
		err = series_add_stored(s, slots, nslots, a, f);
	if (!err && nslots)
		err = store_slots(s, slots, nslots, a, f);
	return err ? err : remove_old(s, now_s, a, f);
}

defib_err series_write(struct store *s, const struct series_news *news, int n, int64_t now_s,
                       struct arena *a, struct failure *f)
{
	if (n == 0)
		return DEFIB_OK;
	defib_err err = store_begin(s, TX_WRITE, f);
	return err ? err : store_end(s, write_inside(s, news, n, now_s, a, f), f);
}

/* ---- reading ---- */

static void start_series(enum series_range range, int64_t now_s, struct arena *a,
                         struct series *out)
{
	out->about = &series_ranges[range];
	out->from_s = oldest_of(out->about, now_s);
	out->points = ARENA_ARRAY(a, struct series_point, out->about->steps);
	for (int i = 0; i < out->about->steps; i++)
		out->points[i] = series_none;
}

static void series_put_row(const struct store_rows *rows, int row, struct series *out)
{
	int64_t at = (row_int(rows, row, 0, 0) - out->from_s) / out->about->step_s;
	struct series_point point;
	if (at < 0 || at >= out->about->steps)
		return;
	series_parse(row_text(rows, row, 2), &point);
	series_join(&out->points[at], &point);
}

/* at, watch, numbers; `watch` NULL: of all. */
static defib_err series_read_rows(struct store *s, const struct series *of, const char *watch,
                                  struct arena *a, struct store_rows *rows, struct failure *f)
{
	struct store_param params[] = {P_INT(of->about->step_s), P_INT(of->from_s), P_TEXT(watch)};
	bool there = false;
	*rows = (struct store_rows){0};
	defib_err err = daemon_table_open(s, "series", false, &there, f);
	if (err || !there)
		return err;
	return dialect_exec(s,
	                    watch ? "SELECT at, watch, numbers::text FROM defib.series WHERE step = $1 "
	                            "AND at >= $2 AND watch = $3"
	                          : "SELECT at, watch, numbers::text FROM defib.series WHERE step = $1 "
	                            "AND at >= $2",
	                    params, watch ? 3 : 2, a, rows, f);
}

defib_err series_read(struct store *s, enum series_range range, const char *watch, int64_t now_s,
                      struct arena *a, struct series *out, struct failure *f)
{
	struct store_rows rows;
	start_series(range, now_s, a, out);
	defib_err err = series_read_rows(s, out, watch, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++)
		series_put_row(&rows, i, out);
	return err;
}

defib_err series_read_each(struct store *s, enum series_range range, const char *const *watches,
                           int n, int64_t now_s, struct arena *a, struct series **out,
                           struct failure *f)
{
	struct store_rows rows;
	*out = ARENA_ARRAY(a, struct series, n + 1);
	for (int i = 0; i <= n; i++)
		start_series(range, now_s, a, &(*out)[i]);
	defib_err err = series_read_rows(s, &(*out)[n], NULL, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++)
		for (int k = 0; k < n; k++)
			if (text_eq(watches[k], row_text(&rows, i, 1)))
				series_put_row(&rows, i, &(*out)[k]);
	return err;
}
