/* SPDX-License-Identifier: Apache-2.0
 * job.h: a job in hand, and what is said of one between the database, the engine and who
 * runs it: how it was claimed, how it ended, its beat. No database is seen from here.
 */
#ifndef WORKER_JOB_H
#define WORKER_JOB_H

#include "base/fail.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A job that was claimed. Texts live in the arena of the claim. */
struct claimed {
	const char *key; /* the job's key as text; a composite key as a JSON array */
	int64_t epoch;
	int64_t timeline; /* of the server that gave it; 0: not known. With … */
	uint64_t nonce;   /* … this, what its token (source.h) says beside worker and epoch */
	int64_t attempt, max_attempts, timeout_ms; /* 0: not known, no limit */
	int64_t priority;                          /* greater goes first */
	const char *queue;                         /* queue or watch */
	const char *kind, *payload;                /* may be NULL */
	const char *step;     /* the last one an earlier attempt told of; may be NULL */
	const char *workflow; /* whose steps it runs; NULL: that of its kind, if there is one */
	bool undoing; /* a workflow that is rolled back: what is recorded as done is to be undone */
	/*
	 * What is recorded of a workflow's steps, in order; NULL: nothing. A JSON array of
	 * {"step":…,"state":…,"output":…}, the output as text: its numbers are the user's.
	 */
	const char *steps;
	bool alone; /* it was lost with its worker before: nothing else runs beside it this time */
};

/* X(enum, name): how a job ended, as the worker saw it */
#define SETTLE_LIST(X)                                                                             \
	X(DONE, "done")                                                                                \
	X(FAILED, "failed")       /* an error; attempts decide */                                      \
	X(RETRY, "retry")         /* the job asked to be tried again */                                \
	X(PERMANENT, "permanent") /* the job said never again */                                       \
	X(TIMED_OUT, "timed_out") /* at its time limit; attempts decide */                             \
	X(CRASHED, "crashed")     /* killed by a signal that was not ours; attempts decide */          \
	X(STOPPED, "stopped")     /* asked to stop: cancelled, or handed back */                       \
	X(RELEASED, "released")   /* handed back, the attempt returned */

enum settle_as {
#define X(id, name) SETTLE_##id,
	SETTLE_LIST(X)
#undef X
		SETTLE_COUNT
};
extern const char *const settle_names[];

/* The step of a workflow that ended (workflow.h); all zero where the job is none. */
enum step_side { STEP_SIDE_NONE, STEP_SIDE_RUN, STEP_SIDE_UNDO };
struct step_end {
	enum step_side side;
	const char *name; /* NULL: there was nothing to run, or to undo */
	int64_t position; /* in the configuration; orders the records */
	bool more;        /* another step is to be run, or undone, after it */
	bool saga;        /* of the workflow: from now on a failure for good undoes */
	/*
	 * Undo only: steps that end together with it, with nothing run. A JSON array of
	 * {"step":…,"state":"undone" or "undo_failed","error":…}; NULL: none.
	 */
	const char *passed;
};

struct settlement {
	const char *key;
	int64_t epoch;
	enum settle_as as;
	const char *result;   /* JSON or NULL */
	const char *error;    /* text or NULL */
	int64_t delay_ms;     /* before it may run again, where it may; -1: the source's own backoff */
	struct step_end step; /* `result` is its output then */
	bool accepted;        /* out */
};

/* A job in hand, as a beat tells of it. */
struct beat {
	const char *key;
	int64_t epoch, attempt;
	const char *step; /* that is being run; NULL: not known */
	bool lost;        /* out: it is no longer ours */
};

/* What a job said of its progress, last; "" where it has said nothing of that. */
struct job_said {
	char step[128], text[1024];
};

/* Where a job in hand is. */
enum job_place {
	JOB_HELD,    /* claimed, and not started yet */
	JOB_RUNS,    /* with whoever runs it */
	JOB_ENDED,   /* its end is to be recorded */
	JOB_ASKED,   /* its end is in the turn under way */
	JOB_SPOOLED, /* its end is being kept */
};
#define JOB_STEP_MAX 128

/*
 * A job that was claimed and is not settled. It belongs to the engine, but for the time in
 * between ACTION_START and EVENT_ENDED, when it belongs to whoever runs it; then the engine
 * changes only `stop` and `lost`.
 */
