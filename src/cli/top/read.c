/* SPDX-License-Identifier: Apache-2.0
 * top/read.c: one reading of one database for `defib top`, by the same functions as status, list
 * and stats, with limits on rows and time. What is not available is left out of its cell; only a
 * database that does not answer makes the whole reading an error.
 */
#include "cli/top/read.h"

#include "base/clock.h"
#include "cli/top/model.h"
#include "insight/series.h"
#include "insight/tally.h"
#include "ledger/counts.h"
#include "ledger/events.h"
#include "life/roster.h"
#include "recover/evidence.h"
#include "recover/held.h"
#include "view/ledger.h"
#include "view/status.h"

#define SERIES_MS 15000 /* between readings of the last hour */

struct top_reading {
	struct top_view *view;
	struct top_part *part;
	struct arena scratch; /* rows of the database; what is shown is copied from them */
	struct stored_status stored;
	struct roster_row *workers;
	int nworkers;
	int64_t now_us; /* the database's clock, as far as known; 0: not */
};

defib_err top_ready(struct top_view *v, int watch, struct failure *f)
{
	struct top_bound *b = &v->watches[watch];
	defib_err err = session_ready(&v->reads, f);
	if (!err && v->opened != v->reads.opened) {
		for (int i = 0; i < v->n; i++)
			v->watches[i].bound.ready = false;
		v->opened = v->reads.opened;
	}
	bool begun = b->bound.ready;
	if (!err)
		err = bound_open(&b->bound, &v->reads, b->watch,
		                 v->ctx->ledger_off ? LEDGER_NONE : LEDGER_FIND, f);
	/* The first act creates the ledger: it may exist by now. */
	if (!err && begun && !b->bound.ledger.ready && !v->ctx->ledger_off)
		err = ledger_open(v->reads.store, false, &b->bound.ledger, f);
	return err;
}

/* ---- cells ---- */

static void put_text(struct top_reading *r, struct top_row *row, int cell, enum color color,
                     const char *text)
{
	row->cells[cell] =
		(struct top_cell){text && *text ? arena_strdup(&r->part->arena, text) : NULL, color};
}

static void put(struct top_reading *r, struct top_row *row, int cell, enum color color,
                struct buf *text)
{
	put_text(r, row, cell, color, buf_text(text));
	buf_clear(text);
}

static void put_count(struct top_reading *r, struct top_row *row, int cell, enum color color,
                      int64_t n, bool more)
{
	AUTO_BUF text = BUF_INIT;
	buf_add_count(&text, n);
	buf_add(&text, more ? "+" : "");
	put(r, row, cell, color, &text);
}

static struct top_row *new_row(struct top_reading *r, enum top_pane pane, int room)
{
	struct top_part *p = r->part;
	if (!p->rows[pane])
		p->rows[pane] = ARENA_ARRAY(&p->arena, struct top_row, room);
	struct top_row *row = &p->rows[pane][p->n[pane]++];
	*row = (struct top_row){.part = r->view->part, .watch = -1};
	return row;
}

/* ---- jobs ---- */

/* What keeps a stuck job from being recovered: a hold, a pending retry, an override, a guard. */
static void hindrance(const struct watch *w, const struct browsed *row,
                      const struct watch_status *st, struct buf *text)
{
	const char *guard = json_string_value(json_object_get(st->led.info, "guard"));
	note_words(w, row, text);
	for (int i = 0; i < st->noverrides && !text->len; i++)
		if (text_eq(st->overrides[i]->name, "pause"))
			buf_add(text, "paused");
	if (!text->len && st->is == WATCH_STATUS_HELD)
		buf_addf(text, "guard: %s", guard ? guard : "holds");
	if (!text->len && st->is == WATCH_STATUS_NO_LEADER)
		buf_add(text, "no daemon");
}

