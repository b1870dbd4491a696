/* SPDX-License-Identifier: Apache-2.0 */
#include "insight/run_times.h"

#include "base/clock.h"
#include "store/store.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

/* The 126th root of RUN_TIMES_MOST_US / RUN_TIMES_LEAST_US: buckets from the least to the most. */
#define RATIO 1.18772
#define RATIO_ROOT 1.08983 /* its square root: a bucket's middle is off by at most 9 % */
#define VERSION 1

/* Lower end of a bucket; the first and the last include what lies outside. */
static double lower_end(int bucket)
{
	double at = (double)RUN_TIMES_LEAST_US;
	for (int i = 1; i < bucket; i++)
		at *= RATIO;
	return bucket == 0 ? 0 : at;
}

static int bucket_of(int64_t us)
{
	int bucket = 0;
	double end = (double)RUN_TIMES_LEAST_US;
	for (; bucket < RUN_TIMES_BUCKETS - 1 && (double)us >= end; bucket++)
		end *= RATIO;
	return bucket;
}

void run_times_add(struct run_times *t, int64_t took_us, int64_t now_us)
{
	assert(took_us >= 0);
	if (!t->halved_us)
		t->halved_us = now_us;
	t->counts[bucket_of(took_us)] += 1;
	if (took_us > t->longest_us)
		t->longest_us = took_us;
}

void run_times_fade(struct run_times *t, int64_t now_us)
{
	if (!t->halved_us)
		return;
	int64_t halves = (now_us - t->halved_us) / RUN_TIMES_HALF_LIFE_US;
	t->halved_us += halves > 0 ? halves * RUN_TIMES_HALF_LIFE_US : 0;
	for (; halves > 0; halves--) {
		for (int i = 0; i < RUN_TIMES_BUCKETS; i++)
			t->counts[i] /= 2;
		t->longest_before_us = t->longest_us;
		t->longest_us = 0;
		if (run_times_n(t) < 0.01) { /* nothing is left of it */
			*t = (struct run_times){.halved_us = t->halved_us};
			return;
		}
	}
}

