/* SPDX-License-Identifier: Apache-2.0
 * queue_cancel.h: cancelling a job of the built-in queue: one that waits is cancelled, one
 * that runs is asked to stop and its worker told; with its entry in the ledger.
 */
#ifndef WORKER_QUEUE_CANCEL_H
#define WORKER_QUEUE_CANCEL_H

#include "recover/bound.h"
#include "recover/candidate.h"

struct queue_cancel {
	struct session *session;
	const struct bound *bound; /* of the built-in queue */
	const char *actor, *reason, *batch;
	bool dry_run;
};

/* RECOVERED, MISSING, or REFUSED: it is over, or ends already. Texts live in the arena. */
MUST_CHECK defib_err queue_cancel(const struct queue_cancel *q, const char *job, struct arena *a,
                                  struct candidate *out, struct failure *f);

#endif
