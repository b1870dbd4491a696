/* SPDX-License-Identifier: Apache-2.0
 * returned.h: a worker that was declared dead and comes back says so in the
 * ledger: that somebody was wrong about it matters to who chooses thresholds.
 */
#ifndef WORKER_RETURNED_H
#define WORKER_RETURNED_H

#include "worker/watchman.h"

/* One WORKER_RETURNED of the watch that the worker serves. What fails is logged. */
void note_returned(struct store *s, const struct watchman_options *o, int64_t worker);

#endif
