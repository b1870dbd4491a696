/* SPDX-License-Identifier: Apache-2.0 */
#include "insight/tally.h"

#include "ledger/events.h"
#include "recover/decide.h"
#include "recover/held.h"
#include "recover/judge.h"
#include "recover/look.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/stats_sql.h"

#define LOOK_ROWS 10000
/*
 * Beyond this, the exact number of stuck jobs is of no use; the limit is lower for callers that
 * cannot wait.
 */
static const int64_t stuck_most[] = {
	[TALLY_ALL] = 1000000, [TALLY_QUICK] = 2000, [TALLY_BRIEF] = 2000};

/* One statement in a read-only transaction; NULL parameters: none. */
static defib_err tally_ask(struct store *s, const char *sql, const char *watch, struct arena *a,
                           struct store_rows *rows, struct failure *f)
{
	struct store_param param = P_TEXT(watch);
	return store_read(s, sql, &param, watch ? 1 : 0, a, rows, f);
}

/* ---- rows by state ---- */

/* Numbers of a sample, scaled to the whole table. */
static int64_t scaled(int64_t n, const struct stats_sample *sample)
{
	return sample->share > 0 ? (int64_t)((double)n / sample->share + 0.5) : n;
}

/* The sample for a table that is too large to count now; a table of unknown size is counted. */
static struct stats_sample tally_sample_of(struct store *s, const struct binding *b,
                                           struct arena *a)
{
	struct stats_sample sample = {.share = 0};
	AUTO_BUF sql = BUF_INIT, name = BUF_INIT;
	struct store_rows rows;
	struct failure ignored = {0};
	sql_table(&name, b->watch->table);
	table_size_sql(b, &sql);
	if (tally_ask(s, buf_text(&sql),
	              dialect_of(b->engine)->has_page_samples ? buf_text(&name) : NULL, a, &rows,
	              &ignored) == DEFIB_OK &&
	    rows.nrows > 0)
		sample = stats_sample(b->engine, row_int(&rows, 0, 0, 0), row_int(&rows, 0, 1, 0));
	return sample;
}

static void tally_count_states(struct store *s, const struct watch_sql *q,
                               const struct stats_sample *sample, struct arena *a,
                               struct tally *out)
{
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows;
	if (states_sql(q->binding, sample, &sql) &&
	    tally_ask(s, buf_text(&sql), NULL, a, &rows, &out->states_failed) == DEFIB_OK) {
		out->nstates = rows.nrows;
		out->states = ARENA_ARRAY(a, struct tally_count, STATS_STATES_MAX);
		for (int i = 0; i < rows.nrows; i++)
			out->states[i] = (struct tally_count){
				row_text(&rows, i, 0), scaled(row_int(&rows, i, 1, 0), sample), sample->share > 0};
	}
}

static void put_state(struct tally *out, const char *name, int64_t n)
{
	int at = 0;
	while (at < out->nstates && !text_eq(out->states[at].name, name))
		at++;
	if (at == out->nstates && out->nstates < STATS_STATES_MAX)
		out->states[out->nstates++] = (struct tally_count){.name = name};
	if (at < out->nstates)
		out->states[at] = (struct tally_count){out->states[at].name, n, false};
}

/*
 * States that an index finds are counted exactly; a state that is in the sample but not in that
 * count no longer occurs.
 */
static void count_few_states(struct store *s, const struct watch_sql *q, struct arena *a,
                             struct tally *out)
{
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows;
	struct failure ignored = {0};
	const struct text_list *indexed = &q->binding->watch->stats.indexed_states;
	if (!out->states_failed.code && few_states_sql(q->binding, &sql) &&
	    tally_ask(s, buf_text(&sql), NULL, a, &rows, &ignored) == DEFIB_OK) {
		int64_t failed = 0;
		for (int i = 0; i < out->nstates; i++)
			for (int k = 0; k < indexed->n; k++)
				if (text_eq(out->states[i].name, indexed->items[k]))
					put_state(out, indexed->items[k], 0);
		for (int i = 0; i < rows.nrows; i++) {
			put_state(out, row_text(&rows, i, 0), row_int(&rows, i, 1, 0));
			failed += row_int(&rows, i, 2, 0);
		}
		out->failed = failed;
	}
}