struct job {
	struct job *next, *prev; /* in hand */
	struct job *queued;      /* a list that it waits in */
	int pool;
	int64_t slot;         /* of its pool; -1: it has none, nothing was run */
	int64_t worker;       /* the incarnation that claimed it */
	struct claimed claim; /* texts owned by this job */
	atomic_bool stop;     /* asked to stop: cancelled, shutdown or lost */
	atomic_bool lost;     /* its lease was lost: the result is of no use */
	/* how it ended, set before EVENT_ENDED; texts owned by this job */
	enum settle_as as;
	char *result, *error;
	int64_t delay_ms; /* -1: the source's own backoff */
	struct step_end step_end;
	bool settled;                    /* by its handler, in a transaction of its own */
	int64_t began_ms;                /* when it was started here */
	int64_t ran_ms;                  /* how long its program ran; -1: not known */
	void *run;                       /* the runner's own */
	_Atomic(struct job_said *) said; /* progress that was not told yet */
	struct job_said *says;           /* all that it said last; of its runner alone */
	/* Which step is being run, written by its runner alone: even where nobody writes. */
	atomic_uint step_version;
	_Atomic uint64_t step_now[JOB_STEP_MAX / 8];
	/* the engine's own */
	enum job_place place;
	bool stray;          /* the database said that we have it, and nobody had */
	bool unclaimed;      /* a fail-over lost its claim: its end is nobody's to record */
	int64_t came, seen;  /* the turn that claimed it; the last one whose answer named it */
	int64_t ended_ms;    /* when its end was told */
	struct failure *why; /* why its end could not be recorded; NULL: it is not known */
};

/* Its texts are copied. */
struct job *job_new(int pool, int64_t worker, const struct claimed *c);
void job_free(struct job *j);
/* Which step of a workflow it is at; its texts are copied. */
void job_at_step(struct job *j, const struct step_end *end);
/* It is at none any more: what is run is chosen anew. */
void job_off_step(struct job *j);
/* Remember what it says of its progress, from the thread that runs it; NULL leaves a part as it
 * was. */
void job_say(struct job *j, const char *step, const char *text);
/* Take what it said, from any other thread; NULL: nothing new. The caller's to free. */
struct job_said *job_take_said(struct job *j);
/* Which step is being run, of as many bytes as fit; NULL: not known. From any thread. */
const char *job_step(const struct job *j, char out[JOB_STEP_MAX]);
/* How it ended, as a source is told. Texts stay the job's. */
struct settlement job_end(const struct job *j);

/* ---- a turn ---- */

/*
 * What a worker asks of its database in one go, and what it is answered.
 * A part is of one source: the ends of jobs are recorded and free slots are filled in one
 * call and one commit. One turn is under way at a time; what ends meanwhile joins the next,
 * so that batches grow by themselves under load. Data only.
 */
struct turn_part {
	int pool; /* whose source is asked */

	/* Ends of jobs that the incarnation `worker` claimed; jobs[i] is whose end ends[i] is. */
	int64_t worker;
	struct settlement *ends;
	struct job **jobs;
	int nends;
	bool drain; /* first what waits in the spool of this source: it ended before */

	/* In the name of the present incarnation; 0: nothing is claimed or asked. */
	int64_t claimer;
	int64_t room;  /* jobs to claim at most */
	bool promote;  /* work that comes due by time becomes ready first */
	bool cancels;  /* which of its jobs were asked to stop? */
	bool compares; /* which jobs does the database say it has? Asked behind ends, without claims */
	bool timeline; /* … because it failed over: ends that are set aside may be of lost claims */
	struct beat *beats;
	int nbeats;

	/* Answers. `err` is of the call; all that was asked failed with it. */
	defib_err err;
	struct failure f;
	bool away; /* the database is: what failed may succeed later as it is */
	/*
	 * Of each end where the call succeeded: NULL: it was answered (ends[i].accepted), or why
	 * it cannot be recorded (its table refuses it, or those before it wait in the spool).
	 */
	const struct failure **why;
	bool gone; /* the claimer is not alive for the database: it was given nothing */
	struct claimed *claims;
	int nclaims;
	struct settlement *cancelling; /* keys and epochs */
	int ncancelling;
	/* Keys and epochs, without those whose end is in the spool or set aside. */
	struct settlement *has;
	int nhas;
	int64_t spooled; /* what is left in the spool of this source; set where drain was asked */
	defib_err beat_err;
	struct failure beat_f;
};

struct turn {
	struct arena arena;
	struct turn_part *parts;
	int nparts;
	/* Jobs that have said something of their progress (job_take_said()): it is to be told. */
	struct turn_progress {
		struct job *job;
		bool lost; /* answer: the job is no longer ours */
	} * progress;
	int nprogress;
};

#endif
