/* SPDX-License-Identifier: Apache-2.0
 * story_steps.h: the steps of a workflow, with every attempt at them.
 */
#ifndef VIEW_STORY_STEPS_H
#define VIEW_STORY_STEPS_H

#include "insight/story.h"
#include "view/record.h"

/* A struct story_step, and a struct story_attempt. */
extern const struct record step_record, attempt_record;
/* "step charge: done, attempt 3, took 4 ms": the step's own record. */
void step_words(const struct watch *w, const struct story_step *s, const struct secrets *secrets,
                struct buf *out);
/* "step charge: attempt 1 failed after 5 ms, worker w1: exit code 1": an attempt beside it. */
void attempt_words(const struct watch *w, const struct story_step *s,
                   const struct story_attempt *one, const struct secrets *secrets, struct buf *out);

#endif
