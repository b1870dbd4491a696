/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/readings.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/readings_workers.h"
#include "daemon/sampling.h"
#include "daemon/watch_loop.h"
#include "insight/learn.h"
#include "ledger/events.h"
#include "life/roster.h"
#include "recover/census.h"
#include "watch/stats_sql.h"

#include <jansson.h>
#include <string.h>

#define BUDGET_MS 250            /* per round: leadership waits for it */
#define SHARE 100                /* a query that took t is not repeated for this many t */
#define RUNS_MAX 5000            /* per reading, the newest */
#define AHEAD_US (60 * US_PER_S) /* ends further in the future are invalid */
#define ENDED_US (60 * US_PER_S) /* workers whose end is shown */
#define WORKERS_MAX 200

void reading_release(struct reading *r)
{
	for (int i = 0; i < r->nkinds; i++)
		free(r->kinds[i]);
}

void readings_release(struct readings *r)
{
	free(r->workers);
}

static bool leads_any(struct watch_loop **loops, int n)
{
	for (int i = 0; i < n; i++)
		if (loops[i]->leads)
			return true;
	return false;
}

/* ---- one watch ---- */

static defib_err read_depth(struct watch_loop *p, const struct binding *b, struct store *s,
                            struct arena *a, struct failure *f)
{
	const struct watch_metrics *m = &p->meter;
	struct depth_state states[DEPTH_STATES_MAX];
	int n = depth_states(p->watch, states);
	defib_err err = DEFIB_OK;
	if (n == 0 || !text_eq(states[0].name, DEPTH_READY))
		p->reading.waiting = p->reading.oldest_ms = SERIES_UNKNOWN;
	for (int i = 0; i < n && !err; i++) {
		const char *const *labels = LABELS(m->watch, m->database, states[i].name);
		AUTO_BUF sql = BUF_INIT;
		struct store_rows rows;
		depth_sql(b, &states[i], &sql);
		err = store_begin(s, TX_READ, f);
		if (!err) {
			err = store_exec(s, buf_text(&sql), NULL, 0, a, &rows, f);
			store_rollback(s); /* nothing was written */
		}
		if (err)
			return err;
		if (text_eq(states[i].name, DEPTH_READY)) {
			p->reading.waiting = row_int(&rows, 0, 0, 0);
			p->reading.oldest_ms = row_int(&rows, 0, 1, row_int(&rows, 0, 0, 0) ? -1000 : 0) / 1000;
		}
		metrics_set(m->metrics, METRIC_QUEUE, (double)row_int(&rows, 0, 0, 0), labels);
		if (row_text(&rows, 0, 1) || row_int(&rows, 0, 0, 0) == 0)
			metrics_set(m->metrics, METRIC_QUEUE_OLDEST, (double)row_int(&rows, 0, 1, 0) / 1e6,
			            labels);
		else
			metrics_drop(m->metrics, METRIC_QUEUE_OLDEST, labels);
	}
	return err;
}

/* The kind as a label: the first few by name, so that the number of series is bounded. */
static const char *kind_label(struct reading *r, const char *kind)
{
	if (!kind)
		return "";
	for (int i = 0; i < r->nkinds; i++)
		if (text_eq(r->kinds[i], kind))
			return kind;
	if (r->nkinds == READINGS_KINDS_MAX)
		return "other";
	r->kinds[r->nkinds++] = mem_strdup(kind);
	return kind;
}

static defib_err read_runs(struct watch_loop *p, const struct binding *b, struct store *s,
                           struct arena *a, struct failure *f)
{
	const struct watch_metrics *m = &p->meter;
	struct reading *r = &p->reading;
	struct runs_page page = {.limit = RUNS_MAX};
	int64_t now = 0;
	if (!runs_known(p->watch))
		return DEFIB_OK;
	defib_err err = census_now(s, &now, f);
	/* Runs that ended before the first reading count for no rate. */
	if (!err && !r->runs_us)
		r->runs_us = now;
	page.after_us = r->runs_us;
	page.until_us = now + AHEAD_US;
	if (!err)
		err = runs_read(s, b, &page, a, f);
	for (int i = 0; !err && i < page.n; i++)
		metrics_observe(m->metrics, METRIC_JOB, (double)page.runs[i].took_us / 1e6,
		                LABELS(m->watch, m->database, kind_label(r, page.runs[i].kind)));
	if (!err)
		r->runs_us = page.last_us;
	return err;
}

