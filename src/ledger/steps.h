/*
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
/* Whether the step is among those recorded for the job. */
MUST_CHECK defib_err steps_has(struct store *s, const char *watch, const char *job,
                               const char *step, struct arena *a, bool *found, struct failure *f);

#endif