static void job_row(struct top_reading *r, int watch, const struct browsed *job,
                    const struct watch_status *st)
{
	const struct watch *w = r->view->watches[watch].watch;
	struct top_row *row = new_row(r, TOP_JOBS, r->view->n * TOP_ROWS_MAX);
	struct candidate cand;
	AUTO_BUF text = BUF_INIT;
	row->watch = watch;
	row->job = arena_strdup(&r->part->arena, job->job);
	row->id = arena_printf(&r->part->arena, "%d/%d/%s", r->view->part, watch, job->job);
	job_qualified(w, job->job, &text);
	put(r, row, 0, COLOR_NONE, &text);
	verdict_words(&job->judgement, &text);
	put(r, row, 1, COLOR_RED, &text);
	judged_candidate(w, &job->facts, !r->view->ctx->ledger_off, &r->scratch, &cand);
	put_text(r, row, 2, COLOR_NONE, remedy_names[cand.decision.remedy]);
	if (job->facts.owner)
		shown_owner(w, job->facts.owner, &text);
	put(r, row, 3, COLOR_NONE, &text);
	hindrance(w, job, st, &text);
	put(r, row, 4, COLOR_YELLOW, &text);
	put_text(r, row, 5, COLOR_NONE, job->facts.kind);
	for (int i = 0; i < w->show.n; i++)
		if (job->facts.show[i]) {
			buf_add(&text, text.len ? " " : "");
			shown_value(w, w->show.items[i], job->facts.show[i], &text);
		}
	put(r, row, 6, COLOR_NONE, &text);
}

/* If the table is slow to read. What was found by then is shown. */
#define SEARCH_MS 1000

static defib_err top_read_jobs(struct top_reading *r, int watch, const struct watch_status *st,
                               int *n, bool *more, struct failure *f)
{
	struct bound *b = &r->view->watches[watch].bound;
	const struct term stuck = {.what = TERM_STUCK};
	struct browse_bound bound = {.for_ms = SEARCH_MS};
	const struct browse ask = {.terms = &stuck,
	                           .nterms = 1,
	                           .sort = browse_sort(&stuck, 1),
	                           .limit = TOP_ROWS_MAX,
	                           .facts = true,
	                           .bound = &bound};
	struct browsed *rows;
	*n = 0;
	defib_err err =
		browse_jobs(&(struct look){r->view->reads.store, &b->sql, &b->ledger, &r->scratch}, &ask,
	                &rows, n, more, f);
	*more = *more || bound.cut;
	for (int i = 0; !err && i < *n; i++) {
		job_row(r, watch, &rows[i], st);
		r->now_us = rows[i].facts.now_us;
	}
	return err;
}

/* ---- watches ---- */

static const enum color watch_status_colors[] = {
	[WATCH_STATUS_NO_LEADER] = COLOR_RED, [WATCH_STATUS_SILENT] = COLOR_RED,
	[WATCH_STATUS_FAILED] = COLOR_RED,    [WATCH_STATUS_HELD] = COLOR_YELLOW,
	[WATCH_STATUS_ALERTING] = COLOR_RED,  [WATCH_STATUS_STUCK] = COLOR_RED,
	[WATCH_STATUS_DOUBT] = COLOR_YELLOW,  [WATCH_STATUS_PAUSED] = COLOR_YELLOW,
	[WATCH_STATUS_WELL] = COLOR_GREEN,
};

/* Its state; a pause is shown beside it, because a worse state may hide it. */
static void put_watch_status(struct top_reading *r, struct top_row *row,
                             const struct watch_status *st)
{
	AUTO_BUF text = BUF_INIT;
	for (int i = 0; i < st->noverrides; i++)
		row->paused = row->paused || text_eq(st->overrides[i]->name, "pause");
	buf_add(&text, st->is == WATCH_STATUS_NO_LEADER ? "no leader" : watch_status_names[st->is]);
	if (row->paused && st->is != WATCH_STATUS_PAUSED)
		buf_add(&text, ", paused");
	put(r, row, WATCH_STATE, watch_status_colors[st->is], &text);
}