/* ---- what waits ---- */

/* As the metrics have it (daemon/readings.c). */
defib_err waiting_count(struct store *s, const struct watch_sql *q, struct arena *a,
                        struct waiting *out, struct failure *f)
{
	struct depth_state states[DEPTH_STATES_MAX];
	int n = depth_states(q->binding->watch, states);
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows;
	*out = (struct waiting){.known = false};
	if (n == 0 || !text_eq(states[0].name, DEPTH_READY))
		return DEFIB_OK;
	depth_sql(q->binding, &states[0], &sql);
	defib_err err = tally_ask(s, buf_text(&sql), NULL, a, &rows, f);
	if (!err)
		*out = (struct waiting){.known = true,
		                        .n = row_int(&rows, 0, 0, 0),
		                        .capped = row_int(&rows, 0, 0, 0) >= DEPTH_COUNT_MAX,
		                        .has_oldest = row_text(&rows, 0, 1) != NULL,
		                        .oldest_us = row_int(&rows, 0, 1, 0)};
	return err;
}

/* ---- what is stuck ---- */

/* Page by page through look's candidates; judge decides. */
static void count_stuck(struct store *s, const struct watch_sql *q, int64_t most, struct tally *out)
{
	struct ledger none = {.ready = false};
	struct arena pages[2] = {ARENA_INIT, ARENA_INIT};
	struct facts *facts = NULL, *after = NULL;
	struct failure *f = &out->stuck_failed;
	int n = 0, page = 0, rows = most < LOOK_ROWS ? (int)most : LOOK_ROWS;
	int64_t seen = 0;
	defib_err err = look_running(s, q, &out->running, f);
	if (!err)
		err = look_stuck(s, q, &out->stuck_total, f);
	out->running_capped = out->running >= ROWS_COUNT_MAX;
	out->total_capped = out->stuck_total >= ROWS_COUNT_MAX;
	while (!err && seen < most) {
		/* The last row of a page says where the next one begins, so two pages are kept. */
		struct arena *a = &pages[page++ % 2];
		arena_clear(a);
		err = look_page(&(struct look){s, q, &none, a}, NULL, rows, after, &facts, &n, f);
		for (int i = 0; !err && i < n; i++)
			out->stuck[judge(q->binding->watch, &facts[i]).verdict]++;
		seen += n;
		if (err || n < rows)
			break;
		after = &facts[n - 1];
	}
	out->stuck_capped = seen >= most;
	out->stuck[VERDICT_NONE] = 0; /* a candidate that is not stuck has no verdict */
	/* If judge was asked about all candidates, its count is the number. */
	if (!err && !out->stuck_capped) {
		out->stuck_total = 0;
		for (int v = 0; v < VERDICT_COUNT; v++)
			out->stuck_total += out->stuck[v];
		out->total_capped = false;
	}
	arena_release(&pages[0]);
	arena_release(&pages[1]);
}

static void events_sql(struct buf *sql)
{
	buf_add(sql, "SELECT l.event, ");
	event_judged_sql(sql, "l");
	buf_add(sql, ", ");
	event_by_person_sql(sql, "l");
	buf_add(sql, ", count(*) FILTER (WHERE l.at > {stamp_ago 86400000000}), count(*) FROM "
	             "defib.ledger AS l WHERE l.watch = $1 AND l.at > {stamp_ago 604800000000} GROUP "
	             "BY 1, 2, 3 ORDER BY 1, 2, 3");
}

static void add_to(struct tally_event *sum, const struct tally_event *e)
{
	sum->day += e->day;
	sum->week += e->week;
}

/* Entries of one event, some of which may count as more than others. */
static void add_up(const struct tally_event *e, bool judged, bool by_person, struct tally *out)
{
	unsigned counts = event_counts(e->name, judged, by_person);
	if (counts & COUNTS_DETECTED)
		add_to(&out->detected, e);
	if (counts & COUNTS_RECOVERED)
		add_to(&out->recovered, e);
	if (counts & COUNTS_RECOVERED && by_person)
		add_to(&out->recovered_by_hand, e);
	if (counts & COUNTS_HELD)
		add_to(&out->put_on_hold, e);
	if (counts & COUNTS_ROLLED_BACK)
		add_to(&out->rolled_back, e);
	if (text_eq(e->name, ENTRY_LATE_COMPLETION))
		add_to(&out->late, e);
	struct tally_event *last = out->nevents ? &out->events[out->nevents - 1] : NULL;
	if (last && text_eq(last->name, e->name))
		add_to(last, e);
	else
		out->events[out->nevents++] = *e;
}

