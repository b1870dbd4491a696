/* SPDX-License-Identifier: Apache-2.0 */
#include "insight/incidents.h"

#include "base/clock.h"
#include "ledger/counts.h"
#include "ledger/events.h"
#include "store/dialect.h"

#include <stdlib.h>

/* ---- grouping ---- */

/* One cause: a host, or a watch whose workers' host is not known. */
static bool same_cause(const struct incident_entry *a, const struct incident_entry *b)
{
	if (a->host || b->host)
		return text_eq(a->host, b->host);
	return text_eq(a->watch, b->watch);
}

static int compare_texts(const char *a, const char *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	return strcmp(a, b);
}

/* By cause, then time. */
static int by_cause(const void *x, const void *y)
{
	const struct incident_entry *a = *(const struct incident_entry *const *)x;
	const struct incident_entry *b = *(const struct incident_entry *const *)y;
	int order = compare_texts(a->host, b->host);
	if (!order && !a->host)
		order = compare_texts(a->watch, b->watch);
	if (!order)
		order = (a->at_us > b->at_us) - (a->at_us < b->at_us);
	return order;
}

/* By job, then time: the last of a job comes last. */
static int incidents_by_job(const void *x, const void *y)
{
	const struct incident_entry *a = *(const struct incident_entry *const *)x;
	const struct incident_entry *b = *(const struct incident_entry *const *)y;
	int order = compare_texts(a->watch, b->watch);
	if (!order)
		order = compare_texts(a->job, b->job);
	if (!order)
		order = (a->at_us > b->at_us) - (a->at_us < b->at_us);
	return order;
}

static int by_number(const void *x, const void *y)
{
	int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
	return (a > b) - (a < b);
}

static int latest_first(const void *x, const void *y)
{
	const struct incident *a = x, *b = y;
	return (a->to_us < b->to_us) - (a->to_us > b->to_us);
}

/* Count different names, and keep the first few; `all` has room for each. */
static void incidents_add_name(const char *name, const char **all, int *n, const char **kept)
{
	if (!name)
		return;
	for (int i = 0; i < *n; i++)
		if (text_eq(all[i], name))
			return;
	if (*n < INCIDENT_NAMES)
		kept[*n] = name;
	all[(*n)++] = name;
}

static void count_job(const struct incident_entry *e, struct incident *out, int64_t *times,
                      int *ntimes)
{
	unsigned counts = event_counts(e->event, true, e->by_person);
	const struct event_name *name = event_named(e->event);
	out->jobs++;
	if (counts & COUNTS_RECOVERED)
		out->recovered++;
	else if (counts & COUNTS_HELD)
		out->held++;
	else
		out->left++;
	if (counts & COUNTS_RECOVERED && name && text_eq(name->remedy, "fail"))
		out->failed++;
	if (counts & COUNTS_RECOVERED && e->lost_us >= 0)
		times[(*ntimes)++] = e->lost_us;
}

/* Entries of one cause, without a long gap. */
static struct incident incidents_make(const struct incident_entry **entries, int n, struct arena *a)
{
	const char **owners = ARENA_ARRAY(a, const char *, n),
			   **watches = ARENA_ARRAY(a, const char *, n);
	int64_t *times = ARENA_ARRAY(a, int64_t, n), verdicts[VERDICT_COUNT] = {0};
	struct incident out = {.from_us = entries[0]->at_us,
	                       .to_us = entries[n - 1]->at_us,
	                       .host = entries[0]->host,
	                       .median_us = -1};
	int ntimes = 0;
	qsort(entries, (size_t)n, sizeof *entries, incidents_by_job);
	for (int i = 0; i < n; i++) {
		const struct incident_entry *e = entries[i];
		bool last = i + 1 == n || !text_eq(e->job, entries[i + 1]->job) ||
		            !text_eq(e->watch, entries[i + 1]->watch);
		incidents_add_name(e->watch, watches, &out.nwatches, out.watches);
		incidents_add_name(e->worker ? e->worker : e->owner, owners, &out.nworkers, out.workers);
		if (!last)
			continue;
		verdicts[e->verdict]++;
		count_job(e, &out, times, &ntimes);
	}
	for (int v = 0; v < VERDICT_COUNT; v++)
		if (verdicts[v] > verdicts[out.verdict])
			out.verdict = (enum verdict)v;
	qsort(times, (size_t)ntimes, sizeof *times, by_number);
	if (ntimes)
		out.median_us = times[(ntimes - 1) / 2];
	return out;
}

void incidents_group(const struct incident_entry *entries, int n, struct arena *a,
                     struct incident **out, int *nout)
{
	const struct incident_entry **sorted = ARENA_ARRAY(a, const struct incident_entry *, n + 1);
	*out = ARENA_ARRAY(a, struct incident, n + 1);
	*nout = 0;
	for (int i = 0; i < n; i++)
		sorted[i] = &entries[i];
	qsort(sorted, (size_t)n, sizeof *sorted, by_cause);
	for (int from = 0, to; from < n; from = to) {
		to = from + 1;
		while (to < n && same_cause(sorted[to - 1], sorted[to]) &&
		       sorted[to]->at_us - sorted[to - 1]->at_us <= INCIDENT_GAP_US)
			to++;
		(*out)[(*nout)++] = incidents_make(sorted + from, to - from, a);
	}
	qsort(*out, (size_t)*nout, sizeof **out, latest_first);
}

