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
#include "store/store.h"

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
/* Those that are due by the database's clock, oldest first, behind `after`; NULL: the first. */
MUST_CHECK defib_err ledger_retries_due(struct store *s, const char *watch,
                                        const struct pending_retry *after, int limit,
                                        struct arena *a, struct pending_retry **out, int *n,
                                        struct failure *f);
/* Forget them inside the caller's transaction; jobs without one are no failure. */
MUST_CHECK defib_err ledger_retries_drop(struct store *s, const char *watch,
                                         const char *const *jobs, int n, struct arena *a,
                                         struct failure *f);
/* Those of some jobs, in no order. */
MUST_CHECK defib_err ledger_retries_of(struct store *s, const char *watch, const char *const *jobs,
                                       int njobs, struct arena *a, struct pending_retry **out,
                                       int *n, struct failure *f);

/* ---- the recorded steps of workflows, as far as recovery touches them ---- */

/*
 * A retry begins at a chosen step: that one and all behind it are to be run
 * again; outputs of the steps before it stay. Inside the caller's transaction.
 * A job without recorded steps, or a database without the table, is no failure.
 */
MUST_CHECK defib_err steps_again(struct store *s, const char *watch, const char *job,
                                 const char *step, struct arena *a, struct failure *f);
/* A step that is known to be finished, or chosen to be run again, though no worker of ours ran it.
 */
struct step_known {
	const char *step;
	int64_t position;
	bool again;
};
/* Keep them; what is recorded already stays. Inside the caller's transaction. */
MUST_CHECK defib_err steps_put(struct store *s, const char *watch, const char *job,
                               const struct step_known *steps, int n, struct arena *a,
                               struct failure *f);
/* Whether a worker of ours has had the job: then its records say what is finished. */
MUST_CHECK defib_err steps_ours(struct store *s, const char *watch, const char *job,
                                struct arena *a, bool *ours, struct failure *f);
/* The steps that are recorded as done, each with its epoch; 0: others finished it. */
MUST_CHECK defib_err steps_done_by(struct store *s, const char *watch, const char *job,
                                   struct arena *a, struct store_rows *rows, struct failure *f);
/* Whether the step is among those recorded for the job. */
MUST_CHECK defib_err steps_has(struct store *s, const char *watch, const char *job,
                               const char *step, struct arena *a, bool *found, struct failure *f);

#endif
