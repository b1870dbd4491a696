/* SPDX-License-Identifier: Apache-2.0
 * step_attempts.h: every attempt at the steps of a workflow.
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
