/* SPDX-License-Identifier: Apache-2.0
 * act.h: what can be done to a job: remedies, which a scan chooses, and acts, which operators,
 * timers and undo add to them. One table says everything about each of them; its readers are the
 * pipeline, the ledger, metrics, reports, the command line, HTTP and the page.
 */
#ifndef WATCH_ACT_H
#define WATCH_ACT_H

#include "base/text.h"

/* What it needs, and what it leaves. */
enum act_mark {
	ACT_NEEDS_HOW = 1,     /* the watch must say how, in a key of its name */
	ACT_STORED = 2,        /* if the watch does not say how, defib's own table records it */
	ACT_ENDS_RUN = 4,      /* the row must not be running afterwards … */
	ACT_RUNS_AGAIN = 8,    /* … and the job can be claimed again: attempts and budget limit it */
	ACT_RUNS_STEPS = 16,   /* steps of a workflow run afterwards: the finished ones must be known */
	ACT_TAKES = 32,        /* from a live worker only if an operator overrides the guard */
	ACT_LEAVES = 64,       /* its worker keeps the job, and the lease */
	ACT_WAITS = 128,       /* its effect waits for the backoff */
	ACT_ALONE = 256,       /* a job without steps is finished with by one UPDATE */
	ACT_KEEPS_HELD = 512,  /* the job is on hold, or excused, afterwards */
	ACT_BY_COLUMNS = 2048, /* it depends on the columns that it writes, and not on a sign of life */
	ACT_ENDS_JOB = 1024,   /* the job does not run again: the page marks it as dangerous */
};

/* How operators can do it. */
enum act_by_hand {
	BY_HAND_NO,
	BY_HAND_ONE,  /* to one job: POST …/jobs/{key}/NAME */
	BY_HAND_MANY, /* also to many: a command of its name, and an act of POST …/acts */
};

/*
 * X(id, name, by hand, marks,
 *   its event in the ledger, the outcome of a job if it succeeds, its name in counts,
 *   a SET list as an example, the reason that is written if the watch has none of its own,
 *   a job was …, a job will be …, what defib would do to jobs,
 *   of the HTTP route, title of the page's button, and below it)
 */
/* clang-format off */
#define REMEDY_LIST(X) \
	X(REQUEUE, "requeue", MANY, \
	  ACT_NEEDS_HOW | ACT_ENDS_RUN | ACT_RUNS_AGAIN | ACT_RUNS_STEPS | ACT_TAKES | ACT_ALONE, \
	  REQUEUED, RECOVERED, "requeued", \
	  "status = 'queued'", NULL, \
	  "requeued", "requeued", "requeue them", \
	  "make a job available to any worker", "Requeue", \
	  "The job is queued for the next free worker.") \
	X(RETRY, "retry", MANY, \
	  ACT_NEEDS_HOW | ACT_ENDS_RUN | ACT_RUNS_AGAIN | ACT_RUNS_STEPS | ACT_TAKES | ACT_WAITS | \
	  ACT_ALONE, \
	  RETRY_SCHEDULED, RECOVERED, "retried", \
	  "status = 'queued'", NULL, \
	  "set to run again", "retried", "retry them after a wait", \
	  "retry a job at once", "Retry", \
	  "The job runs again at once. Attempts are counted.") \
	X(FAIL, "fail", MANY, \
	  ACT_NEEDS_HOW | ACT_ENDS_RUN | ACT_TAKES | ACT_ALONE | ACT_ENDS_JOB, \
	  FAILED, RECOVERED, "failed", \
	  "status = 'failed', error = :reason", NULL, \
	  "failed", "ended as failed", "end them as failed", \
	  "end a job as failed", "Fail", \
	  "The job ends as failed, with the reason as its error.") \
	X(ROLLBACK, "rollback", MANY, \
	  ACT_NEEDS_HOW | ACT_ENDS_RUN | ACT_RUNS_STEPS | ACT_TAKES | ACT_ENDS_JOB, \
	  ROLLBACK_STARTED, RECOVERED, "rollbacks", \
	  "status = 'rolling_back'", NULL, \
	  "set to roll back", "rolled back", "roll them back", \
	  "undo the finished steps of a job", "Roll back", \
	  "The finished steps of the job are undone, the last one first.") \
	X(HOLD, "hold", MANY, \
	  ACT_STORED | ACT_ENDS_RUN | ACT_KEEPS_HELD, \
	  HELD, HELD, "held", \
	  NULL, "Held for an operator by defib: {verdict} for {silent}", \
	  "held", "put on hold", "hold them for an operator", \
	  "hold a job", "Hold", \
	  "defib leaves the job alone until it is released.") \
	X(REPORT, "report", NO, \
	  0, \
	  ZOMBIE_DETECTED, LEFT, "reported", \
	  NULL, "Found stuck by defib: {verdict} for {silent}; nothing was changed", \
	  "reported", "only reported", "change nothing: the remedy is report", \
	  NULL, NULL, NULL)