static void count_failure(struct metrics *m, const char *watch, const char *database,
                          const struct failure *f)
{
	metrics_add(m, METRIC_READ_FAILURES, 1, LABELS(watch, database));
	log_event(LOG_DEBUG, "numbers for metrics could not be read", LOG_STR("watch", watch),
	          LOG_STR("database", database), LOG_STR("because", f->what));
}

static void readings_read_watch(struct watch_loop *p, const struct binding *b, struct store *s)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	const struct watch_metrics *m = &p->meter;
	int64_t start = clock_boot_ms();
	defib_err err = read_depth(p, b, s, &a, &f);
	if (!err)
		err = read_runs(p, b, s, &a, &f);
	if (err)
		count_failure(m->metrics, m->watch, m->database, &f);
	else
		metrics_set(m->metrics, METRIC_READ, (double)clock_wall_us() / 1e6,
		            LABELS(m->watch, m->database));
	int64_t now = clock_boot_ms(), rest = (now - start) * SHARE;
	p->reading.due_ms = now + (rest > READINGS_MS ? rest : READINGS_MS);
}

/* ---- the database as a whole ---- */

void readings_begin(struct readings *r, struct watch_loop **loops, int n)
{
	/* What another leader counted meanwhile is not ours. */
	if (!leads_any(loops, n))
		r->begun = r->listed = r->counts_read = false;
	if (r->begun || !leads_any(loops, n))
		return;
	r->begun = true;
	r->due_ms = clock_boot_ms();
}

void readings_renew(struct readings *r, struct watch_loop **loops, int n)
{
	r->due_ms = 0;
	for (int i = 0; i < n; i++)
		loops[i]->reading.due_ms = 0;
}

/* What is kept and what was removed, whoever did it: the rounds store it in the database. */
static defib_err read_retention(struct readings *r, struct store *s, struct metrics *m,
                                const char *database, struct failure *f)
{
	struct retention_state state;
	defib_err err = retention_read(s, &state, f);
	for (int i = 0; !err && i < RETENTION_COUNT; i++) {
		const struct retention_count *k = &state.counts[i];
		const char *const *labels = LABELS(database, retention_names[i]);
		if (k->rows < 0)
			continue;
		metrics_set(m, METRIC_KEPT, (double)k->rows, labels);
		if (k->oldest_us >= 0)
			metrics_set(m, METRIC_KEPT_OLDEST, (double)k->oldest_us / 1e6, labels);
		else
			metrics_drop(m, METRIC_KEPT_OLDEST, labels);
		metrics_add(m, METRIC_PRUNED, r->counts_read ? (double)(k->removed - r->removed[i]) : 0,
		            labels);
		r->removed[i] = k->removed;
	}
	r->counts_read = r->counts_read || (!err && state.known);
	return err;
}

/* Pending retries of every watch that we lead. */
static defib_err read_retries(struct store *s, struct watch_loop **loops, int n, struct arena *a,
                              struct failure *f)
{
	struct retries_of *all = NULL;
	int nall = 0;
	bool any = false;
	for (int i = 0; i < n; i++)
		any = any || (loops[i]->leads && loops[i]->last.ledger);
	defib_err err = any ? ledger_retries_all(s, a, &all, &nall, f) : DEFIB_OK;
	for (int i = 0; i < n && !err; i++) {
		const struct watch_metrics *m = &loops[i]->meter;
		const char *const *labels = LABELS(m->watch, m->database);
		int64_t own = 0;
		if (!loops[i]->leads || !loops[i]->last.ledger)
			continue;
		for (int k = 0; k < nall; k++)
			if (text_eq(all[k].watch, loops[i]->watch->name))
				own = all[k].retries;
		metrics_set(m->metrics, METRIC_RETRIES_PENDING, (double)own, labels);
	}
	return err;
}

