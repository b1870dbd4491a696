/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/starts.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 16               /* looks over which the trend goes */
#define QUIET_US (30 * US_PER_S) /* after an outage, workers need time to come back */

struct starts_known_row {
	uint64_t job, kind; /* hashes */
	int64_t due_us;
};

struct starts_known_kind {
	uint64_t kind;
	int64_t moved_us; /* when a row of it was last seen to start; 0: never */
};

struct starts_sample {
	int64_t at_us, late, started;
};

struct starts_memory {
	bool looked;
	int64_t limit_us; /* of the last look */
	int64_t from_us;  /* time before this does not count: something barred claims */
	int64_t started;
	struct starts_known_row *rows; /* by job */
	int nrows;
	struct starts_known_kind *kinds;
	int nkinds;
	struct starts_sample samples[SAMPLES]; /* oldest first */
	int nsamples;
};

static uint64_t hash_text(const char *text)
{
	return text ? fnv1a(FNV_START, text, strlen(text) + 1) : 0;
}

struct starts_memory *starts_new(void)
{
	return mem_alloc(sizeof(struct starts_memory));
}

void starts_clear(struct starts_memory *m)
{
	if (!m)
		return;
	free(m->rows);
	free(m->kinds);
	*m = (struct starts_memory){0};
}

void starts_free(struct starts_memory *m)
{
	starts_clear(m);
	free(m);
}

static int starts_by_job(const void *a, const void *b)
{
	uint64_t x = ((const struct starts_known_row *)a)->job,
			 y = ((const struct starts_known_row *)b)->job;
	return (x > y) - (x < y);
}

static struct starts_known_row *known_row(const struct starts_memory *m, uint64_t job)
{
	const struct starts_known_row key = {.job = job};
	return m->nrows ? bsearch(&key, m->rows, (size_t)m->nrows, sizeof key, starts_by_job) : NULL;
}

static struct starts_known_kind *find_kind(const struct starts_memory *m, const char *kind)
{
	uint64_t hash = hash_text(kind);
	for (int i = 0; i < m->nkinds; i++)
		if (m->kinds[i].kind == hash)
			return &m->kinds[i];
	return NULL;
}

void starts_changed(struct starts_memory *m, const char *job)
{
	struct starts_known_row *row = m ? known_row(m, hash_text(job)) : NULL;
	if (row)
		row->due_us = INT64_MAX;
}

/* The rows of this look, by job. */
static struct starts_known_row *known_rows_of(const struct starts_look *l)
{
	struct starts_known_row *rows = mem_alloc(sizeof *rows * (size_t)(l->nrows + 1));
	for (int i = 0; i < l->nrows; i++)
		rows[i] = (struct starts_known_row){hash_text(l->rows[i].job), hash_text(l->rows[i].kind),
		                                    l->rows[i].due_us};
	qsort(rows, (size_t)l->nrows, sizeof *rows, starts_by_job);
	return rows;
}

