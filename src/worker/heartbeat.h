/* SPDX-License-Identifier: Apache-2.0
 * heartbeat.h: a heartbeat of a job that the user's own code runs, in the user's own table: the
 * watch's `work.beat` statements over the relation `work` of that one job, or without them the
 * column of `alive_at`. Its end runs `work.after`.
 *
 * Each is one transaction that first locks the row and checks that the job still belongs to the
 * writer: a job that was recovered, or that another worker runs, is not kept alive.
 *
 * If this process is an instance of the watch (instance.h), each heartbeat also makes the instance
 * the owner of the job's lease, until the heartbeats end: when the instance dies, its job is
 * recovered like that of a worker. One that was declared dead writes no more heartbeats.
 */
#ifndef WORKER_HEARTBEAT_H
#define WORKER_HEARTBEAT_H

#include "recover/bound.h"

struct heartbeat_sql {
	struct bound bound;
	int nbeat, nafter;
	struct write_sql *beat, *after;
};

/* One heartbeat. Texts may be NULL, except the job and the worker. */
struct heartbeat {
	const char *job, *worker, *step, *metadata;
	bool first;       /* it may take the job over from the owner that the row or the lease names */
	int64_t instance; /* the worker that this process is registered as; 0: none */
	int64_t *epoch;   /* of its lease; 0: it has none. Changed when it gets one */
	bool left;        /* at the end: its job is left running, and stays the instance's */
};

/* Bind and compile with an open session; what is already prepared is kept. */
MUST_CHECK defib_err heartbeat_prepare(struct heartbeat_sql *q, const struct watch *w,
                                       struct session *session, struct failure *f);
/* DEFIB_NOT_FOUND: no such row. DEFIB_LEASE_LOST: it is not running, or has another owner. */
MUST_CHECK defib_err heartbeat_write(const struct heartbeat_sql *q, struct store *s,
                                     const struct heartbeat *h, struct failure *f);
/* The same checks; then `work.after`. The lease ends in any case, unless the job is left. */
MUST_CHECK defib_err heartbeat_end(const struct heartbeat_sql *q, struct store *s,
                                   const struct heartbeat *h, struct failure *f);
void heartbeat_release(struct heartbeat_sql *q);

#endif
