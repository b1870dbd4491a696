/* SPDX-License-Identifier: Apache-2.0
 * sampling.c: the leader of a watch adds its numbers to the series (insight/series.h).
 *
 * After each round of readings: how many jobs wait and run, as in the metrics; jobs that have
 * ended since the last time; ledger entries since then. Up to where it counted is stored with the
 * numbers, in one transaction, so a daemon that is killed loses nothing and the next one counts
 * nothing twice. A watch without news is written once a minute.
 */

#include "daemon/sampling.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/watch_loop.h"
#include "ledger/digest.h"
#include "ledger/digest_store.h"
#include "recover/census.h"
#include "watch/stats_sql.h"

#define SHARE 100                /* a query that took t is not repeated for this many t */
#define SETTLE_US (2 * US_PER_S) /* an end is committed by then */
#define ENDED_US (INT64_C(3600) * US_PER_S) /* of ended jobs, per round and at the first one */
#define WEEK_US (INT64_C(7) * 86400 * US_PER_S)
#define MINUTE_US (60 * US_PER_S)
#define DIGESTS_MOST (LEDGER_COUNT_IDS / DIGEST_IDS) /* per round */

struct sampling_round {
	struct store *store;
	struct arena *arena;
	int64_t now_us, top, week_id; /* the last entry of the ledger; the last one before a week */
	struct series_place *places;
	int nplaces;
};

/* What one watch adds in this round. */
struct addition {
	struct watch_loop *loop;
	struct series_news news;
	int room;
	int64_t done, failed; /* in all, for the metrics */
};

/* ---- minutes ---- */

static struct series_point *point_at(struct addition *x, int64_t minute)
{
	struct series_news *news = &x->news;
	for (int i = news->n; i-- > 0;)
		if (news->minutes[i].minute == minute)
			return &news->minutes[i].point;
	if (news->n == x->room) {
		x->room = 2 * x->room + 8;
		news->minutes = mem_grow(news->minutes, sizeof *news->minutes * (size_t)x->room);
	}
	news->minutes[news->n] = (struct series_minute){minute, series_none};
	return &news->minutes[news->n++].point;
}

/* ---- readings ---- */

/* As the metrics have them. */
static struct series_point readings_of(const struct watch_loop *p)
{
	struct series_point point = series_none;
	point.waiting = p->reading.waiting;
	point.oldest_ms = p->reading.oldest_ms;
	if (p->counts.passes && !p->last.failure.code)
		point.running = p->last.running;
	return point;
}

/* ---- jobs that ended ---- */

static void add_ended(struct addition *x, const struct store_rows *rows)
{
	for (int i = 0; i < rows->nrows; i++) {
		int64_t done = row_int(rows, i, 1, 0), failed = row_int(rows, i, 2, 0);
		struct series_point more = series_none;
		more.done = done;
		if (x->loop->watch->stats.failed.text)
			more.failed = failed;
		series_add(point_at(x, row_int(rows, i, 0, 0)), &more);
		x->done += done;
		x->failed += failed;
	}
}

/* A table that is too slow is not counted: the next round begins anew. */
static defib_err count_ended(struct sampling_round *r, struct addition *x, struct failure *f)
{
	struct sampled *memory = &x->loop->reading.sampled;
	struct series_place *place = &x->news.place;
	int64_t until = r->now_us - SETTLE_US, begun = clock_boot_ms();
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows;
	if (until - place->ended_us > ENDED_US)
		until = place->ended_us + ENDED_US;
	if (until <= place->ended_us || begun < memory->ended_ms ||
	    !ended_sql(scanner_binding(x->loop->scanner), &sql))
		return DEFIB_OK;
	struct store_param params[] = {P_INT(place->ended_us), P_INT(until)};
	defib_err err = store_read(r->store, buf_text(&sql), params, 2, r->arena, &rows, f);
	int64_t now = clock_boot_ms();
	memory->ended_ms = now + (now - begun) * SHARE;
	if (err == DEFIB_TIMEOUT) {
		log_event(LOG_DEBUG, "ended jobs were not counted", LOG_STR("watch", x->loop->watch->name),
		          LOG_STR("because", f->what));
		fail_clear(f);
		place->ended_us = r->now_us - SETTLE_US;
		return DEFIB_OK;
	}
	if (!err) {
		add_ended(x, &rows);
		place->ended_us = until;
	}
	return err;
}

/* ---- the ledger ---- */

static int verdict_at(const char *name)
{
	int at = VERDICT_COUNT - 1;
	while (at > VERDICT_NONE && !text_eq(name, verdict_names[at]))
		at--;
	return at;
}

static void add_entries(struct addition *x, const struct minute_count *counts, int n)
{
	for (int i = 0; i < n; i++) {
		if (!text_eq(counts[i].watch, x->loop->watch->name))
			continue;
		struct series_point *point = point_at(x, counts[i].minute);
		point->recovered[verdict_at(counts[i].verdict)] += counts[i].recovered;
		if (counts[i].bucket >= 0)
			point->detection[counts[i].bucket] += counts[i].detected;
	}
}

