/* SPDX-License-Identifier: Apache-2.0
 * story.h: the history of one job: one sentence on its state and what comes next, its facts, and
 * what happened in order of time; as JSON and as text, masked as the watch says.
 */
#ifndef VIEW_STORY_H
#define VIEW_STORY_H

#include "insight/story.h"
#include "recover/candidate.h"
#include "recover/masked.h"

void story_json(const struct watch *w, const struct database *d, const struct story *s,
                const struct candidate *cand, struct buf *out);

struct story_sheet {
	struct arena *arena;
	const struct watch *watch;
	struct story story;
	struct candidate cand;
	bool color;
	bool logs;      /* with the evidence of each entry */
	bool whole_row; /* with every column, and the outputs of steps */
};

/* Control characters are made visible. */
void story_text(struct story_sheet *x, struct buf *out);

/* ---- the steps of a workflow, with every attempt at them ---- */

/* The member "steps" of a story. */
void steps_json(const struct watch *w, const struct story *s, const struct secrets *secrets,
                struct buf *out);
/* "step charge: done, attempt 3, took 4 ms": the step's own record. */
void step_words(const struct watch *w, const struct story_step *s, const struct secrets *secrets,
                struct buf *out);
/* "step charge: attempt 1 failed after 5 ms, worker w1: exit code 1": an attempt beside it. */
void attempt_words(const struct watch *w, const struct story_step *s,
                   const struct story_attempt *one, const struct secrets *secrets, struct buf *out);

#endif
