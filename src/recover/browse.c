/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/browse.h"

#include "base/clock.h"
#include "base/window.h"
#include "ledger/events.h"
#include "ledger/jobs.h"
#include "ledger/retries.h"
#include "recover/held.h"
#include "recover/judge.h"
#include "recover/masked.h"

#include <assert.h>

#define PAGE_ROWS 1000
#define PATIENCE_FOR_FEW 10 /* times as long as for other lists */
/* A table of so few rows is sorted as was asked for, even if that takes longer than usual. */
#define SORTED_ROWS 10000

/* A reading under way. */
struct browse_reading {
	struct store *store;
	const struct watch_sql *sql;
	const struct ledger *ledger;
	const struct browse *ask;
	bool facts;
	struct arena *arena;
	struct browsed *rows;
	int n, room;
	int64_t until_us; /* when to stop reading windows; 0: at the end of the table */
	bool cut;
	int64_t examined;    /* rows */
	int facts_at_a_time; /* rows */
	const struct browse_position *rest_of;
};

void browse_position_copy(const struct browse_position *from, struct arena *a,
                          struct browse_position *out)
{
	*out = (struct browse_position){.sort = from->sort ? arena_strdup(a, from->sort) : NULL,
	                                .by_key = from->by_key};
	for (int k = 0; k < WATCH_KEYS_MAX; k++)
		out->key[k] = from->key[k] ? arena_strdup(a, from->key[k]) : NULL;
	if (from->rest_of) {
		struct browse_position *rest = ARENA_NEW(a, struct browse_position);
		browse_position_copy(from->rest_of, a, rest);
		out->rest_of = rest;
	}
}

enum list_sort browse_sort(const struct term *terms, int n)
{
	enum list_sort sort = LIST_BY_KEY;
	for (int i = 0; i < n; i++)
		if (terms[i].what == TERM_RUNNING || terms[i].what == TERM_STUCK ||
		    terms[i].what == TERM_VERDICT)
			sort = LIST_BY_AGE;
	return sort;
}

/* Whether a term can only be decided from facts. */
static bool judged(const struct browse *o)
{
	bool any = false;
	for (int i = 0; i < o->nterms; i++) {
		enum term_what what = o->terms[i].what;
		any = any || what == TERM_VERDICT || what == TERM_STUCK || what == TERM_HELD ||
		      what == TERM_EXCUSED;
	}
	return any;
}

/* Terms that the SQL condition only approximates. */
static bool holds(const struct watch *w, const struct term *t, const struct browsed *row)
{
	enum verdict verdict = row->judgement.verdict;
	switch (t->what) {
	case TERM_STUCK:
		return verdict != VERDICT_NONE;
	case TERM_VERDICT:
		return verdict != VERDICT_NONE && (verdict == t->verdict) == (t->op == TERM_IS);
	case TERM_HELD:
		return held_now(w, &row->facts, row->state);
	case TERM_EXCUSED:
		return shown_excused(&row->facts, &row->judgement);
	default:
		return true;
	}
}

static bool wanted(const struct browse_reading *r, const struct browsed *row)
{
	const struct watch *w = r->sql->binding->watch;
	if (r->facts && !row->facts.job)
		return false; /* it disappeared in between */
	for (int i = 0; r->facts && i < r->ask->nterms; i++)
		if (!holds(w, &r->ask->terms[i], row))
			return false;
	return true;
}

static void browse_keep(struct browse_reading *r, const struct browsed *row)
{
	if (r->n == r->room) {
		struct browsed *old = r->rows;
		r->room = r->room ? 2 * r->room : 64;
		r->rows = ARENA_ARRAY(r->arena, struct browsed, r->room);
		for (int i = 0; i < r->n; i++)
			r->rows[i] = old[i];
	}
	r->rows[r->n++] = *row;
}

static bool full(const struct browse_reading *r)
{
	return r->ask->limit > 0 && r->n > r->ask->limit;
}

/* What a statement found, without its facts. */
static void decode(const struct watch *w, const struct store_rows *rows, int row, struct arena *a,
                   struct browsed *out)
{
	int state = w->key.n, sort = state + 1, since = state + 2;
	*out = (struct browsed){.state = row_text(rows, row, state),
	                        .has_since = row_text(rows, row, since) != NULL,
	                        .since_us = row_int(rows, row, since, 0)};
	for (int k = 0; k < w->key.n; k++)
		out->at.key[k] = row_text(rows, row, k);
	out->at.sort = row_text(rows, row, sort);
	out->job = job_text(out->at.key, w->key.n, a);
}

