/* SPDX-License-Identifier: Apache-2.0
 * workflow.h: the model of a workflow, as the user described it: named steps in order. Each step
 * has a program and, if it can be undone, a program that undoes it; in a C program, functions
 * instead. Jobs whose kind is the workflow's name run it step by step.
 *
 * Plain data; worker/workflow.h determines a job's next step.
 */
#ifndef WATCH_WORKFLOW_H
#define WATCH_WORKFLOW_H

#include "config/options.h"

struct binding;
struct work;

struct workflow_step {
	const char *name;
	struct text_list run, undo;        /* argv, ends with NULL; undo.n is 0 if there is none */
	defib_handler run_call, undo_call; /* functions instead; undo_call is NULL if there is none */
	int64_t timeout_us;                /* 0: the job's own, or the worker's */
	struct cfg_mark at;
};

struct workflow {
	const char *name; /* the kind of its jobs */
	int nsteps;
	struct workflow_step *steps;
	struct text_list pass_environment; /* of its steps and undos: NAME or NAME=value */
	bool saga;                         /* a permanent failure undoes the finished steps */
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

/* Reads the list `workflows:` into a struct workflow_list; problems are recorded in the reader. */
void read_workflows(struct cfg_reader *r, const struct cfg_node *node, void *target);
/* The workflow of that name, or NULL. */
const struct workflow *workflow_named(const struct workflow_list *all, const char *name);

/* ---- which steps a row has finished ---- */

/* The watch's steps_done as one text; "NULL" where it has none. */
void sql_steps_done(const struct binding *b, struct buf *out);

/* The same as a column of a job's facts, if jobs of workflows are read one by one. */
void sql_steps_fact(const struct binding *b, bool reread, struct buf *out);

struct finished_step {
	const char *name;
	int position; /* in the workflow; after its last one if the workflow has no such step (any more)
	               */
};

/*
 * The finished steps in that text: a list of names, or the name of the row's current step. False:
 * the row does not say, or is at a step that the workflow does not have.
 */
bool steps_done_parse(const struct workflow *w, const char *text, struct arena *a,
                      struct finished_step **out, int *n);
/* The workflow of a row; the one of its kind takes precedence; NULL: none. */
const struct workflow *work_workflow(const struct work *work, const char *kind);
/* The index of a step in its workflow; -1: it has no step of that name. */
int workflow_position(const struct workflow *w, const char *step);

#endif
