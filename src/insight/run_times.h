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

#include "base/buf.h"

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

#endif
