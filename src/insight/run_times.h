/* SPDX-License-Identifier: Apache-2.0
 * run_times.h: how long runs take, in bounded memory.
 *
 * A histogram whose buckets grow by a fixed ratio, so that an answer is off by
 * at most RUN_TIMES_ERROR whether runs take milliseconds or days. Histograms of
 * the same runs seen in parts add up to that of the whole. Old behaviour fades:
 * every RUN_TIMES_HALF_LIFE_US all counts are halved.
 *
 * Pure: time is a parameter.
 */
#ifndef INSIGHT_RUN_TIMES_H
#define INSIGHT_RUN_TIMES_H

#include "watch/watch.h"

#define RUN_TIMES_BUCKETS 128
#define RUN_TIMES_LEAST_US INT64_C(1000)                  /* 1 ms: shorter runs count as this */
#define RUN_TIMES_MOST_US (INT64_C(30) * 86400 * 1000000) /* 30 days: longer ones … */
#define RUN_TIMES_ERROR 0.10                              /* of a quantile between the two */
#define RUN_TIMES_HALF_LIFE_US (INT64_C(14) * 86400 * 1000000)

struct run_times {
	double counts[RUN_TIMES_BUCKETS];
	int64_t longest_us;        /* exact, since the counts were last halved … */
	int64_t longest_before_us; /* … and in the half-life before it */
	int64_t halved_us;         /* when counts were last halved; 0: no runs yet */
};

/* Add one ended run; `now_us` starts the half-life of an empty histogram. */
void run_times_add(struct run_times *t, int64_t took_us, int64_t now_us);
/* Halve old counts as often as the time requires. */
void run_times_fade(struct run_times *t, int64_t now_us);
/* Add the counts of another histogram; both should have faded to the same moment. */
void run_times_merge(struct run_times *into, const struct run_times *from);

/* How many runs it represents; older ones count less. */
double run_times_n(const struct run_times *t);
/* The time within which this share of runs ends (0 … 1); 0 if there are none. */
int64_t run_times_quantile(const struct run_times *t, double share);
/* The share of runs that took longer, 0 … 1; interpolated within the bucket of `us`. */
double run_times_over(const struct run_times *t, int64_t us);
int64_t run_times_longest(const struct run_times *t);

/* {"v":1,"halved_us":…,"longest_us":…,"before_us":…,"counts":{"17":3,…}} without its braces. */
void run_times_json(const struct run_times *t, struct buf *out);
/* Reads the same form; false, and empty, if it is something else. */
bool run_times_read(struct run_times *t, const char *json);

/* ---- suggestions for thresholds ---- */

/*
 * What observed run times suggest for a watch's thresholds.
 *
 * A suggestion is SUGGEST_FACTOR times the time within which 99 % of the runs end, but never so
 * short that more than one observed run in a thousand would have exceeded it; at least twice the
 * beat (10 s if there is none). It requires SUGGEST_RUNS runs or more, and never takes effect by
 * itself: an operator writes it into the configuration.
 *
 * Run times apply to overdue_after, and to stuck_after if the sign of life is written once per run.
 * If workers beat, silence does not depend on how long work takes: then they apply only to
 * overdue_after.
 *
 * Pure: no clock, no database.
 */

#define SUGGEST_FACTOR 1.5
#define SUGGEST_RUNS 100
#define SUGGEST_FLOOR_US (INT64_C(10) * 1000000)
/*
 * Times above this many times the current threshold are unlikely to be run times; without a
 * threshold, above a week.
 */
#define SUGGEST_CEILING 10
#define SUGGEST_CEILING_US (INT64_C(7) * 86400 * 1000000)

enum advice {
	ADVICE_FEW,    /* not enough runs */
	ADVICE_FITS,   /* the current threshold is about right */
	ADVICE_LOWER,  /* it could be shorter */
	ADVICE_NEAR,   /* no run exceeded it, but the margin is small */
	ADVICE_RAISE,  /* runs exceed it: jobs of live workers are, or will be, recovered */
	ADVICE_NEW,    /* there is no threshold yet */
	ADVICE_BEYOND, /* above the ceiling: the times are doubtful, nothing is suggested */
};

struct suggestion {
	const char *option; /* stuck_after or overdue_after */
	bool has_today;
	int64_t today_us;
	double n;
	int64_t p50_us, p95_us, p99_us, longest_us;
	double over_today; /* share of runs that took longer than the current threshold */
	enum advice advice;
	bool has_us; /* a threshold is suggested: */
	int64_t us;
	double over; /* share of runs that took longer than that */
};

/* Whether stuck_after depends on how long runs take. */
bool runs_are_silent(const struct watch *w);
/* The threshold that run times apply to, and its option's name. */
const struct threshold *run_threshold(const struct watch *w, const char **option);

void suggest(const struct watch *w, const char *kind, const struct run_times *t,
             struct suggestion *out);
/* "crawl: p99 is 4m 10s; stuck_after 30m could be 6m 15s"; `who` is the kind or the watch. */
void suggestion_sentence(const struct suggestion *s, const char *who, struct buf *out);
/* "0.4 %" */
void share_text(double share, struct buf *out);

#endif