static int incidents_by_id(const void *x, const void *y)
{
	const struct incident_worker *a = x, *b = y;
	return (a->id > b->id) - (a->id < b->id);
}

void incidents_name(struct incident_entry *entries, int n, const struct incident_worker *workers,
                    int nworkers)
{
	for (int i = 0; i < n; i++) {
		struct incident_worker wanted = {0};
		if (!entries[i].owner || !int_parse(entries[i].owner, &wanted.id))
			continue;
		const struct incident_worker *w =
			bsearch(&wanted, workers, (size_t)nworkers, sizeof *workers, incidents_by_id);
		entries[i].worker = w ? w->name : NULL;
		entries[i].host = w ? w->host : NULL;
	}
}

/* ---- as a line ---- */

/* "1,204 jobs" */
static void add_count(int64_t n, const char *one, const char *many, struct buf *out)
{
	buf_add_count(out, n);
	buf_addf(out, " %s", n == 1 ? one : many);
}

/* Workers that are known are what was lost; without them, the jobs. */
void incident_what(const struct incident *i, struct buf *out)
{
	bool workers = i->nworkers > 0, seen = verdict_has(i->verdict, VERDICT_SEEN);
	if (i->host && workers && seen) {
		buf_addf(out, "host %s lost ", i->host);
		add_count(i->nworkers, "worker", "workers", out);
		return;
	}
	if (!i->host)
		buf_addf(out, "%s: ", i->watches[0]);
	if (workers && verdict_has(i->verdict, VERDICT_OF_WORKER))
		add_count(i->nworkers, "worker", "workers", out);
	else
		add_count(i->jobs, "job", "jobs", out);
	if (i->host)
		buf_addf(out, " of host %s", i->host);
	if (workers && seen)
		buf_add(out, i->nworkers == 1 ? " was lost" : " were lost");
	else
		buf_addf(out, " %s", verdict_kinds[i->verdict].of_jobs);
}

void incident_outcome(const struct incident *i, struct buf *out)
{
	size_t begin = out->len;
	if (i->recovered) {
		add_count(i->recovered, "job recovered", "jobs recovered", out);
		if (i->median_us >= 0) {
			buf_add(out, " in ");
			duration_text(i->median_us, out);
		}
		if (i->failed) {
			buf_add(out, " (");
			add_count(i->failed, "ended as failed", "ended as failed", out);
			buf_add(out, ")");
		}
	}
	if (i->held) {
		buf_add(out, out->len > begin ? ", " : "");
		add_count(i->held, out->len > begin ? "held" : "job held",
		          out->len > begin ? "held" : "jobs held", out);
	}
	if (i->left) {
		bool first = out->len == begin;
		buf_add(out, first ? "" : ", ");
		add_count(i->left, first ? "job reported only" : "reported only",
		          first ? "jobs reported only" : "reported only", out);
	}
}

/* ---- reading ---- */

static enum verdict verdict_of(const char *name)
{
	int v = name ? word_index(verdict_names, name) : -1;
	return v < 0 ? VERDICT_NONE : (enum verdict)v;
}

defib_err incidents_read(struct store *s, const char *watch, int64_t since_us, int limit,
                         struct arena *a, struct incident_entry **out, int *n, bool *more,
                         struct failure *f)
{
	AUTO_BUF sql = BUF_INIT;
	const struct store_param params[] = {P_TEXT(watch), P_INT(since_us), P_INT(limit + 1)};
	struct store_rows rows;
	*n = 0;
	buf_add(&sql, "SELECT {stamp_us l.at}, l.job, l.event, l.verdict, {member l.evidence|owner}, "
	              "CAST(");
	sql_seconds_lost("l.at", &sql);
	buf_add(&sql, " * 1000000 AS bigint), ");
	event_by_person_sql(&sql, "l");
	buf_add(&sql, " FROM defib.ledger AS l WHERE l.watch = $1 AND l.at >= {stamp_ago $2::bigint} "
	              "AND ");
	event_counts_sql(&sql, "l", COUNTS_DETECTED, BY_ANYBODY);
	buf_add(&sql, " ORDER BY l.at DESC, l.id DESC LIMIT $3");
	defib_err err = dialect_exec(s, buf_text(&sql), params, 3, a, &rows, f);
	if (err)
		return err;
	*more = rows.nrows > limit;
	*n = *more ? limit : rows.nrows;
	*out = ARENA_ARRAY(a, struct incident_entry, *n + 1);
	for (int i = 0; i < *n; i++)
		(*out)[i] = (struct incident_entry){
			.at_us = row_int(&rows, i, 0, 0),
			.watch = watch,
			.job = row_text(&rows, i, 1),
			.event = row_text(&rows, i, 2),
			.verdict = verdict_of(row_text(&rows, i, 3)),
			.owner = row_text(&rows, i, 4),
			.lost_us = row_int(&rows, i, 5, -1),
			.by_person = row_bool(&rows, i, 6),
		};
	return DEFIB_OK;
}
