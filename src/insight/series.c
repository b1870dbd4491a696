/* SPDX-License-Identifier: Apache-2.0 */
/* series.c: see series.h. Pure. */
#include "insight/series.h"

#include "base/mem.h"

#include <assert.h>
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

static int64_t number_of(const json_t *root, const char *name, int64_t without)
{
	const json_t *n = json_object_get(root, name);
	return json_is_integer(n) && json_integer_value(n) >= 0 ? json_integer_value(n) : without;
}

static void counts_of(const json_t *root, const char *name, int64_t *counts, int n,
                      void (*name_of)(int at, char name[32]))
{
	const json_t *given = json_object_get(root, name);
	char one[32];
	for (int i = 0; given && i < n; i++) {
		name_of(i, one);
		counts[i] = number_of(given, one, 0);
	}
}

void series_parse(const char *json, struct series_point *out)
{
	json_auto_t *root = json_loads(json ? json : "", 0, NULL);
	*out = series_none;
	if (!root)
		return;
	out->waiting = number_of(root, "waiting", SERIES_UNKNOWN);
	out->oldest_ms = number_of(root, "oldest_ms", SERIES_UNKNOWN);
	out->running = number_of(root, "running", SERIES_UNKNOWN);
	out->done = number_of(root, "done", SERIES_UNKNOWN);
	out->failed = number_of(root, "failed", SERIES_UNKNOWN);
	counts_of(root, "recovered", out->recovered, VERDICT_COUNT, verdict_name);
	counts_of(root, "detection", out->detection, SERIES_BUCKETS, bound_name);
}