/*
 * What operators, timers and undo do besides the remedies. Numbered after them, so that both index
 * one table of statements.
 */
#define ACT_LIST(X) \
	/* the second half of a retry, when its wait is over */ \
	X(THEN, "retry.then", NO, \
	  ACT_NEEDS_HOW | ACT_ENDS_RUN | ACT_RUNS_AGAIN | ACT_RUNS_STEPS | ACT_TAKES | \
	  ACT_BY_COLUMNS, \
	  RETRIED, RECOVERED, NULL, \
	  NULL, NULL, \
	  "set to run again", NULL, NULL, NULL, NULL, NULL) \
	/* an operator releases a hold, and the job runs again */ \
	X(RELEASE, "release", MANY, \
	  ACT_RUNS_STEPS, \
	  RELEASED, RECOVERED, NULL, \
	  NULL, NULL, \
	  "released", NULL, NULL, \
	  "release a held or excused job", "Release", \
	  "The hold or excuse ends, and defib recovers the job again when it is stuck.") \
	/* only the hold ends: the row is unchanged */ \
	X(LIFT, "release", NO, \
	  ACT_LEAVES, \
	  RELEASED, RECOVERED, NULL, \
	  NULL, NULL, \
	  "released", NULL, NULL, NULL, NULL, NULL) \
	/* an operator says that a stuck job is not stuck: the row is unchanged */ \
	X(EXCUSE, "excuse", MANY, \
	  ACT_STORED | ACT_LEAVES | ACT_KEEPS_HELD | ACT_BY_COLUMNS, \
	  EXCUSED, RECOVERED, NULL, \
	  NULL, NULL, \
	  "excused", NULL, NULL, \
	  "say that a stuck job is not stuck", "Excuse", \
	  "The job does not count as stuck until what was judged changes, or it is released.") \
	/* only the excuse ends */ \
	X(UNEXCUSE, "release", NO, \
	  ACT_LEAVES | ACT_BY_COLUMNS, \
	  EXCUSE_ENDED, RECOVERED, NULL, \
	  NULL, NULL, \
	  "released", NULL, NULL, NULL, NULL, NULL) \
	/* a worker that is asked to stop, or whose job is marked, settles the job itself */ \
	X(CANCEL, "cancel", MANY, \
	  ACT_NEEDS_HOW | ACT_LEAVES | ACT_BY_COLUMNS | ACT_ENDS_JOB, \
	  CANCELLED, RECOVERED, NULL, \
	  "status = 'cancelling'", NULL, \
	  "cancelled", NULL, NULL, \
	  "ask a job to stop", "Cancel", \
	  "A running job is asked to stop; a waiting job never starts.") \
	X(END, "end", ONE, \
	  ACT_NEEDS_HOW | ACT_LEAVES | ACT_BY_COLUMNS | ACT_ENDS_JOB, \
	  ENDED, RECOVERED, NULL, \
	  "status = 'ending'", NULL, \
	  "ended", NULL, NULL, \
	  "end a job", "End", \
	  "The job is marked to end; its worker does the rest.") \
	X(UNDO, "undo", NO, \
	  ACT_KEEPS_HELD | ACT_BY_COLUMNS, \
	  UNDONE, RECOVERED, NULL, \
	  NULL, NULL, \
	  "reverted", NULL, NULL, NULL, "Undo", \
	  "The last change to the job is reverted, unless something happened to it since. " \
	  "The job is then held, so that no scan repeats the change.")
/* clang-format on */

enum remedy {
#define X(id, ...) REMEDY_##id,
	REMEDY_LIST(X)
#undef X
		REMEDY_COUNT
};

enum act {
	ACT_BEHIND_REMEDIES = REMEDY_COUNT - 1,
#define X(id, ...) ACT_##id,
	ACT_LIST(X)
#undef X
		ACT_COUNT
};

/* A row. The other columns are read where they belong: events.h, candidate.h, api_act.c. */
struct act_kind {
	int act; /* enum remedy or enum act */
	const char *verb;
	enum act_by_hand by_hand;
	unsigned marks; /* of enum act_mark */
	const char *count, *example, *reason;
	const char *done, *becomes, *would;
	const char *title, *about;
};
/* By enum remedy and enum act. */
extern const struct act_kind act_kinds[ACT_COUNT];
/* Of remedies, in enum order, ended by NULL. */
extern const char *const remedy_names[];

/* The name of its option; operators use the same word. */
const char *act_name(int act);
/* Whether it has one of these marks. */
bool act_has(int act, unsigned marks);
/* What operators can do, by verb; NULL: there is no such act. */
const struct act_kind *act_kind_named(const char *verb);
/* The verbs of what can be done to many jobs, ended by NULL. */
void acts_of_many(const char *names[ACT_COUNT + 1]);

#endif