static defib_err count_events(struct store *s, const char *watch, struct arena *a,
                              struct tally *out, struct failure *f)
{
	struct store_rows rows;
	AUTO_BUF sql = BUF_INIT;
	events_sql(&sql);
	defib_err err =
		tally_ask(s, dialect_sql(store_dialect(s), a, buf_text(&sql)), watch, a, &rows, f);
	if (err)
		return err;
	out->events = ARENA_ARRAY(a, struct tally_event, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		add_up(&(struct tally_event){row_text(&rows, i, 0), row_int(&rows, i, 3, 0),
		                             row_int(&rows, i, 4, 0)},
		       row_bool(&rows, i, 1), row_bool(&rows, i, 2), out);
	return DEFIB_OK;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void tally_count_ledger(struct store *s, const struct watch_sql *q, struct arena *a,
                               struct tally *out)
{
	const char *watch = q->binding->watch->name;
	struct failure *f = &out->ledger_failed;
	struct held_count held = {0};
	if (held_count(s, q, &held, f) || count_events(s, watch, a, out, f))
		return;
	out->held = held.all;
	out->retries = held.retries;
	out->held_running = held.running;
	out->excused = held.excused;
	/* They were counted in the table, where nobody knows of excuses. */
	for (int v = 0; v < VERDICT_COUNT; v++)
		out->stuck[v] -= least(out->stuck[v], held.excused_as[v]);
	out->stuck_total -= least(out->stuck_total, held.excused_found);
	(void)!mistakes_count(s, watch, &out->mistakes, f);
}

static void count_ends(struct store *s, const struct watch_sql *q,
                       const struct stats_sample *sample, struct arena *a, struct tally *out)
{
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows;
	out->has_ends = ends_sql(q->binding, sample, &sql);
	if (out->has_ends &&
	    tally_ask(s, buf_text(&sql), NULL, a, &rows, &out->ends_failed) == DEFIB_OK) {
		out->has_failed = row_text(&rows, 0, 0) != NULL;
		out->has_completed = row_text(&rows, 0, 1) != NULL;
		out->has_duration = row_text(&rows, 0, 3) != NULL;
		out->failed = scaled(row_int(&rows, 0, 0, 0), sample);
		out->completed = scaled(row_int(&rows, 0, 1, 0), sample);
		out->measured = scaled(row_int(&rows, 0, 2, 0), sample);
		out->average_us = row_int(&rows, 0, 3, 0);
		out->p95_us = row_int(&rows, 0, 4, 0);
	}
}

defib_err tally_watch(struct store *s, const struct watch_sql *q, const struct ledger *l,
                      enum tally_how how, struct arena *a, struct tally *out, struct failure *f)
{
	struct stats_sample sample = {.share = 0};
	*out = (struct tally){.how = how, .ledger = l->ready};
	count_stuck(s, q, stuck_most[how], out);
	if (!s->lost)
		(void)!waiting_count(s, q, a, &out->waiting, &out->waiting_failed);
	if (!s->lost && l->ready)
		tally_count_ledger(s, q, a, out);
	if (!s->lost && how == TALLY_QUICK)
		sample = tally_sample_of(s, q->binding, a);
	out->estimated = sample.share > 0;
	if (!s->lost && how != TALLY_BRIEF)
		tally_count_states(s, q, &sample, a, out);
	if (!s->lost && how != TALLY_BRIEF)
		count_ends(s, q, &sample, a, out);
	if (!s->lost && out->estimated)
		count_few_states(s, q, a, out);
	if (!s->lost)
		return DEFIB_OK;
	const struct failure *const parts[] = {&out->stuck_failed, &out->waiting_failed,
	                                       &out->ledger_failed, &out->states_failed,
	                                       &out->ends_failed};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (parts[i]->code)
			*f = *parts[i];
	return f->code;
}
