/* SPDX-License-Identifier: Apache-2.0
 * took.h: how long a worker's jobs ran, in the buckets that metrics show: a fixed size
 * however many there were. Not a sample of ended rows, as run_times.h is, and without
 * forgetting: counters that only grow, from the worker's start.
 */
#ifndef WORKER_TOOK_H
#define WORKER_TOOK_H

#include "base/buf.h"

/* Upper bounds in seconds, rising. */
#define TOOK_BOUNDS                                                                                \
	0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200,  \
		21600, 86400
#define TOOK_BUCKETS 22 /* the last: above them all */
extern const double took_bounds[TOOK_BUCKETS - 1];

struct took {
	int64_t counts[TOOK_BUCKETS];
	int64_t sum_ms;
};

void took_add(struct took *t, int64_t ms);
/* {"sum":12.5,"buckets":{"0.5":3,"+Inf":1}}: how many fell into each, empty ones left out. */
void took_json(const struct took *t, struct buf *out);

#endif