/* Facts and pending retries of a page; a row that disappeared in between has none. */
static defib_err add_facts(struct browse_reading *r, struct browsed *page, int n, struct failure *f)
{
	const struct watch *w = r->sql->binding->watch;
	const char **jobs = JOBS_OF(page, job, n, r->arena);
	struct facts *facts;
	struct pending_retry *pending = NULL;
	struct job_index index;
	int npending = 0;
	defib_err err =
		look_each(&(struct look){r->store, r->sql, r->ledger, r->arena}, jobs, n, &facts, f);
	if (!err && r->ledger->ready)
		err = ledger_retries_of(r->store, w->name, jobs, n, r->arena, &pending, &npending, f);
	for (int i = 0; !err && i < n; i++)
		if (facts[i].job) {
			page[i].facts = facts[i];
			page[i].judgement = judge_shown(w, &facts[i]);
		}
	job_index_init(&index, jobs, n, r->arena);
	for (int i = 0; !err && i < npending; i++) {
		int at = job_index_find(&index, pending[i].job);
		page[at].has_retry = true;
		page[at].retry_us = pending[i].due_us;
	}
	return err;
}

/* ---- time ---- */

/* Another attempt can read less at a time; a session that is lost cannot. */
static bool timed_out(const struct browse_reading *r, defib_err err)
{
	return err == DEFIB_TIMEOUT && !r->store->lost;
}

/* Whether the page can end here, with what was read so far, instead of with an error. */
static bool can_end(const struct browse_reading *r)
{
	return r->until_us && r->examined > 0;
}

/* ---- a page of a statement ---- */

static void browse_go_on(struct list_query *l, const struct browse_position *at)
{
	l->after = true;
	l->after_sort = at->sort;
	for (int k = 0; k < WATCH_KEYS_MAX; k++)
		l->after_key[k] = at->key[k];
}

/* Where the list is. */
static struct browse_position browse_place(const struct browse_reading *r,
                                           const struct list_query *l)
{
	struct browse_position at = {.sort = l->after_sort, .by_key = l->by_key, .rest_of = r->rest_of};
	for (int k = 0; l->after && k < WATCH_KEYS_MAX; k++)
		at.key[k] = l->after_key[k];
	return at;
}

/* Facts of a part of a page: all of it, or as many rows as can be read in time. */
static defib_err add_some_facts(struct browse_reading *r, struct browsed *page, int n, int *added,
                                struct failure *f)
{
	defib_err err;
	do {
		fail_clear(f);
		*added = n < r->facts_at_a_time ? n : r->facts_at_a_time;
		err = add_facts(r, page, *added, f);
		r->facts_at_a_time = timed_out(r, err) ? (int)window_smaller(*added) : PAGE_ROWS;
	} while (timed_out(r, err) && *added > 1);
	return err;
}

/* Keep the wanted rows of a page. After an error the list continues after those that were kept. */
static defib_err keep_page(struct browse_reading *r, struct list_query *l,
                           const struct store_rows *rows, struct failure *f)
{
	struct browsed *page = ARENA_ARRAY(r->arena, struct browsed, rows->nrows);
	defib_err err = DEFIB_OK;
	int n = rows->nrows;
	for (int i = 0; i < rows->nrows; i++)
		decode(r->sql->binding->watch, rows, i, r->arena, &page[i]);
	for (int at = 0; at < rows->nrows && !full(r) && !err; at += n) {
		if (r->facts)
			err = add_some_facts(r, page + at, rows->nrows - at, &n, f);
		for (int i = at; i < at + n && !full(r) && !err; i++) {
			browse_go_on(l, &page[i].at);
			page[i].at = browse_place(r, l);
			r->examined++;
			if (wanted(r, &page[i]))
				browse_keep(r, &page[i]);
		}
	}
	return err;
}

/* One statement of ours; within_ms 0: as long as the session allows. */
static defib_err browse_ask(struct browse_reading *r, struct list_statement *s, int64_t within_ms,
                            struct store_rows *rows, struct failure *f)
{
	defib_err err =
		within_ms ? store_begin_within(r->store, within_ms, f) : store_begin(r->store, TX_READ, f);
	if (!err) {
		err = store_exec(r->store, buf_text(&s->sql), s->params, s->nparams, r->arena, rows, f);
		store_rollback(r->store); /* nothing was written */
	}
	masked_failure(r->sql->binding->watch, f);
	buf_release(&s->sql);
	return err;
}

/* ---- the list by one statement ---- */

/* Running, stuck and held jobs are few, and found by an index if there is one. */
static int64_t patience_ms(const struct browse *o)
{
	bool few = judged(o) || browse_sort(o->terms, o->nterms) == LIST_BY_AGE;
	return o->bound ? o->bound->within_ms * (few ? PATIENCE_FOR_FEW : 1) : 0;
}