static void put_oldest(struct top_reading *r, struct top_row *row, int watch)
{
	struct bound *b = &r->view->watches[watch].bound;
	const struct term running = {.what = TERM_RUNNING};
	struct browse_bound bound = {.for_ms = SEARCH_MS};
	const struct browse ask = {.terms = &running,
	                           .nterms = 1,
	                           .sort = browse_sort(&running, 1),
	                           .limit = 1,
	                           .facts = true,
	                           .bound = &bound};
	struct browsed *rows;
	AUTO_BUF text = BUF_INIT;
	struct failure f = {0};
	bool more;
	int n = 0;
	if (!browse_jobs(&(struct look){r->view->reads.store, &b->sql, &b->ledger, &r->scratch}, &ask,
	                 &rows, &n, &more, &f) &&
	    n == 1 && !bound.by_key && rows[0].has_since && rows[0].facts.now_us >= rows[0].since_us)
		duration_text(rows[0].facts.now_us - rows[0].since_us, &text);
	put(r, row, WATCH_OLDEST_RUN, COLOR_NONE, &text);
}

static void put_recovered(struct top_reading *r, struct top_row *row, int64_t n)
{
	AUTO_BUF text = BUF_INIT;
	double minutes = (double)(clock_boot_ms() - r->view->begun_ms) / 60000;
	buf_add_count(&text, n);
	if (n)
		buf_addf(&text, " (%.1f/m)", (double)n / (minutes < 1 ? 1 : minutes));
	put(r, row, WATCH_RECOVERED, COLOR_NONE, &text);
}

/* As metrics and stats count them. */
static void put_waiting(struct top_reading *r, struct top_row *row, int watch)
{
	struct waiting w;
	AUTO_BUF text = BUF_INIT;
	struct failure ignored = {0}; /* a number that is not available is left out */
	if (waiting_count(r->view->reads.store, &r->view->watches[watch].bound.sql, &r->scratch, &w,
	                  &ignored) ||
	    !w.known)
		return;
	put_count(r, row, WATCH_WAITING, COLOR_NONE, w.n, w.capped);
	if (w.n && w.has_oldest)
		duration_text(w.oldest_us, &text);
	put(r, row, WATCH_OLDEST_WAIT, COLOR_NONE, &text);
}

/* What the daemon recorded of the last hour, read as often as it records. */
static void read_series(struct top_reading *r)
{
	struct top_view *v = r->view;
	struct failure ignored = {0};
	if (clock_boot_ms() < v->series_ms)
		return;
	v->series_ms = clock_boot_ms() + SERIES_MS;
	arena_clear(&v->series_arena);
	v->series = NULL;
	const char **names = ARENA_ARRAY(&v->series_arena, const char *, v->n + 1);
	for (int i = 0; i < v->n; i++)
		names[i] = v->watches[i].watch->name;
	if (series_read_each(v->reads.store, SERIES_HOUR, names, v->n, clock_wall_us() / US_PER_S,
	                     &v->series_arena, &v->series, &ignored))
		v->series = NULL;
}

static void put_hour(struct top_reading *r, struct top_row *row, int watch)
{
	static const enum top_watch_cell cells[] = {WATCH_WAITING_HOUR, WATCH_DONE_HOUR};
	AUTO_BUF text = BUF_INIT;
	for (int i = 0; i < 2 && r->view->series; i++) {
		top_spark(&r->view->series[watch], cells[i], r->view->ctx->ascii, &text);
		put(r, row, cells[i], COLOR_NONE, &text);
	}
}

static int workers_of(const struct top_reading *r, const char *watch)
{
	int n = 0;
	size_t len = strlen(watch);
	for (int i = 0; i < r->nworkers; i++) {
		const char *p = text_eq(r->workers[i].state, "alive") ? r->workers[i].serves : NULL;
		while (p && !(strncmp(p, watch, len) == 0 && (p[len] == '\n' || p[len] == '\0')))
			p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL;
		n += p != NULL;
	}
	return n;
}

