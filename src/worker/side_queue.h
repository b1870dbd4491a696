/* SPDX-License-Identifier: Apache-2.0
 * side_queue.h: new work that the database could not take, in a durable file,
 * until it can: jobs are not refused because the pool is exhausted or the
 * server is away.
 *
 * It is a spool (spool.h) in the folder `new` below the spool of workers. One
 * record is one put: its jobs go in together or not at all, as they would have
 * done when they were sent. Whoever appends or drains owns the folder for that
 * moment only, so that programs, workers and daemons can share it.
 *
 * Each put goes in once. Its token is inserted with its jobs in one transaction
 * (defib.enqueued) and a token that is there is passed by: a drain that is
 * killed after its commit repeats nothing, nor does a put whose first commit
 * may have happened though its answer was lost.
 *
 * What the database refuses for ever moves to the spool `new/refused`, and a
 * critical line says so: it must not hold up what waits behind it.
 */
#ifndef WORKER_SIDE_QUEUE_H
#define WORKER_SIDE_QUEUE_H

#include "worker/enqueue.h"

#define SIDE_QUEUE_FOLDER "new" /* no name for a worker: it lies among their spools */
#define SIDE_TOKEN_SIZE 33      /* 128 random bits in hex, and the end */

struct side_queue {
	const char *folder; /* BASE/new; made when something is put */
	const char *base;   /* what was configured, and must be ours; NULL: `folder` alone */
	const char *url;    /* of its database: a folder holds jobs of one only */
	int64_t wait_ms;    /* how long to wait for whoever owns the folder, or drains it */
};

/* What became of jobs that were sent. */
struct side_sent {
	char token[SIDE_TOKEN_SIZE];
	bool kept;          /* they wait here, because of `why` … */
	struct failure why; /* … */
	int64_t *ids;       /* … or these are they; the caller's memory */
};

/*
 * Send jobs: what waits goes first, so that the order is kept, then they. Where the
 * database is away they are kept. `s` NULL: it is, because of `sent->why`.
 */
MUST_CHECK defib_err side_queue_send(const struct side_queue *q, struct store *s,
                                     const struct enqueue *jobs, int n, struct side_sent *sent,
                                     struct failure *f);

/* Whether something waits, without owning the folder. */
bool side_queue_waits(const struct side_queue *q);

struct side_drained {
	int64_t jobs, puts; /* that went in */
	int64_t refused;    /* puts that moved aside */
};

/*
 * Oldest first, for a moment: call it again while something waits. Adds to `out`. Fails with
 * DEFIB_REFUSED where another owns the folder for longer than wait_ms.
 */
MUST_CHECK defib_err side_queue_drain(const struct side_queue *q, struct store *s,
                                      struct side_drained *out, struct failure *f);

/* ---- the steps, for tests ---- */

void side_token(char token[SIDE_TOKEN_SIZE]);
MUST_CHECK defib_err side_queue_put(const struct side_queue *q, const char *token,
                                    const struct enqueue *jobs, int n, struct failure *f);

#endif
