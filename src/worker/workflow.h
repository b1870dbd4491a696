/* SPDX-License-Identifier: Apache-2.0
 * workflow.h: what a claimed job of a workflow is to do, and what the end of
 * a step means for the job. Pure: no database, no clock, no process.
 *
 * One step a claim. A job is claimed, runs one step, and its settlement
 * records the step with its output and gives the job back for the next one,
 * in one fenced write. So every step is leased, fenced, retried and spooled
 * like any job, and a crash between two steps is nothing special. A rollback
 * is the same, backwards.
 *
 *   run:   steps without a `done` record, in the order of the configuration
 *   undo:  steps with a `done` record, in the reverse order of their recording
 */
#ifndef WORKER_WORKFLOW_H
#define WORKER_WORKFLOW_H

#include "base/text.h"
#include "watch/workflow.h"
#include "worker/source.h"

/* X(enum, name): what is recorded of a step */
#define STEP_STATE_LIST(X)                                                                         \
	X(DONE, "done")                                                                                \
	X(UNDONE, "undone")                                                                            \
	X(UNDO_FAILED, "undo_failed") /* its undo failed for good */                                   \
	X(AGAIN, "again")             /* was done, and is to be run again: counts as not done */

enum step_state {
#define X(id, name) STEP_##id,
	STEP_STATE_LIST(X)
#undef X
};
extern const char *const step_state_names[];

/* A step as it is recorded (defib.step), in the order of position. */
struct step_record {
	const char *name;
	enum step_state state;
	const char *output; /* JSON, or NULL */
};

struct step_records {
	int n;
	struct step_record *items;
};

/*
 * From claimed.steps; NULL is none. False when it cannot be read: then nothing
 * is known of the job, and nothing of it may be run.
 */
bool step_records_parse(const char *json, struct arena *a, struct step_records *out);

/* What a claim is to do. */
struct step_choice {
	/* The step whose `run` or `undo` is to be started; NULL: nothing, settle it as done at once. */
	const struct workflow_step *step;
	const char *result;  /* where nothing is run: the output that the job ends with, or NULL */
	struct step_end end; /* goes into the settlement as it is */
};

/* Texts live in the arena, or are the workflow's and the records'. */
struct step_choice workflow_choose(const struct workflow *w, const struct step_records *recorded,
                                   bool undoing, struct arena *a);

/* {"payload":…, "outputs":{"reserve":…}, "step":"charge", "undo":false}: what its program reads. */
void workflow_input(const struct step_end *end, const struct step_records *recorded,
                    const char *payload, struct buf *out);

/* The output of one step, if this one may see it; NULL: there is none. */
const char *workflow_output(const struct step_end *end, const struct step_records *recorded,
                            const char *name);

/* ---- what the end of a step means ---- */

/* X(enum, name): what becomes of the job */
#define STEP_AFTER_LIST(X)                                                                         \
	X(NEXT, "next")         /* given back for what is next */                                      \
	X(RELEASED, "released") /* given back as it was, the attempt returned */                       \
	X(RETRY, "again")       /* the same step again, after a wait */                                \
	X(ROLLBACK, "rollback") /* given back, to be undone from now on */                             \
	X(DONE, "done")                                                                                \
	X(FAILED, "failed")                                                                            \
	X(TIMED_OUT, "timed_out")                                                                      \
	X(CANCELLED, "cancelled")                                                                      \
	X(ROLLED_BACK, "rolled_back")

enum step_after {
#define X(id, name) AFTER_##id,
	STEP_AFTER_LIST(X)
#undef X
};

extern const char *const step_after_names[];

/* The facts that decide, read under the job's lock. */
struct step_facts {
	enum settle_as as;
	bool more;          /* of its struct step_end */
	bool undoing;       /* of the job */
	bool cancelling;    /* of the job */
	bool saga;          /* of the job */
	bool any_done;      /* some step is recorded as done */
	bool attempts_left; /* for an outcome that attempts decide */
};

/*
 * X(how it ended, what must hold, what must not, what becomes of the job); the first row that
 * fits. scripts/after_rules.py writes the conditions of sql/postgres_queue.sql from these rows.
 */
#define AFTER_RULES(X)                                                                             \
	X(RELEASED | STOPPED, CANCELLING, 0, CANCELLED)                                                \
	X(RELEASED | STOPPED, 0, 0, RELEASED)                                                          \
	X(DONE, 0, UNDOING | MORE, DONE)                                                               \
	X(ANY, CANCELLING, UNDOING, CANCELLED)                                                         \
	X(RETRY, 0, 0, RETRY)                                                                          \
	X(FAILED | TIMED_OUT | CRASHED, ATTEMPTS_LEFT, 0, RETRY)                                       \
	/* An undo that fails for good is recorded as such, and the rest goes on. */                   \
	X(ANY, UNDOING | MORE, 0, NEXT)                                                                \
	X(ANY, UNDOING, 0, ROLLED_BACK)                                                                \
	X(DONE, 0, 0, NEXT)                                                                            \
	X(ANY, SAGA | ANY_DONE, 0, ROLLBACK)                                                           \
	X(TIMED_OUT, 0, 0, TIMED_OUT)                                                                  \
	X(ANY, 0, 0, FAILED)

/* What becomes of the job, by the rules. */
enum step_after step_after(const struct step_facts *f);

/* ---- what the end of a job that has no steps means ---- */

/* The facts that decide, read under the job's lock. */
struct settle_facts {
	enum settle_as as;
	bool cancelling;                /* it was asked to stop */
	bool retried;                   /* failures are tried again while attempts are left */
	int64_t attempts, max_attempts; /* this one included */
	int64_t delay_ms;               /* of the settlement; -1: none is said */
};

struct settle_result {
	enum step_after after; /* RELEASED, RETRY, or how it is over */
	const char *state;     /* of the built-in queue */
	int64_t attempts;
	bool crashed;      /* counts as a crash */
	bool over;         /* for good */
	bool kept;         /* cause and error stay as they were before it was claimed */
	const char *cause; /* NULL: none */
	int64_t wait_ms;   /* of RETRY; -1: the source's own backoff */
};

/* By the same rules: a job is its own last step. */
struct settle_result settle_after(const struct settle_facts *f);

/* ---- as text ---- */

/*
 * {"step":"charge","position":1,"undo":false,"more":true,"saga":true,"passed":[…]}: one
 * element of the `steps` of defib.settle(), and a part of a spooled settlement.
 */
void step_end_json(const struct step_end *e, struct buf *out);
/* The way back; false when it is not such a text. NULL is a settlement of no step. */
bool step_end_parse(const char *json, struct arena *a, struct step_end *out);

#endif
