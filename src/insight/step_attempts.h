/* SPDX-License-Identifier: Apache-2.0
 * step_attempts.h: every known attempt at the steps of a workflow. Each fact has one home:
 *
 *   the step's own record   the attempt that finished it, or that undid it
 *   step_attempt            attempts that did not, and a run that was undone since
 *   the ledger              attempts that ended with their worker: the step is not in the entry,
 *                           but follows from the attempts around it, or from the workflow
 *   job, lease              the attempt that is running
 */
#ifndef INSIGHT_STEP_ATTEMPTS_H
#define INSIGHT_STEP_ATTEMPTS_H

#include "insight/story.h"

/*
 * Adds attempts to the steps of the story, and the steps that are not finished. `flow` is NULL if
 * the workflow of the job is not known; then a step that has not ended may be missing.
 */
MUST_CHECK defib_err step_attempts_read(struct store *s, const struct watch *w, bool queue,
                                        const struct workflow *flow, struct arena *a,
                                        struct story *out, struct failure *f);

#endif
