/* SPDX-License-Identifier: Apache-2.0
 * steps.h: the recorded steps of workflows, as far as recovery touches them.
 */
#ifndef LEDGER_STEPS_H
#define LEDGER_STEPS_H

#include "store/store.h"

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
