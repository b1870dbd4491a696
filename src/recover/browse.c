/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/browse.h"

#include "ledger/events.h"
#include "ledger/jobs.h"
#include "ledger/retries.h"
#include "recover/held.h"

#include <assert.h>

#define PAGE_ROWS 1000
#define PATIENCE_FOR_FEW 10 /* times as long as for other lists */

/* A reading under way. */
struct reading {
	struct store *store;
	const struct watch_sql *sql;
	const struct ledger *ledger;
	const struct browse *ask;
	bool facts;
	struct arena *arena;
	struct browsed *rows;
	int n, room;
};

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
		any = any || what == TERM_VERDICT || what == TERM_STUCK || what == TERM_HELD;
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
	default:
		return true;
	}
}

static bool wanted(const struct reading *r, const struct browsed *row)
{
	const struct watch *w = r->sql->binding->watch;
	if (r->facts && !row->facts.job)
		return false; /* it disappeared in between */
	for (int i = 0; r->facts && i < r->ask->nterms; i++)
		if (!holds(w, &r->ask->terms[i], row))
			return false;
	return true;
}

static void keep(struct reading *r, const struct browsed *row)
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

static bool full(const struct reading *r)
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
static defib_err add_facts(struct reading *r, struct browsed *page, int n, struct failure *f)
{
	const struct watch *w = r->sql->binding->watch;
	const char **jobs = JOBS_OF(page, job, n, r->arena);
	struct facts *facts;
	struct pending_retry *pending = NULL;
	struct job_index index;
	int npending = 0;
	defib_err err = look_each(r->store, r->sql, r->ledger, jobs, n, r->arena, &facts, f);
	if (!err && r->ledger->ready)
		err = ledger_retries_of(r->store, w->name, jobs, n, r->arena, &pending, &npending, f);
	for (int i = 0; !err && i < n; i++)
		if (facts[i].job) {
			page[i].facts = facts[i];
			page[i].judgement = judge(w, &facts[i]);
		}
	job_index_init(&index, jobs, n, r->arena);
	for (int i = 0; !err && i < npending; i++) {
		int at = job_index_find(&index, pending[i].job);
		page[at].has_retry = true;
		page[at].retry_us = pending[i].due_us;
	}
	return err;
}

static defib_err keep_page(struct reading *r, const struct store_rows *rows, struct failure *f)
{
	struct browsed *page = ARENA_ARRAY(r->arena, struct browsed, rows->nrows);
	defib_err err = DEFIB_OK;
	for (int i = 0; i < rows->nrows; i++)
		decode(r->sql->binding->watch, rows, i, r->arena, &page[i]);
	if (r->facts && rows->nrows > 0)
		err = add_facts(r, page, rows->nrows, f);
	for (int i = 0; !err && i < rows->nrows && !full(r); i++)
		if (wanted(r, &page[i]))
			keep(r, &page[i]);
	return err;
}

/* One statement of ours; within_ms 0: as long as the session allows. */
static defib_err ask(struct reading *r, struct list_statement *s, int64_t within_ms,
                     struct store_rows *rows, struct failure *f)
{
	defib_err err =
		within_ms ? store_begin_within(r->store, within_ms, f) : store_begin(r->store, TX_READ, f);
	if (!err) {
		err = store_exec(r->store, buf_text(&s->sql), s->params, s->nparams, r->arena, rows, f);
		store_rollback(r->store); /* nothing was written */
	}
	buf_release(&s->sql);
	return err;
}

/*
 * After a time-out, read a window of the table from now on; not if the window would be everything.
 */
static defib_err open_window(struct reading *r, struct list_query *l, struct failure *f)
{
	struct browse_bound *bound = r->ask->bound;
	struct list_statement s;
	struct store_rows rows;
	/* Oldest first: their keys are usually the smallest. */
	l->window_desc = l->sort == LIST_BY_STATE || l->desc;
	list_window_sql(r->sql->binding, l, bound->rows, &s);
	defib_err err = ask(r, &s, 0, &rows, f);
	if (err || rows.nrows < 2)
		return err;
	l->windowed = true;
	bound->looked = bound->rows;
	bound->goes_on = l->sort == LIST_BY_KEY;
	for (int k = 0; k < r->sql->binding->watch->key.n; k++)
		bound->end.key[k] = l->window_key[k] = row_text(&rows, 0, k);
	return DEFIB_OK;
}

/* Running, stuck and held jobs are few, and found by an index if there is one. */
static int64_t patience_ms(const struct reading *r)
{
	bool few = judged(r->ask) || browse_sort(r->ask->terms, r->ask->nterms) == LIST_BY_AGE;
	return r->ask->bound->within_ms * (few ? PATIENCE_FOR_FEW : 1);
}

