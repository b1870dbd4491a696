/* SPDX-License-Identifier: Apache-2.0
 * steps_done.h: what a row says of the steps of its workflow that are finished, whoever ran them.
 */
#ifndef WATCH_STEPS_DONE_H
#define WATCH_STEPS_DONE_H

#include "watch/bind.h"

/* The watch's steps_done as one text; "NULL" where it has none. */
void sql_steps_done(const struct binding *b, struct buf *out);

/* The same as a column of a job's facts, where jobs of workflows are read one by one. */
void sql_steps_fact(const struct binding *b, bool reread, struct buf *out);

struct finished_step {
	const char *name;
	int position; /* in the workflow; behind its last one where it has no such step (any more) */
};

/*
 * The finished steps of that text: a list of names, or the name of the step that the row is at.
 * False: the row does not say, or is at a step that the workflow does not have.
 */
bool steps_done_parse(const struct workflow *w, const char *text, struct arena *a,
                      struct finished_step **out, int *n);
/* The workflow of a row: that of its kind goes first; NULL: it has none. */
const struct workflow *work_workflow(const struct work *work, const char *kind);
/* The place of a step in its workflow; -1: it has none of that name. */
int workflow_position(const struct workflow *w, const char *step);

#endif
