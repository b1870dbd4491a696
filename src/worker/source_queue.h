/* SPDX-License-Identifier: Apache-2.0
 * source_queue.h: jobs of the built-in queue.
 */
#ifndef WORKER_SOURCE_QUEUE_H
#define WORKER_SOURCE_QUEUE_H

#include "worker/source.h"

/* A queue of the built-in table; `kind` NULL: all kinds. */
struct source *source_queue(const char *queue, const char *kind);
/* Jobs of these kinds only; n 0: all kinds. */
struct source *source_queue_kinds(const char *queue, const char *const *kinds, int n);
/*
 * Inside a transaction: is this job of the built-in queue ours and not settled? If so, it stays
 * that way until the transaction ends; else DEFIB_LEASE_LOST.
 */
MUST_CHECK defib_err source_queue_hold(struct store *s, int64_t worker, const char *key,
                                       int64_t epoch, struct failure *f);

#endif