/* Without those that already wait for an operator, as everywhere. */
static void put_stuck(struct top_reading *r, struct top_row *row, int watch,
                      const struct held_count *held)
{
	struct failure ignored = {0}; /* a number that is not available is left out */
	int64_t n = 0;
	const struct bound *b = &r->view->watches[watch].bound;
	if (held_stuck(r->view->reads.store, &b->sql, b->ledger.ready, &n, &ignored)) {
		r->part->stuck_more = true;
		return;
	}
	bool more = n >= ROWS_COUNT_MAX;
	n = n > held->running ? n - held->running : 0;
	r->part->stuck += n;
	r->part->stuck_more = r->part->stuck_more || more;
	put_count(r, row, WATCH_STUCK, n ? COLOR_RED : COLOR_NONE, n, more);
}

/* What only the daemon knows that has looked more than once; "": nobody looks. */
static void put_unstarted(struct top_reading *r, struct top_row *row, const struct watch_status *st)
{
	const json_t *number = json_object_get(st->led.info, "unstarted");
	int64_t n = json_integer_value(number);
	/* Others may write into the table of states: what no scan counts is no number. */
	if (!json_is_integer(number) || n < 0 || n > ROWS_COUNT_MAX)
		return;
	r->part->unstarted += n;
	put_count(r, row, WATCH_UNSTARTED, n ? COLOR_RED : COLOR_NONE, n, n == ROWS_COUNT_MAX);
}

static defib_err watch_row(struct top_reading *r, int watch, struct failure *f)
{
	struct top_bound *b = &r->view->watches[watch];
	const char *name = b->watch->name;
	struct top_row *row = new_row(r, TOP_WATCHES, r->view->n);
	struct watch_status st;
	struct held_count held = {0};
	int64_t running = 0;
	bool more = false;
	int stuck = 0;
	row->watch = watch;
	row->id = arena_printf(&r->part->arena, "%d/%s", r->view->part, name);
	row->cells[0].text = arena_strdup(&r->part->arena, name);
	watch_status_init(&st, r->view->database, name, &r->stored);
	defib_err err = top_ready(r->view, watch, f);
	if (!err)
		err = look_running(r->view->reads.store, &b->bound.sql, &running, f);
	if (!err)
		err = top_read_jobs(r, watch, &st, &stuck, &more, f);
	if (!err && b->bound.ledger.ready)
		err = held_count(r->view->reads.store, &b->bound.sql, &held, f);
	if (!err) {
		put_waiting(r, row, watch);
		put_count(r, row, WATCH_RUNNING, COLOR_NONE, running, running >= ROWS_COUNT_MAX);
		put_stuck(r, row, watch, &held);
		put_count(r, row, WATCH_HELD, held.all ? COLOR_YELLOW : COLOR_NONE, held.all, false);
		put_unstarted(r, row, &st);
		put_oldest(r, row, watch);
		put_count(r, row, WATCH_WORKERS, COLOR_NONE, workers_of(r, name), false);
		put_hour(r, row, watch);
		put_recovered(r, row, b->recovered);
		put_watch_status(r, row, &st);
	} else {
		b->bound.ready = false;
		r->part->stuck_more = true;
		/* The reason replaces its numbers; the other watches are still shown. */
		put_text(r, row, WATCH_STATE, COLOR_RED, f->what);
	}
	watch_status_release(&st);
	return err;
}

/* ---- workers, events ---- */