/* All pages of one part: with a sort value, or without. */
static defib_err browse_read_part(struct browse_reading *r, struct list_query *l, int64_t within_ms,
                                  struct failure *f)
{
	defib_err err = DEFIB_OK;
	struct store_rows rows = {0};
	bool more = true;
	while (!err && more && !r->cut) {
		struct list_statement s;
		list_sql(r->sql->binding, l, &s);
		err = browse_ask(r, &s, within_ms, &rows, f);
		if (!err)
			err = keep_page(r, l, &rows, f);
		more = !l->keys && rows.nrows == l->limit && !full(r);
		r->cut = !err && more && r->until_us && clock_boot_us() >= r->until_us;
		count_tell(&r->ask->on_count, r->n);
	}
	return err;
}

static defib_err read_whole(struct browse_reading *r, struct list_query *l, int64_t within_ms,
                            struct failure *f)
{
	bool parts = l->sort != LIST_BY_KEY && !l->unsorted;
	defib_err err = browse_read_part(r, l, within_ms, f);
	if (!err && parts && !full(r) && !r->cut) {
		const struct list_query sorted = *l;
		l->unsorted = true;
		l->after = false;
		err = browse_read_part(r, l, within_ms, f);
		if (err && !l->after)
			*l = sorted;
	}
	return err;
}

/* ---- the list by windows of the table ---- */

/*
 * Continue in key order; what was read in the other order is left out. The oldest jobs usually have
 * the smallest keys.
 */
static void sort_by_key(struct browse_reading *r, struct list_query *l)
{
	if (l->after) {
		struct browse_position *rest = ARENA_NEW(r->arena, struct browse_position);
		struct list_query *other = ARENA_NEW(r->arena, struct list_query);
		*rest = browse_place(r, l);
		r->rest_of = rest;
		*other = *l;
		l->rest_of = other;
	}
	l->by_key = true;
	l->sort = LIST_BY_KEY;
	l->after = l->unsorted = false;
	l->after_sort = NULL;
}

/* The rows after the list's position; *last: no rows come after them. */
static defib_err browse_read_window(struct browse_reading *r, struct list_query *l, int64_t rows,
                                    bool *last, struct failure *f)
{
	const struct browse_bound *bound = r->ask->bound;
	int64_t within_ms = bound && rows > 1 ? bound->for_ms * WINDOW_PATIENCE : 0;
	int64_t before = r->examined;
	struct browse_position end = {0};
	struct list_statement s;
	struct store_rows found;
	list_window_sql(r->sql->binding, l, rows, &s);
	defib_err err = browse_ask(r, &s, within_ms, &found, f);
	if (err)
		return err;
	*last = found.nrows < 2;
	for (int k = 0; k < r->sql->binding->watch->key.n; k++)
		end.key[k] = row_text(&found, 0, k);
	l->window = *last ? NULL : end.key;
	err = browse_read_part(r, l, within_ms, f);
	l->window = NULL;
	if (!err && !*last && !full(r) && !r->cut) {
		browse_go_on(l, &end);
		r->examined = before + rows;
	}
	return err;
}

static defib_err browse_read_windows(struct browse_reading *r, struct list_query *l,
                                     struct failure *f)
{
	int64_t rows = WINDOW_FIRST;
	bool last = false;
	while (!last && !full(r) && !r->cut) {
		int64_t begun_us = clock_boot_us();
		defib_err err = browse_read_window(r, l, rows, &last, f);
		int64_t now_us = clock_boot_us(), left_us = r->until_us ? r->until_us - now_us : WINDOW_US;
		if (timed_out(r, err) && (rows > 1 || can_end(r))) {
			fail_clear(f);
			r->cut = can_end(r) && (rows == 1 || left_us <= 0);
			rows = window_smaller(rows);
			last = false;
		} else if (err) {
			if (timed_out(r, err))
				fail_next(f, "the next row of table %s alone takes longer than that to read",
				          r->sql->binding->watch->table);
			return err;
		} else {
			r->cut = r->cut || (!last && !full(r) && left_us <= 0);
			rows = window_next(rows, now_us - begun_us, left_us < WINDOW_US ? left_us : WINDOW_US);
		}
	}
	return DEFIB_OK;
}

/* Whether the table has few rows; not if that takes long to find out. */
static bool is_small(struct browse_reading *r, const struct list_query *l)
{
	struct failure ignored = {0};
	struct list_statement s;
	struct store_rows rows;
	list_window_sql(r->sql->binding, l, SORTED_ROWS, &s);
	return !browse_ask(r, &s, r->ask->bound->for_ms, &rows, &ignored) && rows.nrows < 2;
}

/* By one statement if that is fast enough, else by windows. */
static defib_err browse_read_list(struct browse_reading *r, struct list_query *l, struct failure *f)
{
	const struct browse_bound *bound = r->ask->bound;
	bool at_once = bound && bound->at_once;
	defib_err err = at_once ? DEFIB_TIMEOUT : read_whole(r, l, patience_ms(r->ask), f);
	if (timed_out(r, err) && bound && !at_once && l->sort != LIST_BY_KEY && is_small(r, l)) {
		fail_clear(f);
		err = read_whole(r, l, 0, f);
	}
	if (!timed_out(r, err))
		return err;
	fail_clear(f);
	if (l->sort != LIST_BY_KEY)
		sort_by_key(r, l);
	return browse_read_windows(r, l, f);
}

