/* SPDX-License-Identifier: Apache-2.0
 * ended.h: ended jobs, passed without a lock from the threads that ran them to the turn thread.
 *
 * The turn thread sleeps until enough jobs are there. It stores that number before it checks the
 * count again, and a thread that pushes counts its job before it reads the number: so one of the
 * two always sees the other, and no wake-up is lost.
 */
#ifndef WORKER_ENDED_H
#define WORKER_ENDED_H

#include "worker/job.h"
#include <stdatomic.h>

struct ended {
	_Atomic(struct job *) last; /* newest first, linked by `queued` */
	atomic_llong pushed;        /* how many were not taken yet */
	atomic_llong wake_at;       /* it sleeps until this many are there */
	int event;                  /* eventfd: made readable to wake it */
};

/* DEFIB_IO if no descriptor is available. */
MUST_CHECK defib_err ended_open(struct ended *e, struct failure *f);
void ended_close(struct ended *e);
/* From any thread. */
void ended_push(struct ended *e, struct job *j);
/* Wake it regardless of the count. */
void ended_wake(struct ended *e);
/* All that are there, in the order of their ends, linked by `queued`. */
struct job *ended_take(struct ended *e);
/* About to sleep until `enough` (at least 1) are there; false: they are there already. */
bool ended_may_sleep(struct ended *e, int64_t enough);
/* Awake again; it checks by itself from now on. */
void ended_awake(struct ended *e);

#endif
