/* SPDX-License-Identifier: Apache-2.0
 * workflow.h: what a claimed job of a workflow does next, and what the end of a step means for the
 * job. Pure: no database, no clock, no process.
 *
 * One step per claim. A job is claimed and runs one step. Its settlement records the step with its
 * output and makes the job available for the next one, in one fenced write. So every step is
 * leased, fenced, retried and spooled like any job, and a crash between two steps is not a special
 * case. A rollback is the same, backwards.
 *
 *   run:   steps without a `done` record, in the order of the configuration
 *   undo:  steps with a `done` record, in the reverse order of their recording
 */
#ifndef WORKER_WORKFLOW_H
#define WORKER_WORKFLOW_H

#include "watch/workflow.h"
#include "worker/source.h"

/* X(enum, name): the recorded state of a step */
#define STEP_STATE_LIST(X)                                                                         \
	X(DONE, "done")                                                                                \
	X(UNDONE, "undone")                                                                            \
	X(UNDO_FAILED, "undo_failed") /* its undo failed permanently */                                \
	X(AGAIN, "again")             /* was done, and will run again: counts as not done */

enum step_state {
#define X(id, name) STEP_##id,
	STEP_STATE_LIST(X)
#undef X
};
extern const char *const step_state_names[];

/* A recorded step (defib.step), in the order of position. */
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
 * From claimed.steps; NULL is none. False if it cannot be read: then nothing is known about the
 * job, and none of its steps may run.
 */
bool step_records_parse(const char *json, struct arena *a, struct step_records *out);

/* What a claim has to do. */
struct step_choice {
	/* The step whose `run` or `undo` to start; NULL: none, settle the job as done at once. */
	const struct workflow_step *step;
	const char *result;  /* if nothing is run: the job's final output, or NULL */
	struct step_end end; /* copied to the settlement unchanged */
};

/* Texts live in the arena, or belong to the workflow and the records. */
struct step_choice workflow_choose(const struct workflow *w, const struct step_records *recorded,
                                   bool undoing, struct arena *a);

/* {"payload":…,"outputs":{"reserve":…},"step":"charge","undo":false}: the input of its program. */
void workflow_input(const struct step_end *end, const struct step_records *recorded,
                    const char *payload, struct buf *out);

/* The output of one step, if the current one may see it; NULL: there is none. */
const char *workflow_output(const struct step_end *end, const struct step_records *recorded,
                            const char *name);

/* ---- what the end of a step means ---- */

/* X(enum, name): what becomes of the job */
#define STEP_AFTER_LIST(X)                                                                         \
	X(NEXT, "next")         /* available again for the next step */                                \
	X(RELEASED, "released") /* available again unchanged; the attempt does not count */            \
	X(RETRY, "again")       /* the same step again, after a wait */                                \
	X(ROLLBACK, "rollback") /* available again, to be undone from now on */                        \
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
	bool any_done;      /* at least one step is recorded as done */
	bool attempts_left; /* for an outcome that depends on attempts */
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

/* ---- what the end of a job without steps means ---- */

/* The facts that decide, read under the job's lock. */
struct settle_facts {
	enum settle_as as;
	bool cancelling;                /* it was asked to stop */
	int64_t attempts, max_attempts; /* including this one */
	int64_t delay_ms;               /* of the settlement; -1: not given */
};

struct settle_result {
	enum step_after after; /* RELEASED, RETRY, or how it ended */
	const char *state;     /* of the built-in queue */
	int64_t attempts;
	bool crashed;      /* counts as a crash */
	bool over;         /* permanently */
	bool keeps_cause;  /* cause and error stay as they were before the claim */
	const char *cause; /* NULL: none */
	int64_t wait_ms;   /* of RETRY; -1: the source's own backoff */
};

/* By the same rules: such a job is its own last step. */
struct settle_result settle_after(const struct settle_facts *f);

/* ---- as text ---- */

/*
 * {"step":"charge","position":1,"undo":false,"more":true,"saga":true,"passed":[…]}: one
 * element of the `steps` of defib.settle(), and a part of a spooled settlement.
 */
void step_end_json(const struct step_end *e, struct buf *out);
/* The inverse; false if the text has another form. NULL is a settlement without a step. */
bool step_end_parse(const char *json, struct arena *a, struct step_end *out);

#endif