/* A row that was late at the last look, and should be among those of this one, is not. */
static void see_movement(struct starts_memory *m, const struct starts_look *l,
                         struct starts_known_row *rows)
{
	const struct starts_memory now = {.rows = rows, .nrows = l->nrows};
	int64_t reach_us = l->cut && l->nrows ? l->rows[l->nrows - 1].due_us : INT64_MAX;
	for (int i = 0; i < m->nrows; i++) {
		const struct starts_known_row *was = &m->rows[i], *is = known_row(&now, was->job);
		if (was->due_us >= reach_us || (is && is->due_us == was->due_us))
			continue;
		m->started++;
		for (int k = 0; k < m->nkinds; k++)
			if (m->kinds[k].kind == was->kind)
				m->kinds[k].moved_us = l->now_us;
	}
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Time since then in which jobs could have been started; quiet: no outage explains that none was.
 */
static int64_t counted_us(const struct starts_look *l, int64_t from_us, int64_t limit_us,
                          bool *quiet)
{
	int64_t need_us = limit_us < QUIET_US ? limit_us : QUIET_US;
	struct doubt known = {0};
	*quiet = false;
	if (from_us >= l->now_us)
		return 0;
	/* Of an outage whose beginning is not known, only the end counts. */
	for (int i = 0; l->doubt && i < l->doubt->n; i++) {
		const struct outage *o = &l->doubt->outages[i];
		if (o->begin_us > 0)
			known.outages[known.n++] = *o;
		else if (o->end_us > from_us && doubt_clean_us(l->doubt, o->end_us, l->now_us) <= need_us)
			*quiet = true;
	}
	return doubt_clean_us(&known, from_us, l->now_us);
}

static void judge_kind(const struct starts_memory *m, const struct starts_look *l,
                       struct starts_kind *k)
{
	const struct starts_known_kind *was = m ? find_kind(m, k->kind) : NULL;
	bool busy = k->running > 0 && k->claimed_us >= k->oldest_us, quiet;
	k->last_us = later(later(k->claimed_us, k->ended_us), was ? was->moved_us : 0);
	int64_t from_us = later(later(k->oldest_us, k->last_us), m ? m->from_us : 0);
	bool over = counted_us(l, from_us, k->limit_us, &quiet) > k->limit_us;
	bool recent = k->last_us >= k->oldest_us && !over;
	if (busy || recent)
		k->starts = STARTS_SEEN;
	else if (l->barred || k->unread || quiet || !over || (m && !was))
		k->starts = STARTS_UNKNOWN;
	else
		k->starts = STARTS_NONE;
}

/* Kinds that are late no more are forgotten: the next time they need two looks again. */
static void remember_look(struct starts_memory *m, const struct starts_look *l,
                          struct starts_known_row *rows)
{
	struct starts_known_kind *kinds = mem_alloc(sizeof *kinds * (size_t)(l->nkinds + 1));
	for (int i = 0; i < l->nkinds; i++) {
		const struct starts_known_kind *was = find_kind(m, l->kinds[i].kind);
		kinds[i] = (struct starts_known_kind){hash_text(l->kinds[i].kind), was ? was->moved_us : 0};
	}
	free(m->kinds);
	free(m->rows);
	m->kinds = kinds;
	m->nkinds = l->nkinds;
	m->rows = rows;
	m->nrows = l->nrows;
	m->limit_us = l->limit_us;
	m->looked = true;
	if (l->barred)
		m->from_us = l->now_us;
}

static void take_sample(struct starts_memory *m, const struct starts_look *l,
                        struct starts_trend *out)
{
	if (m->nsamples == SAMPLES) {
		m->nsamples--;
		memmove(m->samples, m->samples + 1, (size_t)m->nsamples * sizeof *m->samples);
	}
	m->samples[m->nsamples++] = (struct starts_sample){l->now_us, l->late, m->started};
	const struct starts_sample *first = m->samples, *last = &m->samples[m->nsamples - 1];
	int64_t took_us = last->at_us - first->at_us;
	if (took_us <= 0)
		return;
	*out = (struct starts_trend){.known = true,
	                             .started = last->started - first->started,
	                             .per_minute =
	                                 (double)(last->late - first->late) * 60e6 / (double)took_us};
	if (last->late < first->late)
		out->drain_us =
			(int64_t)((double)last->late * (double)took_us / (double)(first->late - last->late));
}

void starts_judge(struct starts_memory *m, struct starts_look *l, struct starts_trend *trend)
{
	*trend = (struct starts_trend){0};
	/* With a longer limit rows are late no more that nobody has started. */
	if (m && m->looked && m->limit_us != l->limit_us)
		starts_clear(m);
	struct starts_known_row *rows = m ? known_rows_of(l) : NULL;
	if (m && l->nrows + m->nrows > 0)
		see_movement(m, l, rows);
	for (int i = 0; i < l->nkinds; i++)
		judge_kind(m, l, &l->kinds[i]);
	if (m) {
		remember_look(m, l, rows);
		take_sample(m, l, trend);
	}
}