/* A page that continues in key order leaves out what earlier pages read in the other order. */
static void begin_after(struct browse_reading *r, struct list_query *l,
                        const struct browse_position *at)
{
	if (at->by_key && at->rest_of) {
		browse_go_on(l, at->rest_of);
		l->unsorted = !at->rest_of->sort;
	}
	if (at->by_key)
		sort_by_key(r, l);
	l->unsorted = l->sort != LIST_BY_KEY && !at->sort;
	if (at->key[0]) /* else from the start, in key order */
		browse_go_on(l, at);
}

static defib_err read_parts(struct browse_reading *r, const struct store_param *keys, int nkeys,
                            struct failure *f)
{
	const struct browse *o = r->ask;
	enum list_sort sort = list_cheapest_sort(r->sql->binding, o->sort, o->terms, o->nterms);
	AUTO_BUF recovered = BUF_INIT;
	event_counts_sql(&recovered, LIST_ENTRY, COUNTS_RECOVERED, BY_ANYBODY);
	struct list_query l = {
		.terms = o->terms,
		.nterms = o->nterms,
		/* A row without a state cannot be sorted by it. */
		.sort = list_has_parts(r->sql->binding, sort) ? sort : LIST_BY_KEY,
		.desc = o->desc,
		.up_to = o->up_to ? o->up_to->key : NULL,
		.keys = keys,
		.nkeys = nkeys,
		.ledger = r->ledger->ready,
		.recovered = arena_strdup(r->arena, buf_text(&recovered)),
		.limit = PAGE_ROWS,
	};
	assert(o->limit >= 0 && o->limit <= INT32_MAX);
	/* One more than requested shows whether there are more; a few of the judged ones drop out. */
	int64_t enough = o->limit + (judged(o) ? o->limit / 4 + 16 : 1);
	if (o->limit > 0 && enough < PAGE_ROWS && !keys)
		l.limit = enough;
	if (o->after)
		begin_after(r, &l, o->after);
	defib_err err = keys ? read_whole(r, &l, 0, f) : browse_read_list(r, &l, f);
	if (o->bound && !err) {
		o->bound->by_key = l.by_key;
		o->bound->cut = r->cut;
		o->bound->examined = r->examined;
		o->bound->end = browse_place(r, &l);
	}
	return err;
}

/* Jobs by name, a limited number at a time. */
static defib_err read_named(struct browse_reading *r, struct failure *f)
{
	const struct browse *o = r->ask;
	defib_err err = DEFIB_OK;
	int most = PAGE_ROWS, n;
	for (int at = 0; at < o->njobs && !err && !full(r); at += n) {
		struct store_param params[RELATION_COLUMNS_MAX];
		AUTO_RELATION keys = {0};
		int kept = r->n;
		n = o->njobs - at < most ? o->njobs - at : most;
		jobs_keys(r->sql->binding, o->jobs + at, n, r->arena, &keys);
		relation_params(&keys, params);
		if (keys.nrows > 0)
			err = read_parts(r, params, relation_nparams(&keys), f);
		if (timed_out(r, err) && n > 1) {
			fail_clear(f);
			err = DEFIB_OK;
			most = (int)window_smaller(n);
			r->n = kept;
			n = 0;
		}
	}
	return err;
}

defib_err browse_jobs(const struct look *l, const struct browse *o, struct browsed **out, int *n,
                      bool *more, struct failure *f)
{
	struct browse_reading r = {.store = l->store,
	                           .sql = l->sql,
	                           .ledger = l->ledger,
	                           .ask = o,
	                           .facts = o->facts || judged(o),
	                           .arena = l->arena,
	                           .facts_at_a_time = PAGE_ROWS};
	assert(!o->jobs || (!o->after && !o->bound));
	assert(!o->up_to || (o->sort == LIST_BY_KEY && !o->desc));
	if (o->bound) {
		*o->bound = (struct browse_bound){.within_ms = o->bound->within_ms,
		                                  .for_ms = o->bound->for_ms,
		                                  .at_once = o->bound->at_once};
		int64_t first_ms = o->bound->at_once ? 0 : patience_ms(o);
		r.until_us = clock_boot_us() + (first_ms + o->bound->for_ms) * 1000;
	}
	defib_err err = o->jobs ? read_named(&r, f) : read_parts(&r, NULL, 0, f);
	*more = full(&r);
	*n = *more ? (int)o->limit : r.n;
	*out = r.rows;
	return err;
}
