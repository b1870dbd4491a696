/* SPDX-License-Identifier: Apache-2.0
 * source_queue_sqlite.h: the built-in queue on SQLite, which has no functions: the rules of
 * sql/postgres_queue.sql stand as statements, which are compiled once and run job by job.
 */
#ifndef WORKER_SOURCE_QUEUE_SQLITE_H
#define WORKER_SOURCE_QUEUE_SQLITE_H

#include "worker/source.h"

/* In a transaction of its own, or in the caller's. `kinds` is a JSON array; NULL: all. */
MUST_CHECK defib_err queue_sqlite_claim(struct store *s, const char *queue, const char *kinds,
                                        int64_t worker, int64_t n, struct arena *a,
                                        struct store_rows *rows, struct failure *f);
/* Inside a transaction. */
MUST_CHECK defib_err queue_sqlite_settle(struct store *s, int64_t worker, struct settlement *all,
                                         int n, struct arena *a, struct failure *f);

#endif