static void read_database(struct readings *r, struct session *own, struct metrics *m,
                          const char *database, struct watch_loop **loops, int n)
{
	AUTO_ARENA a = ARENA_INIT;
	struct failure f = {0};
	struct roster_row *rows;
	int nrows = 0;
	defib_err err = roster_recent(own->store, ENDED_US, WORKERS_MAX, &a, &rows, &nrows, &f);
	if (!err)
		readings_workers(r, rows, nrows, m, database, loops, n);
	if (!err)
		err = read_retention(r, own->store, m, database, &f);
	if (!err)
		err = read_retries(own->store, loops, n, &a, &f);
	if (err)
		count_failure(m, "", database, &f);
}

/* Watches whose turn it is, for as long as a round can spare; true: all had their turn. */
static bool readings_read_watches(struct readings *r, struct session *own,
                                  struct watch_loop **loops, int n)
{
	int64_t start = clock_boot_ms();
	struct failure f = {0};
	for (int i = 0; i < n; i++) {
		struct watch_loop *p = loops[(r->next + i) % n];
		/* What its passes already read from the database is reused. */
		const struct binding *b = p->scanner ? scanner_binding(p->scanner) : NULL;
		if (!p->leads || !b || clock_boot_ms() < p->reading.due_ms)
			continue;
		if (session_ready(own, &f))
			return true; /* the database loop will notice it too */
		if (clock_boot_ms() - start > BUDGET_MS) {
			r->next = (r->next + i) % n;
			return false;
		}
		readings_read_watch(p, b, own->store);
	}
	return true;
}

void readings_take(struct readings *r, const struct session *session, struct metrics *m,
                   const char *database, struct watch_loop **loops, int n)
{
	struct failure f = {0};
	if (!m || !r->begun || clock_boot_ms() < r->due_ms)
		return;
	struct session own = learning_session(session);
	if (session_ready(&own, &f)) {
		count_failure(m, "", database, &f);
		r->due_ms = clock_boot_ms() + READINGS_MS;
		return;
	}
	read_database(r, &own, m, database, loops, n);
	bool all = readings_read_watches(r, &own, loops, n);
	if (all && own.store && !own.store->lost && sampling_take(own.store, loops, n, &f))
		count_failure(m, "", database, &f);
	session_close(&own);
	r->due_ms = all ? clock_boot_ms() + READINGS_MS : clock_boot_ms();
}

/* ---- where to begin ---- */

static bool any_begins(struct watch_loop **loops, int n)
{
	bool any = false;
	for (int i = 0; i < n; i++) {
		if (!loops[i]->leads)
			loops[i]->reading.counts = false;
		any = any || (loops[i]->leads && !loops[i]->reading.counts);
	}
	return any;
}

/* The position that the last leader of this watch stored; -1: none, or of another ledger. */
static int64_t place_left(const struct status_row *rows, int n, const char *watch, int64_t top)
{
	int64_t place = -1;
	for (int i = 0; i < n; i++) {
		if (!text_eq(rows[i].watch, watch))
			continue;
		json_auto_t *info = json_loads(rows[i].info, 0, NULL);
		const json_t *counted = json_object_get(info, READINGS_PLACE);
		place = json_is_integer(counted) ? json_integer_value(counted) : -1;
	}
	return place >= 0 && place <= top ? place : -1;
}

static defib_err begin_counting(struct store *s, int64_t top, int64_t started_ms,
                                struct watch_loop **loops, int n, struct arena *a,
                                struct failure *f)
{
	struct status_row *rows = NULL;
	int nrows = 0;
	int64_t start = 0;
	defib_err err = status_read(s, a, &rows, &nrows, f);
	if (!err && top > 0)
		err = ledger_id_before(s, (clock_boot_ms() - started_ms) * 1000, &start, f);
	for (int i = 0; i < n && !err; i++) {
		struct reading *r = &loops[i]->reading;
		if (!loops[i]->leads || r->counts)
			continue;
		int64_t left = place_left(rows, nrows, loops[i]->watch->name, top);
		r->ledger_id = left >= 0 ? left : start;
		r->counts = true;
	}
	return err;
}

