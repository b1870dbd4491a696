/* SPDX-License-Identifier: Apache-2.0
 * retries.h: retries that wait for their time, durable in the user's database.
 *
 * A retry in two phases first writes the job as failed and notes here when it
 * is due; when that time has come, by the database's clock, the job is set to
 * run again and the note goes, in one transaction. A job has one at most.
 */
#ifndef LEDGER_RETRIES_H
#define LEDGER_RETRIES_H

#include "ledger/ledger.h"

struct pending_retry {
	const char *job, *reason;
	const char *expected; /* JSON: what the row must still look like when it is due */
	const char *batch;    /* read only: written as the context's */
	int64_t due_us, attempt;
	const char *watch, *at; /* read only; `at` is when it was noted, ISO */
};

/* Note them inside the caller's transaction; a job's earlier note is replaced. */
MUST_CHECK defib_err ledger_retry_add(struct store *s, const struct ledger_context *ctx,
                                      const struct pending_retry *all, int n, struct arena *a,
                                      struct failure *f);
/* Those that are due by the database's clock, oldest first. */
MUST_CHECK defib_err ledger_retries_due(struct store *s, const char *watch, int limit,
                                        struct arena *a, struct pending_retry **out, int *n,
                                        struct failure *f);
/* Forget them inside the caller's transaction; jobs without one are no failure. */
MUST_CHECK defib_err ledger_retries_drop(struct store *s, const char *watch,
                                         const char *const *jobs, int n, struct arena *a,
                                         struct failure *f);
/* When the earliest is due; `any` is false when none is pending. */
MUST_CHECK defib_err ledger_retry_next(struct store *s, const char *watch, int64_t *due_us,
                                       bool *any, struct failure *f);
/* All that are pending, due or not, earliest first; `watch` NULL: of all watches. */
MUST_CHECK defib_err ledger_retries_list(struct store *s, const char *watch, int limit,
                                         struct arena *a, struct pending_retry **out, int *n,
                                         struct failure *f);
/* Those of some jobs, in no order. */
MUST_CHECK defib_err ledger_retries_of(struct store *s, const char *watch, const char *const *jobs,
                                       int njobs, struct arena *a, struct pending_retry **out,
                                       int *n, struct failure *f);

#endif