static void worker_row(struct top_reading *r, const struct roster_row *w)
{
	struct top_row *row = new_row(r, TOP_WORKERS, TOP_ROWS_MAX);
	bool alive = text_eq(w->state, "alive");
	AUTO_BUF text = BUF_INIT;
	row->id = arena_printf(&r->part->arena, "%d/%lld", r->view->part, (long long)w->id);
	put_text(r, row, 0, COLOR_NONE, w->name);
	buf_addf(&text, "%s%s%s", alive && w->expired ? "silent" : w->state,
	         !alive && w->cause ? ": " : "", !alive && w->cause ? w->cause : "");
	put(r, row, 1, alive && !w->expired ? COLOR_GREEN : COLOR_YELLOW, &text);
	put_count(r, row, 2, COLOR_NONE, w->holding, false);
	when_text(alive || !w->has_ended ? w->renewed_us : w->ended_us,
	          r->now_us ? r->now_us : clock_wall_us(), &text);
	put(r, row, 3, COLOR_NONE, &text);
	put_text(r, row, 4, COLOR_NONE, w->known ? w->who.host : NULL);
	if (w->known)
		buf_addf(&text, "%lld", (long long)w->who.pid);
	put(r, row, 5, COLOR_NONE, &text);
	for (const char *p = w->serves; p && *p; p++)
		buf_addch(&text, *p == '\n' ? ' ' : *p);
	put(r, row, 6, COLOR_NONE, &text);
}

/* Without a registry there are no workers of ours; that is not a failure. */
static void top_read_workers(struct top_reading *r)
{
	struct failure f = {0};
	struct roster_beat *beats;
	bool there = false;
	int n;
	if (roster_beats(r->view->reads.store, 1, &r->scratch, &there, &beats, &n, &r->now_us, &f) ||
	    !there)
		return;
	if (roster_read(r->view->reads.store, 0, TOP_ROWS_MAX, &r->scratch, &r->workers, &r->nworkers,
	                &f))
		r->nworkers = 0;
	for (int i = 0; i < r->nworkers; i++)
		worker_row(r, &r->workers[i]);
}

/* "12:05:00  REQUEUED jobs/17 by cli:ann: was requeued (silent): …" */
static void event_line(struct top_reading *r, const struct ledger_row *row)
{
	AUTO_BUF text = BUF_INIT;
	const struct watch *watch = NULL;
	for (int i = 0; i < r->view->n; i++)
		if (text_eq(r->view->watches[i].watch->name, row->watch))
			watch = r->view->watches[i].watch;
	if (strlen(row->at) >= 19)
		buf_addf(&text, "%.8s  ", row->at + 11);
	buf_addf(&text, "%s %s/%s by %s: ", row->event, row->watch, row->job, row->actor);
	entry_words(watch, row, &text);
	r->part->event_at[r->part->nevents] = arena_strdup(&r->part->arena, row->at);
	r->part->events[r->part->nevents++] = arena_strdup(&r->part->arena, buf_text(&text));
}

static defib_err count_recovered(struct top_reading *r, struct failure *f)
{
	struct top_view *v = r->view;
	struct event_count *counts;
	int n = 0;
	if (v->ledger_id < 0)
		return ledger_top(v->reads.store, &v->ledger_id, f);
	defib_err err = ledger_events_since(v->reads.store, v->ledger_id, &r->scratch, &counts, &n,
	                                    &v->ledger_id, f);
	for (int i = 0; !err && i < n; i++)
		for (int k = 0; k < v->n; k++)
			if ((counts[i].counts & COUNTS_RECOVERED) &&
			    text_eq(counts[i].watch, v->watches[k].watch->name))
				v->watches[k].recovered += counts[i].n;
	return err;
}

static void read_events(struct top_reading *r)
{
	const struct ledger_filter newest = {.limit = TOP_EVENTS_MAX, .newest_first = true};
	struct store *s = r->view->reads.store;
	struct ledger_row *rows;
	struct failure f = {0};
	bool there = false;
	int n = 0;
	if (ledger_exists(s, &there, &f) || !there) {
		r->view->ledger_id = r->view->ledger_id < 0 ? 0 : r->view->ledger_id;
		return;
	}
	if (ledger_read(s, &newest, &r->scratch, &rows, &n, &f) || count_recovered(r, &f))
		return;
	for (int i = 0; i < n; i++)
		event_line(r, &rows[i]);
}

/* ---- the whole ---- */

static bool is_away(defib_err err)
{
	return err == DEFIB_CONNECTION || err == DEFIB_UNKNOWN_OUTCOME;
}

