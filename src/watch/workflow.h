/* SPDX-License-Identifier: Apache-2.0
 * workflow.h: the model of a workflow, as the user described it: named steps
 * in order, each a program and, where it can be taken back, the program that
 * does so; in a C program, functions instead. Jobs of the kind that bears its
 * name run it step by step.
 *
 * Plain data; what the next step of a job is, worker/workflow.h knows.
 */
#ifndef WATCH_WORKFLOW_H
#define WATCH_WORKFLOW_H

#include "config/options.h"

struct binding;
struct work;

struct workflow_step {
	const char *name;
	struct text_list run, undo; /* argv, ends with NULL; undo.n is 0 where there is none */
	defib_handler run_call,
		undo_call;      /* functions instead; undo_call is NULL where there is none */
	int64_t timeout_us; /* 0: the job's own, or the worker's */
	struct cfg_mark at;
};

struct workflow {
	const char *name; /* the kind of its jobs */
	int nsteps;
	struct workflow_step *steps;
	struct text_list pass_environment; /* of its steps and undos: NAME or NAME=value */
	bool saga;                         /* a failure for good undoes what was done */
	struct cfg_mark at;
};

struct workflow_list {
	int n;
	struct workflow *items;
};

static inline bool step_has_undo(const struct workflow_step *s)
{
	return s->undo.n > 0 || s->undo_call;
}

/* The option table of a workflow, for the reference. */
extern const struct opt_row workflow_rows[];

/* Reads the list `workflows:` into a struct workflow_list; problems land in the reader. */
void read_workflows(struct cfg_reader *r, const struct cfg_node *node, void *target);
/* The workflow of that name, or NULL. */
const struct workflow *workflow_named(const struct workflow_list *all, const char *name);

/* ---- which steps a row has finished ---- */

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
