/* SPDX-License-Identifier: Apache-2.0
 * queue_statements.h: the built-in queue on an engine that has no functions: what
 * sql/postgres_queue.sql does by functions is done job by job, with the statements of
 * sql/ENGINE_turn.sql, which are compiled once.
 */
#ifndef WORKER_QUEUE_STATEMENTS_H
#define WORKER_QUEUE_STATEMENTS_H

#include "worker/queue.h"
#include "worker/source.h"

/* In a transaction of its own, or in the caller's. `kinds` is a JSON array; NULL: all. */
MUST_CHECK defib_err queue_statements_claim(struct store *s, const char *queue, const char *kinds,
                                            int64_t worker, int64_t n, struct arena *a,
                                            struct store_rows *rows, struct failure *f);
/* Inside a transaction. */
MUST_CHECK defib_err queue_statements_settle(struct store *s, int64_t worker,
                                             struct settlement *all, int n, struct arena *a,
                                             struct failure *f);
/* Inside a transaction: the new job, or the one that has its unique key. */
MUST_CHECK defib_err queue_statements_enqueue(struct store *s, const struct enqueue *j,
                                              struct arena *a, int64_t *id, struct failure *f);

#endif
