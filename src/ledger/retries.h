/* SPDX-License-Identifier: Apache-2.0
 * retries.h: retries that wait for their time, stored in the user's database.
 *
 * A two-phase retry first writes the job as failed and records here when it is due. When that time
 * has come, by the database's clock, the job is made available again and the record is deleted, in
 * one transaction. A job has at most one.
 */
#ifndef LEDGER_RETRIES_H
#define LEDGER_RETRIES_H

#include "ledger/ledger.h"

struct pending_retry {
	const char *job, *reason;
	const char *expected; /* JSON: the values that the row must still have when the retry is due */
	const char *batch;    /* only when read; a write uses the context's */
	int64_t due_us, attempt;
	const char *watch, *at; /* only when read; `at` is when it was recorded, ISO */
	const char *role;       /* only when read: that recorded it; NULL on SQLite */
};

/* Record them inside the caller's transaction; a job's earlier retry is replaced. */
MUST_CHECK defib_err ledger_retry_add(struct store *s, const struct ledger_context *ctx,
                                      const struct pending_retry *all, int n, struct arena *a,
                                      struct failure *f);
/*
 * The retries that are due by the database's clock, oldest first, after `after`; NULL: from the
 * first.
 */
MUST_CHECK defib_err ledger_retries_due(struct store *s, const char *watch,
                                        const struct pending_retry *after, int limit,
                                        struct arena *a, struct pending_retry **out, int *n,
                                        struct failure *f);
/* Delete them inside the caller's transaction. Jobs without one are not a failure. */
MUST_CHECK defib_err ledger_retries_drop(struct store *s, const char *watch,
                                         const char *const *jobs, int n, struct arena *a,
                                         struct failure *f);
/* Those of some jobs, in no order. */
MUST_CHECK defib_err ledger_retries_of(struct store *s, const char *watch, const char *const *jobs,
                                       int njobs, struct arena *a, struct pending_retry **out,
                                       int *n, struct failure *f);

/* ---- the recorded steps of workflows, as far as recovery touches them ---- */

/*
 * A retry begins at a chosen step: that step and all after it will run again; outputs of earlier
 * steps are kept. Inside the caller's transaction. A job without recorded steps, or a database
 * without the table, is not a failure.
 */
MUST_CHECK defib_err steps_again(struct store *s, const char *watch, const char *job,
                                 const char *step, struct arena *a, struct failure *f);
/*
 * A step that is known to be finished, or chosen to run again, although no worker of ours ran it.
 */
struct step_known {
	const char *step;
	int64_t position;
	bool again;
};
/* Record them; existing records are kept. Inside the caller's transaction. */
MUST_CHECK defib_err steps_put(struct store *s, const char *watch, const char *job,
                               const struct step_known *steps, int n, struct arena *a,
                               struct failure *f);
/* Whether a worker of ours ever had the job: if so, our records say what is finished. */
MUST_CHECK defib_err steps_ours(struct store *s, const char *watch, const char *job,
                                struct arena *a, bool *ours, struct failure *f);
/* The steps that are recorded as done, each with its epoch; 0: another worker finished it. */
MUST_CHECK defib_err steps_done_by(struct store *s, const char *watch, const char *job,
                                   struct arena *a, struct store_rows *rows, struct failure *f);
/* Whether the step is among those recorded for the job. */
MUST_CHECK defib_err steps_has(struct store *s, const char *watch, const char *job,
                               const char *step, struct arena *a, bool *found, struct failure *f);

#endif