static int64_t run_times_greater(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

void run_times_merge(struct run_times *into, const struct run_times *from)
{
	for (int i = 0; i < RUN_TIMES_BUCKETS; i++)
		into->counts[i] += from->counts[i];
	into->longest_us = run_times_greater(into->longest_us, from->longest_us);
	into->longest_before_us = run_times_greater(into->longest_before_us, from->longest_before_us);
	if (!into->halved_us)
		into->halved_us = from->halved_us;
}

double run_times_n(const struct run_times *t)
{
	double n = 0;
	for (int i = 0; i < RUN_TIMES_BUCKETS; i++)
		n += t->counts[i];
	return n;
}

int64_t run_times_longest(const struct run_times *t)
{
	return run_times_greater(t->longest_us, t->longest_before_us);
}

int64_t run_times_quantile(const struct run_times *t, double share)
{
	double wanted = run_times_n(t) * share, seen = 0;
	int bucket = -1, last = -1;
	assert(share >= 0 && share <= 1);
	for (int i = 0; i < RUN_TIMES_BUCKETS && bucket < 0; i++) {
		seen += t->counts[i];
		last = t->counts[i] > 0 ? i : last;
		/* Sums of fractions may be slightly below the whole. */
		if (t->counts[i] > 0 && seen >= wanted * (1 - 1e-9))
			bucket = i;
	}
	bucket = bucket < 0 ? last : bucket;
	if (bucket < 0)
		return 0;
	double middle = bucket ? lower_end(bucket) * RATIO_ROOT : (double)RUN_TIMES_LEAST_US;
	int64_t longest = run_times_longest(t);
	return (int64_t)middle > longest && longest > 0 ? longest : (int64_t)middle;
}

double run_times_over(const struct run_times *t, int64_t us)
{
	double n = run_times_n(t), over = 0;
	int at = bucket_of(us);
	if (n <= 0 || us >= run_times_longest(t))
		return 0;
	for (int i = at + 1; i < RUN_TIMES_BUCKETS; i++)
		over += t->counts[i];
	double from = lower_end(at), to = at ? from * RATIO : (double)RUN_TIMES_LEAST_US;
	double part = ((double)us - from) / (to - from);
	over += t->counts[at] * (part >= 1 ? 0 : 1 - part);
	return over / n;
}

void run_times_json(const struct run_times *t, struct buf *out)
{
	bool first = true;
	buf_addf(out, "\"v\":%d,\"halved_us\":%lld,\"longest_us\":%lld,\"before_us\":%lld,\"counts\":{",
	         VERSION, (long long)t->halved_us, (long long)t->longest_us,
	         (long long)t->longest_before_us);
	for (int i = 0; i < RUN_TIMES_BUCKETS; i++) {
		if (t->counts[i] <= 0)
			continue;
		buf_addf(out, "%s\"%d\":%.9g", first ? "" : ",", i, t->counts[i]);
		first = false;
	}
	buf_add(out, "}");
}

static bool read_counts(struct run_times *t, json_t *counts)
{
	const char *name;
	json_t *value;
	json_object_foreach(counts, name, value)
	{
		char *end;
		long i = strtol(name, &end, 10);
		double n = json_number_value(value);
		if (*end || i < 0 || i >= RUN_TIMES_BUCKETS || !(n >= 0 && n < 1e15))
			return false;
		t->counts[i] = n;
	}
	return json_is_object(counts);
}

static bool is_time(int64_t us)
{
	return us >= 0 && us <= ROW_INT_MOST;
}

bool run_times_read(struct run_times *t, const char *json)
{
	json_auto_t *root = json ? json_loads(json, 0, NULL) : NULL;
	*t = (struct run_times){
		.halved_us = json_integer_value(json_object_get(root, "halved_us")),
		.longest_us = json_integer_value(json_object_get(root, "longest_us")),
		.longest_before_us = json_integer_value(json_object_get(root, "before_us")),
	};
	bool good = json_integer_value(json_object_get(root, "v")) == VERSION &&
	            is_time(t->halved_us) && is_time(t->longest_us) && is_time(t->longest_before_us) &&
	            read_counts(t, json_object_get(root, "counts"));
	if (!good)
		*t = (struct run_times){0};
	return good;
}

/* ---- suggestions for thresholds ---- */

/* A smaller reduction than this is not worth a suggestion. */
#define WORTH 1.25

bool runs_are_silent(const struct watch *w)
{
	return w->alive_at.text && w->beat_us == 0 && !w->owner_alive.text;
}

const struct threshold *run_threshold(const struct watch *w, const char **option)
{
	bool stuck = !w->overdue_after.given && runs_are_silent(w);
	*option = stuck ? "stuck_after" : "overdue_after";
	return stuck ? &w->stuck_after : &w->overdue_after;
}

/* Up to whole seconds. */
static int64_t rounded_up(double us)
{
	return (int64_t)(us / (double)US_PER_S + 0.999999) * US_PER_S;
}

static int64_t long_enough(const struct watch *w, const struct suggestion *s,
                           const struct run_times *t)
{
	double us = SUGGEST_FACTOR * (double)s->p99_us;
	/* Up to the precision of the histogram: no such run may be longer. */
	double thousandth = (double)run_times_quantile(t, 0.999) * (1 + RUN_TIMES_ERROR);
	int64_t least = w->beat_us ? 2 * w->beat_us : SUGGEST_FLOOR_US;
	if (thousandth > (double)s->longest_us)
		thousandth = (double)s->longest_us;
	if (us < thousandth)
		us = thousandth;
	return us < (double)least ? least : rounded_up(us);
}

static enum advice advise(const struct suggestion *s)
{
	int64_t ceiling = s->has_today ? SUGGEST_CEILING * s->today_us : SUGGEST_CEILING_US;
	if (s->us > ceiling)
		return ADVICE_BEYOND;
	if (!s->has_today)
		return ADVICE_NEW;
	if (s->us > s->today_us)
		return s->over_today > 0 ? ADVICE_RAISE : ADVICE_NEAR;
	return (double)s->us * WORTH < (double)s->today_us ? ADVICE_LOWER : ADVICE_FITS;
}

void suggest(const struct watch *w, const char *kind, const struct run_times *t,
             struct suggestion *out)
{
	*out = (struct suggestion){.n = run_times_n(t),
	                           .p50_us = run_times_quantile(t, 0.50),
	                           .p95_us = run_times_quantile(t, 0.95),
	                           .p99_us = run_times_quantile(t, 0.99),
	                           .longest_us = run_times_longest(t)};
	const struct threshold *today = run_threshold(w, &out->option);
	out->has_today = threshold_for(today, kind, &out->today_us) && out->today_us > 0;
	if (out->has_today)
		out->over_today = run_times_over(t, out->today_us);
	/* Halving leaves fractions: half a run too few is accepted. */
	if (out->n + 0.5 < SUGGEST_RUNS)
		return;
	out->us = long_enough(w, out, t);
	out->over = run_times_over(t, out->us);
	out->advice = advise(out);
	out->has_us = out->advice != ADVICE_BEYOND && out->advice != ADVICE_FITS;
}

void share_text(double share, struct buf *out)
{
	double percent = 100 * share;
	if (percent > 0 && percent < 0.1)
		buf_add(out, "less than 0.1 %");
	else
		buf_addf(out, "%.1f %%", percent);
}

/* "30m" after a space, or "" if there is no threshold. */
static void add_today(const struct suggestion *s, struct buf *out)
{
	buf_add(out, s->option);
	if (!s->has_today)
		return;
	buf_add(out, " ");
	duration_text(s->today_us, out);
}

/* {p99} {today} {us} {over} are filled in. */
static const char *const sentences[] = {
	[ADVICE_FITS] = "p99 is {p99}; {today} fits",
	[ADVICE_LOWER] = "p99 is {p99}; {today} could be {us}",
	[ADVICE_NEAR] = "p99 is {p99}, close to {today}; {us} leaves room",
	[ADVICE_RAISE] = "{over} of runs take longer than {today}: it will recover jobs that are still "
					 "running; {us} leaves room",
	[ADVICE_NEW] = "p99 is {p99}; {today} could be {us}: there is none, so work that hangs while "
				   "its worker is alive is not found",
	[ADVICE_BEYOND] = "p99 is {p99}, far beyond {today}: check that stats.started_at and "
					  "stats.finished_at describe one run before you change anything",
};

static void fill_in(const struct suggestion *s, char what, struct buf *out)
{
	if (what == 'p')
		duration_text(s->p99_us, out);
	else if (what == 't')
		add_today(s, out);
	else if (what == 'u')
		duration_text(s->us, out);
	else
		share_text(s->over_today, out);
}

void suggestion_sentence(const struct suggestion *s, const char *who, struct buf *out)
{
	buf_addf(out, "%s: ", who);
	if (s->advice == ADVICE_FEW) {
		buf_addf(out, "%.0f runs are recorded; a suggestion needs %d", s->n, SUGGEST_RUNS);
		return;
	}
	for (const char *at = sentences[s->advice]; *at; at++) {
		if (*at != '{') {
			buf_addch(out, *at);
			continue;
		}
		fill_in(s, at[1], out);
		while (*at != '}')
			at++;
	}
}
