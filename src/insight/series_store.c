/* SPDX-License-Identifier: Apache-2.0 */
/* series_store.c: the table of series.h. */
#include "base/mem.h"
#include "insight/series.h"
#include "ledger/jobs.h"
#include "ledger/overrides.h"
#include "store/dialect.h"
#include "store/relation.h"

#include <jansson.h>

/* ---- places ---- */

static void parse_place(const char *watch, const char *json, struct series_place *out)
{
	json_auto_t *root = json_loads(json, 0, NULL);
	*out = (struct series_place){
		.watch = watch,
		.turn = json_integer_value(json_object_get(root, "turn")),
		.ledger = json_integer_value(json_object_get(root, "ledger")),
		.ended_us = json_integer_value(json_object_get(root, "ended_us")),
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

struct slot {
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
static int fill_slots(const struct series_news *news, int64_t now_s, struct slot *slots)
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
				slots[n++] = (struct slot){about, at_s, news->place.watch, series_none};
			series_add(&slots[k].point, &news->minutes[m].point);
		}
	return n;
}

/* The first touched step of each range, as parameters; far in the future if there is none. */
static void touched(const struct slot *slots, int n, struct store_param *params)
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
static defib_err add_stored(struct store *s, struct slot *slots, int n, struct arena *a,
                            struct failure *f)
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

static defib_err store_slots(struct store *s, const struct slot *slots, int n, struct arena *a,
                             struct failure *f)
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
	struct slot *slots = ARENA_ARRAY(a, struct slot, room + 1);
	defib_err err = take_places(s, news, n, taken, a, f);
	for (int i = 0; !err && i < n; i++)
		if (taken[i])
			nslots += fill_slots(&news[i], now_s, &slots[nslots]);
	if (!err && nslots)
		err = add_stored(s, slots, nslots, a, f);
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

static void put_row(const struct store_rows *rows, int row, struct series *out)
{
	int64_t at = (row_int(rows, row, 0, 0) - out->from_s) / out->about->step_s;
	struct series_point point;
	if (at < 0 || at >= out->about->steps)
		return;
	series_parse(row_text(rows, row, 2), &point);
	series_join(&out->points[at], &point);
}

/* at, watch, numbers; `watch` NULL: of all. */
static defib_err read_rows(struct store *s, const struct series *of, const char *watch,
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
	defib_err err = read_rows(s, out, watch, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++)
		put_row(&rows, i, out);
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
	defib_err err = read_rows(s, &(*out)[n], NULL, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++)
		for (int k = 0; k < n; k++)
			if (text_eq(watches[k], row_text(&rows, i, 1)))
				put_row(&rows, i, &(*out)[k]);
	return err;
}
