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

#include "base/text.h"
#include "watch/watch.h"

#include <stdbool.h>
#include <stdint.h>

#define RUN_TIMES_BUCKETS 128
#define RUN_TIMES_LEAST_US INT64_C(1000)                  /* 1 ms: what is shorter counts as it */
#define RUN_TIMES_MOST_US (INT64_C(30) * 86400 * 1000000) /* 30 days: what is longer … */
#define RUN_TIMES_ERROR 0.10                              /* of a quantile between the two */
#define RUN_TIMES_HALF_LIFE_US (INT64_C(14) * 86400 * 1000000)

struct run_times {
	double counts[RUN_TIMES_BUCKETS];
	int64_t longest_us;        /* exact, since the last halving … */
	int64_t longest_before_us; /* … and in the half-life before it */
	int64_t halved_us;         /* when counts were last halved; 0: nothing was added yet */
};

/* One run that ended; `now_us` starts the half-life of an empty histogram. */
void run_times_add(struct run_times *t, int64_t took_us, int64_t now_us);
/* Let what is old fade, as far as time has gone on. */
void run_times_fade(struct run_times *t, int64_t now_us);
/* Add another's counts; both should have faded to the same moment. */
void run_times_merge(struct run_times *into, const struct run_times *from);

/* How many runs it stands for; older ones count less. */
double run_times_n(const struct run_times *t);
/* The time within which this share of runs ends (0 … 1); 0 when there are none. */
int64_t run_times_quantile(const struct run_times *t, double share);
/* The share of runs that took longer, 0 … 1; of the bucket that `us` is in, a part. */
double run_times_over(const struct run_times *t, int64_t us);
int64_t run_times_longest(const struct run_times *t);

/* {"v":1,"halved_us":…,"longest_us":…,"before_us":…,"counts":{"17":3,…}} without its braces. */
void run_times_json(const struct run_times *t, struct buf *out);
/* The same read back; false, and empty, when it is something else. */
bool run_times_read(struct run_times *t, const char *json);

/* ---- what they say of thresholds ---- */

/*
 * What observed run times say of a watch's thresholds.
 *
 * A suggestion is SUGGEST_FACTOR times the time within which 99 % of the runs
 * end, but never so short that more than one observed run in a thousand would
 * have exceeded it; at least twice the beat (10 s where there is none). It is
 * made of SUGGEST_RUNS runs or more, and never acts by itself: a person writes
 * it into the configuration.
 *
 * Run times speak of overdue_after, and of stuck_after where the sign of life
 * is written once a run. Where workers beat, silence is not a matter of how
 * long work takes: then only overdue_after is spoken of.
 *
 * Pure: no clock, no database.
 */

#define SUGGEST_FACTOR 1.5
#define SUGGEST_RUNS 100
#define SUGGEST_FLOOR_US (INT64_C(10) * 1000000)
/* More than so many times today's threshold are hardly run times; without one, a week. */
#define SUGGEST_CEILING 10
#define SUGGEST_CEILING_US (INT64_C(7) * 86400 * 1000000)

enum advice {
	ADVICE_FEW,    /* not enough runs to say anything */
	ADVICE_FITS,   /* today's threshold is about right */
	ADVICE_LOWER,  /* it could be shorter */
	ADVICE_NEAR,   /* no run exceeded it, but there is little room */
	ADVICE_RAISE,  /* runs exceed it: living work is, or will be, recovered */
	ADVICE_NEW,    /* there is none today */
	ADVICE_BEYOND, /* past the ceiling: the times are doubtful, nothing is suggested */
};

struct suggestion {
	const char *option; /* stuck_after or overdue_after */
	bool has_today;
	int64_t today_us;
	double n;
	int64_t p50_us, p95_us, p99_us, longest_us;
	double over_today; /* share of runs that took longer than today's threshold */
	enum advice advice;
	bool has_us; /* a threshold is suggested: */
	int64_t us;
	double over; /* share of runs that took longer than that */
};

/* Whether stuck_after is a matter of how long runs take. */
bool runs_are_silent(const struct watch *w);
/* The threshold that run times speak of, and its option's name. */
const struct threshold *run_threshold(const struct watch *w, const char **option);

void suggest(const struct watch *w, const char *kind, const struct run_times *t,
             struct suggestion *out);
/* "crawl: p99 is 4m 10s; stuck_after 30m could be 6m 15s"; `who` is the kind or the watch. */
void suggestion_sentence(const struct suggestion *s, const char *who, struct buf *out);
/* "0.4 %" */
void share_text(double share, struct buf *out);

#endif
