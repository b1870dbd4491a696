/* SPDX-License-Identifier: Apache-2.0
 * source_queue_steps.h: steps of workflows of the built-in queue on SQLite,
 * where the rules of defib.settle_steps() stand as statements.
 */
#ifndef WORKER_SOURCE_QUEUE_STEPS_H
#define WORKER_SOURCE_QUEUE_STEPS_H

#include "worker/source.h"

/* Full jitter, as defib.backoff_ms(); `t` is the job. */
#define SQLITE_BACKOFF_MS "abs(random()) % min(3600000, 1000 * (1 << min(t.attempts, 12)))"

/*
 * Inside a transaction: settle those of `all` that end a step and set their
 * `accepted`; the others are left alone.
 */
MUST_CHECK defib_err queue_steps_settle(struct store *s, int64_t worker, struct settlement *all,
                                        int n, struct arena *a, struct failure *f);

#endif
