/* SPDX-License-Identifier: Apache-2.0
 * side_record.h: a put of a side queue as a record: who it is (its token), whose
 * (the database), when it was put, and its jobs as they were sent. JSON, so that
 * a person can read what was refused.
 */
#ifndef WORKER_SIDE_RECORD_H
#define WORKER_SIDE_RECORD_H

#include "worker/enqueue.h"

struct side_put {
	const char *token, *database;
	int64_t at_ms; /* wall clock: delays count from then */
	struct enqueue *jobs;
	int n;
};

void side_record_write(const struct side_put *put, struct buf *out);
/* False: it is none. Everything is copied into the arena. */
bool side_record_read(const char *bytes, size_t n, struct arena *a, struct side_put *put);
/* What is left of the delays, as of now. */
void side_put_count_delays(struct side_put *put, int64_t now_ms);

#endif
