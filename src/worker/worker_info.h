/* SPDX-License-Identifier: Apache-2.0
 * worker_info.h: what a worker says of itself at each renewal of its lease, and how long its jobs
 * ran, in the buckets that metrics show: a fixed size however many there were. Not a sample of
 * ended rows, as run_times.h is, and without forgetting: counters that only grow, from the
 * worker's start.
 */
#ifndef WORKER_WORKER_INFO_H
#define WORKER_WORKER_INFO_H

#include "base/buf.h"

/* Upper bounds in seconds, rising. */
#define JOB_TIME_BOUNDS                                                                            \
	0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200,  \
		21600, 86400
#define JOB_TIME_BUCKETS 22 /* the last: above them all */
extern const double job_time_bounds[JOB_TIME_BUCKETS - 1];

struct job_times {
	int64_t counts[JOB_TIME_BUCKETS];
	int64_t sum_ms;
};

void job_times_add(struct job_times *t, int64_t ms);
/* {"sum":12.5,"buckets":{"0.5":3,"+Inf":1}}: how many fell into each, empty ones left out. */
void job_times_json(const struct job_times *t, struct buf *out);

#endif