/* The queue besides other watches is listed once it is used. */
static bool waits_for_use(const struct top_view *v, const struct top_bound *b)
{
	return v->n > 1 && !b->used && text_eq(b->watch->name, BUILTIN_NAME);
}

static bool is_shown(struct top_view *v, int watch)
{
	struct top_bound *b = &v->watches[watch];
	struct failure ignored = {0};
	if (waits_for_use(v, b) && queue_in_use(v->reads.store, &b->used, &ignored))
		b->used = false;
	return !waits_for_use(v, b);
}

static defib_err top_read_all(struct top_reading *r, struct failure *f)
{
	struct top_view *v = r->view;
	defib_err err = session_ready(&v->reads, f);
	if (!err)
		err = stored_status_read(v->reads.store, &r->scratch, &r->stored, f);
	if (err == DEFIB_PERMISSION) { /* the state of daemons is unknown; the rest is known */
		fail_clear(f);
		err = DEFIB_OK;
	}
	if (err)
		return err;
	top_read_workers(r);
	read_events(r);
	read_series(r);
	for (int i = 0; i < v->n; i++) {
		struct failure one = {0};
		if (!is_shown(v, i))
			continue;
		err = watch_row(r, i, &one);
		if (err && is_away(err)) {
			*f = one;
			return err;
		}
	}
	return DEFIB_OK;
}

/* Its watches are still listed, without data. */
static void away_rows(struct top_reading *r)
{
	struct top_part *p = r->part;
	for (int pane = 0; pane < TOP_PANES; pane++)
		p->n[pane] = 0;
	for (int i = 0; i < r->view->n; i++) {
		const struct top_bound *b = &r->view->watches[i];
		const char *name = b->watch->name;
		if (waits_for_use(r->view, b))
			continue;
		struct top_row *row = new_row(r, TOP_WATCHES, r->view->n);
		row->watch = i;
		row->id = arena_printf(&p->arena, "%d/%s", r->view->part, name);
		row->cells[0].text = name;
		put_text(r, row, WATCH_STATE, COLOR_RED, "database unavailable");
	}
}

struct top_part *top_read(struct top_view *v)
{
	struct top_reading r = {.view = v, .part = mem_alloc(sizeof *r.part)};
	struct failure f = {0};
	r.part->database = v->database->name;
	if (top_read_all(&r, &f)) {
		r.part->error = arena_strdup(&r.part->arena, f.what);
		r.part->stuck = r.part->unstarted = 0;
		r.part->stuck_more = true;
		away_rows(&r);
	}
	arena_release(&r.scratch);
	return r.part;
}

/* ---- the last hour of a watch as a line of characters ---- */

static int64_t value_at(const struct series_point *p, enum top_watch_cell which)
{
	return which == WATCH_DONE_HOUR ? p->done : p->waiting;
}

void top_spark(const struct series *s, enum top_watch_cell which, bool ascii, struct buf *out)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const marks[] = {"_", ".", "-", "=", "+", "*", "%", "#"};
	int64_t high[TOP_SPARK], top = SERIES_UNKNOWN;
	int each = s->about->steps / TOP_SPARK;
	for (int i = 0; i < TOP_SPARK; i++) {
		high[i] = SERIES_UNKNOWN;
		for (int k = 0; k < each; k++) {
			int64_t v = value_at(&s->points[i * each + k], which);
			high[i] = v > high[i] ? v : high[i];
		}
		top = high[i] > top ? high[i] : top;
	}
	for (int i = 0; i < TOP_SPARK && top != SERIES_UNKNOWN; i++) {
		int64_t level = high[i] > 0 ? (high[i] * 7 + top - 1) / top : 0; /* 1 is not 0 */
		if (high[i] == SERIES_UNKNOWN)
			buf_add(out, ascii ? " " : "·");
		else
			buf_add(out, ascii ? marks[level] : blocks[level]);
	}
}
