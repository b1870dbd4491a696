/* SPDX-License-Identifier: Apache-2.0
 * queue_statements.h: finds the statements of sql/ENGINE_turn.sql by name and compiles them once.
 * On engines with functions they call those of sql/postgres_queue.sql.
 */
#ifndef WORKER_QUEUE_STATEMENTS_H
#define WORKER_QUEUE_STATEMENTS_H

#include "worker/queue.h"

/* Cancels a job if there is one; returns its new state. */
MUST_CHECK defib_err queue_statements_cancel(struct store *s, int64_t id, struct arena *a,
                                             struct store_rows *rows, struct failure *f);
/* Jobs that are due become ready. */
MUST_CHECK defib_err queue_statements_promote(struct store *s, int64_t most, struct failure *f);
MUST_CHECK defib_err queue_statements_progress(struct store *s, int64_t worker, const char *key,
                                               int64_t epoch, const char *step, const char *text,
                                               bool *accepted, struct failure *f);

/* On engines without functions, the same is done job by job. */

/* In a transaction of its own, or in the caller's. `kinds` is a JSON array; NULL: all. */
MUST_CHECK defib_err queue_statements_claim(struct store *s, const char *queue, const char *kinds,
                                            int64_t worker, int64_t n, struct arena *a,
                                            struct store_rows *rows, struct failure *f);
/* Inside a transaction. */
MUST_CHECK defib_err queue_statements_settle(struct store *s, int64_t worker,
                                             struct settlement *all, int n, struct arena *a,
                                             struct failure *f);
/* Inside a transaction: the new job, or the existing one with its unique key. */
MUST_CHECK defib_err queue_statements_enqueue(struct store *s, const struct enqueue *j,
                                              struct arena *a, int64_t *id, struct failure *f);

#endif