/* Watches that were counted up to the same entry share one query. */
static defib_err count_entries(struct sampling_round *r, struct addition *all, int n,
                               struct failure *f)
{
	bool *counted = ARENA_ARRAY(r->arena, bool, n + 1);
	defib_err err = DEFIB_OK;
	for (int i = 0; i < n && !err; i++) {
		int64_t from = all[i].news.place.ledger;
		int64_t to = r->top - from > LEDGER_COUNT_IDS ? from + LEDGER_COUNT_IDS : r->top;
		struct minute_count *counts = NULL;
		int ncounts = 0;
		if (counted[i] || to <= from)
			continue;
		err = ledger_minutes_between(r->store, from, to, &series_bounds, r->arena, &counts,
		                             &ncounts, f);
		for (int k = i; k < n && !err; k++) {
			if (counted[k] || all[k].news.place.ledger != from)
				continue;
			add_entries(&all[k], counts, ncounts);
			all[k].news.place.ledger = to;
			counted[k] = true;
		}
	}
	return err;
}

/* ---- the whole ---- */

static defib_err sampling_begin(struct sampling_round *r, struct failure *f)
{
	bool ledger = false;
	defib_err err = census_now(r->store, &r->now_us, f);
	if (!err)
		err = ledger_exists(r->store, &ledger, f);
	if (!err && ledger)
		err = ledger_top(r->store, &r->top, f);
	if (!err)
		err = series_places(r->store, r->arena, &r->places, &r->nplaces, f);
	return err;
}

/* A watch without a place begins with the ledger of a week and with ended jobs of an hour. */
static defib_err sampling_place_of(struct sampling_round *r, struct addition *x, struct failure *f)
{
	struct series_place *place = &x->news.place;
	for (int i = 0; i < r->nplaces; i++)
		if (text_eq(r->places[i].watch, x->loop->watch->name)) {
			*place = r->places[i];
			/* Another ledger, or another clock: what it said of the future is not true. */
			place->ledger = place->ledger > r->top ? r->top : place->ledger;
			place->ended_us = place->ended_us > r->now_us ? r->now_us : place->ended_us;
			return DEFIB_OK;
		}
	*place = (struct series_place){.watch = x->loop->watch->name, .ended_us = r->now_us - ENDED_US};
	if (r->top && !r->week_id) {
		defib_err err = ledger_id_before(r->store, WEEK_US, &r->week_id, f);
		if (err)
			return err;
	}
	place->ledger = r->week_id;
	return DEFIB_OK;
}

/* Whether there is more to write than is already there for this minute. */
static bool has_news(const struct addition *x, int64_t minute)
{
	const struct sampled *last = &x->loop->reading.sampled;
	struct series_point now = readings_of(x->loop), both = last->point;
	series_add(&both, &now);
	return x->news.n > 0 || last->minute != minute || both.waiting != last->point.waiting ||
	       both.oldest_ms != last->point.oldest_ms || both.running != last->point.running;
}

/* What was written, for the next round and for the metrics. */
static void sampling_remember(const struct addition *x, int64_t minute)
{
	struct watch_loop *p = x->loop;
	struct sampled *last = &p->reading.sampled;
	struct series_point now = readings_of(p);
	if (last->minute != minute)
		last->point = series_none;
	last->minute = minute;
	series_add(&last->point, &now);
	if (p->watch->stats.finished_at.text)
		watch_metrics_ended(&p->meter, x->done, x->failed);
}

static defib_err write_news(struct sampling_round *r, struct addition *all, int n,
                            struct failure *f)
{
	struct series_news *news = ARENA_ARRAY(r->arena, struct series_news, n + 1);
	int64_t minute = r->now_us / MINUTE_US;
	int nnews = 0;
	for (int i = 0; i < n; i++) {
		if (!has_news(&all[i], minute))
			continue;
		struct series_point now = readings_of(all[i].loop);
		struct series_point *point = point_at(&all[i], minute);
		series_add(point, &now);
		/* A watch whose ends are counted had none in this minute so far: 0, not unknown. */
		const struct stats *st = &all[i].loop->watch->stats;
		if (st->finished_at.text && point->done == SERIES_UNKNOWN)
			point->done = 0;
		if (st->finished_at.text && st->failed.text && point->failed == SERIES_UNKNOWN)
			point->failed = 0;
		news[nnews++] = all[i].news;
	}
	defib_err err = series_write(r->store, news, nnews, r->now_us / US_PER_S, r->arena, f);
	for (int i = 0; i < n && !err; i++)
		if (has_news(&all[i], minute))
			sampling_remember(&all[i], minute);
	return err;
}

static defib_err sampling_write(struct sampling_round *r, struct addition *all, int n,
                                struct failure *f)
{
	defib_err err = sampling_begin(r, f);
	for (int i = 0; i < n && !err; i++) {
		err = sampling_place_of(r, &all[i], f);
		if (!err)
			err = count_ended(r, &all[i], f);
	}
	if (!err)
		err = count_entries(r, all, n, f);
	return err ? err : write_news(r, all, n, f);
}

defib_err sampling_take(struct store *s, struct watch_loop **loops, int n, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct sampling_round r = {.store = s, .arena = &a};
	struct addition *all = ARENA_ARRAY(&a, struct addition, n + 1);
	int nall = 0;
	bool there = false;
	for (int i = 0; i < n; i++)
		if (loops[i]->leads && loops[i]->scanner && scanner_binding(loops[i]->scanner))
			all[nall++] = (struct addition){.loop = loops[i]};
	if (nall == 0)
		return DEFIB_OK;
	defib_err err = daemon_table_open(s, "series", true, &there, f);
	if (err == DEFIB_PERMISSION) { /* the charts stay empty; doctor says why */
		fail_clear(f);
		return DEFIB_OK;
	}
	if (!err && there)
		err = sampling_write(&r, all, nall, f);
	if (!err && there)
		err = digest_write(s, r.top, DIGESTS_MOST, f);
	for (int i = 0; i < nall; i++)
		free(all[i].news.minutes);
	return err;
}
