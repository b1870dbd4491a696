/* SPDX-License-Identifier: Apache-2.0
 * ended.h: jobs that are over, from those who ran them to the one who turns, without a lock.
 *
 * The one who takes them sleeps until enough are there. It says how many that is before it
 * looks again how many there are, and whoever pushes counts its job before it reads that
 * number: so one of the two always sees the other, and no wake-up is lost.
 */
#ifndef WORKER_ENDED_H
#define WORKER_ENDED_H

#include "worker/job.h"

struct ended {
	_Atomic(struct job *) last; /* the newest first, linked by `queued` */
	atomic_llong pushed;        /* how many were not taken yet */
	atomic_llong wake_at;       /* it sleeps until so many are there */
	int event;                  /* eventfd: made readable to wake it */
};

/* DEFIB_IO when there is no descriptor to be had. */
MUST_CHECK defib_err ended_open(struct ended *e, struct failure *f);
void ended_close(struct ended *e);
/* From any thread. */
void ended_push(struct ended *e, struct job *j);
/* Wake it whatever is there. */
void ended_wake(struct ended *e);
/* All that are there, in the order of their ends, linked by `queued`. */
struct job *ended_take(struct ended *e);
/* About to sleep until `enough` (1 at least) are there: false: they are there already. */
bool ended_may_sleep(struct ended *e, int64_t enough);
/* Awake again; it looks by itself from now on. */
void ended_awake(struct ended *e);

#endif