/* ---- continuing ---- */

/* The lowest position of all, and how far to read without passing another's; false: none. */
static bool next_part(struct watch_loop **loops, int n, int64_t top, int64_t *from, int64_t *to)
{
	bool any = false;
	for (int i = 0; i < n; i++) {
		int64_t at = loops[i]->reading.ledger_id;
		if (!loops[i]->leads || at >= top || (any && at >= *from))
			continue;
		*from = at;
		any = true;
	}
	*to = any && top - *from > LEDGER_COUNT_IDS ? *from + LEDGER_COUNT_IDS : top;
	for (int i = 0; i < n && any; i++) {
		int64_t at = loops[i]->reading.ledger_id;
		if (loops[i]->leads && at > *from && at < *to)
			*to = at;
	}
	return any;
}

/* Totals of a part of the ledger. */
struct ledger_part {
	struct event_count *counts;
	struct detection_count *times;
	int ncounts, ntimes;
};

static defib_err readings_read_part(struct store *s, int64_t from, int64_t to, struct arena *a,
                                    struct ledger_part *out, struct failure *f)
{
	struct time_bounds bounds[DETECTION_TIMES];
	bool detected = false;
	*out = (struct ledger_part){0};
	defib_err err = ledger_events_between(s, from, to, a, &out->counts, &out->ncounts, f);
	for (int i = 0; !err && i < out->ncounts; i++)
		detected |= (out->counts[i].counts & COUNTS_DETECTED) != 0;
	watch_metrics_bounds(bounds);
	if (!err && detected)
		err = ledger_detections_between(s, from, to, bounds, a, &out->times, &out->ntimes, f);
	return err;
}

static void count_part(struct watch_loop *p, int64_t from, int64_t to,
                       const struct ledger_part *part)
{
	if (!p->leads || p->reading.ledger_id != from)
		return;
	/* Together: no scrape sees the one without the other. */
	metrics_hold(p->meter.metrics);
	for (int i = 0; i < part->ncounts; i++)
		if (text_eq(part->counts[i].watch, p->watch->name)) {
			watch_loop_count(p, &part->counts[i]);
			p->reading.gained = true;
		}
	for (int i = 0; i < part->ntimes; i++)
		if (text_eq(part->times[i].watch, p->watch->name))
			watch_metrics_times(&p->meter, &part->times[i]);
	metrics_let(p->meter.metrics);
	p->reading.ledger_id = to;
}

static defib_err read_on(struct store *s, int64_t top, struct watch_loop **loops, int n,
                         struct arena *a, struct failure *f)
{
	int64_t from = 0, to = 0;
	defib_err err = DEFIB_OK;
	while (!err && next_part(loops, n, top, &from, &to)) {
		struct ledger_part part;
		err = readings_read_part(s, from, to, a, &part, f);
		for (int i = 0; i < n && !err; i++)
			count_part(loops[i], from, to, &part);
	}
	return err;
}

defib_err readings_ledger(struct store *s, int64_t started_ms, struct watch_loop **loops, int n,
                          struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	bool there = false;
	int64_t top = 0;
	defib_err err = ledger_exists(s, &there, f);
	if (!err && there)
		err = ledger_top(s, &top, f);
	/* As ledger_top_after(). */
	for (int i = 0; i < n && !err && there; i++)
		if (loops[i]->reading.ledger_id > top)
			loops[i]->reading.ledger_id = top;
	if (!err && any_begins(loops, n))
		err = begin_counting(s, top, started_ms, loops, n, &a, f);
	if (!err)
		err = read_on(s, top, loops, n, &a, f);
	return err;
}