static defib_err read_page(struct reading *r, struct list_query *l, struct store_rows *rows,
                           struct failure *f)
{
	bool bounded = r->ask->bound && !l->windowed && !l->keys;
	struct list_statement s;
	defib_err err = DEFIB_TIMEOUT;
	if (!bounded || !r->ask->bound->at_once) {
		list_sql(r->sql->binding, l, &s);
		err = ask(r, &s, bounded ? patience_ms(r) : 0, rows, f);
	}
	if (err != DEFIB_TIMEOUT || !bounded || r->store->lost)
		return err;
	fail_clear(f);
	err = open_window(r, l, f);
	if (err)
		return err;
	list_sql(r->sql->binding, l, &s);
	return ask(r, &s, 0, rows, f);
}

static void go_on(struct list_query *l, const struct browse_position *at)
{
	l->after = true;
	l->after_sort = at->sort;
	for (int k = 0; k < WATCH_KEYS_MAX; k++)
		l->after_key[k] = at->key[k];
}

/* All pages of one part: with a sort value, or without. */
static defib_err read_part(struct reading *r, struct list_query *l, struct failure *f)
{
	const struct watch *w = r->sql->binding->watch;
	defib_err err = DEFIB_OK;
	struct store_rows rows = {0};
	do {
		err = read_page(r, l, &rows, f);
		if (!err)
			err = keep_page(r, &rows, f);
		if (!err && rows.nrows > 0) {
			struct browsed last;
			decode(w, &rows, rows.nrows - 1, r->arena, &last);
			go_on(l, &last.at);
		}
		count_tell(&r->ask->on_count, r->n);
	} while (!err && !l->keys && rows.nrows == l->limit && !full(r));
	return err;
}

static defib_err read_parts(struct reading *r, const struct store_param *keys, int nkeys,
                            struct failure *f)
{
	const struct browse *o = r->ask;
	enum list_sort sort = list_cheapest_sort(r->sql->binding, o->sort, o->terms, o->nterms);
	/* A row without a state cannot be sorted by it. */
	bool parts = list_has_parts(r->sql->binding, sort);
	AUTO_BUF recovered = BUF_INIT;
	event_counts_sql(&recovered, LIST_ENTRY, COUNTS_RECOVERED, BY_ANYBODY);
	struct list_query l = {
		.terms = o->terms,
		.nterms = o->nterms,
		.sort = parts ? sort : LIST_BY_KEY,
		.desc = o->desc,
		.keys = keys,
		.nkeys = nkeys,
		.ledger = r->ledger->ready,
		.recovered = arena_strdup(r->arena, buf_text(&recovered)),
		.limit = PAGE_ROWS,
	};
	/* One more than requested shows whether there are more; a few of the judged ones drop out. */
	int64_t enough = o->limit + (judged(o) ? o->limit / 4 + 16 : 1);
	if (o->limit > 0 && enough < PAGE_ROWS && !keys)
		l.limit = enough;
	if (o->after)
		go_on(&l, o->after);
	for (int k = 0; o->up_to && k < WATCH_KEYS_MAX; k++) {
		l.windowed = true;
		l.window_key[k] = o->up_to->key[k];
	}
	l.unsorted = parts && o->after && !o->after->sort;
	defib_err err = read_part(r, &l, f);
	if (!err && parts && !l.unsorted && !full(r)) {
		l.unsorted = true;
		l.after = false;
		err = read_part(r, &l, f);
	}
	return err;
}

/* Jobs by name, a limited number at a time. */
static defib_err read_named(struct reading *r, struct failure *f)
{
	const struct browse *o = r->ask;
	defib_err err = DEFIB_OK;
	for (int at = 0; at < o->njobs && !err && !full(r); at += PAGE_ROWS) {
		struct store_param params[RELATION_COLUMNS_MAX];
		AUTO_RELATION keys = {0};
		int left = o->njobs - at;
		jobs_keys(r->sql->binding, o->jobs + at, left < PAGE_ROWS ? left : PAGE_ROWS, r->arena,
		          &keys);
		relation_params(&keys, params);
		if (keys.nrows > 0)
			err = read_parts(r, params, relation_nparams(&keys), f);
	}
	return err;
}

defib_err browse_jobs(struct store *s, const struct watch_sql *q, const struct ledger *l,
                      const struct browse *o, struct arena *a, struct browsed **out, int *n,
                      bool *more, struct failure *f)
{
	struct reading r = {
		.store = s, .sql = q, .ledger = l, .ask = o, .facts = o->facts || judged(o), .arena = a};
	assert(!o->jobs || !o->after);
	assert(!o->up_to || (o->sort == LIST_BY_KEY && !o->desc && !o->bound));
	if (o->bound)
		*o->bound = (struct browse_bound){
			.within_ms = o->bound->within_ms, .rows = o->bound->rows, .at_once = o->bound->at_once};
	defib_err err = o->jobs ? read_named(&r, f) : read_parts(&r, NULL, 0, f);
	*more = full(&r);
	*n = *more ? (int)o->limit : r.n;
	*out = r.rows;
	return err;
}
