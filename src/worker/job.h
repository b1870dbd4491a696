/* SPDX-License-Identifier: Apache-2.0
 * job.h: a job in hand, and the data about a job that database, engine and runner exchange: how it
 * was claimed, how it ended, its beat. No database is used here.
 */
#ifndef WORKER_JOB_H
#define WORKER_JOB_H

#include "base/clock.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <stdint.h>

/* A claimed job. Texts live in the arena of the claim. */
struct claimed {
	const char *key; /* the job's key as text; a composite key as a JSON array */
	int64_t epoch;
	int64_t timeline;     /* of the server that granted the claim; 0: not known. With … */
	const char *database; /* its id (registry_database()); NULL: not known */
	uint64_t nonce; /* … this, what its token (source.h) contains besides worker and epoch */
	int64_t attempt, max_attempts, timeout_ms; /* 0: not known, no limit */
	int64_t priority;                          /* greater goes first */
	const char *queue;                         /* queue or watch */
	const char *kind, *payload;                /* may be NULL */
	const char *step;     /* the last one that an earlier attempt reported; may be NULL */
	const char *workflow; /* the workflow to run; NULL: that of its kind, if there is one */
	bool undoing;         /* a workflow in rollback: undo the steps recorded as done */
	/*
	 * What is recorded of a workflow's steps, in order; NULL: nothing. A JSON array of
	 * {"step":…,"state":…,"output":…}. The output is text, so that its numbers are not changed.
	 */
	const char *steps;
	bool alone; /* it was lost with its worker before: nothing else runs beside it this time */
};

/* X(enum, name): how a job ended, as the worker saw it */
#define SETTLE_LIST(X)                                                                             \
	X(DONE, "done")                                                                                \
	X(FAILED, "failed")       /* an error; attempts decide */                                      \
	X(RETRY, "retry")         /* the job asked to be retried */                                    \
	X(PERMANENT, "permanent") /* the job asked not to be retried */                                \
	X(TIMED_OUT, "timed_out") /* at its time limit; attempts decide */                             \
	X(CRASHED, "crashed")     /* killed by a signal that was not ours; attempts decide */          \
	X(STOPPED, "stopped")     /* asked to stop: cancelled, or released */                          \
	X(RELEASED, "released")   /* released; the attempt does not count */

enum settle_as {
#define X(id, name) SETTLE_##id,
	SETTLE_LIST(X)
#undef X
		SETTLE_COUNT
};
extern const char *const settle_names[];

/* The step of a workflow that ended (workflow.h); all zero if the job has none. */
enum step_side { STEP_SIDE_NONE, STEP_SIDE_RUN, STEP_SIDE_UNDO };
struct step_end {
	enum step_side side;
	const char *name; /* NULL: there was nothing to run, or to undo */
	int64_t position; /* in the configuration; orders the records */
	bool more;        /* another step follows, to run or to undo */
	bool saga;        /* of the workflow: from now on a permanent failure rolls back */
	/*
	 * Undo only: steps that end together with it without running anything. A JSON array of
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
	int64_t delay_ms;     /* before it may run again, if it may; -1: the source's own backoff */
	struct step_end step; /* then `result` is its output */
	bool accepted;        /* out */
};

/* A job in hand, as reported by a beat. */
struct beat {
	const char *key;
	int64_t epoch, attempt;
	const char *step; /* the running step; NULL: not known */
	bool lost;        /* out: it is no longer ours */
};

/* The last progress that a job reported; "" if none. */
struct job_progress {
	char step[128], text[1024];
};

/* The stage of a job in hand. */
enum job_place {
	JOB_HELD,    /* claimed, and not started yet */
	JOB_RUNS,    /* with its runner */
	JOB_ENDED,   /* its end must be recorded */
	JOB_ASKED,   /* its end is in the turn under way */
	JOB_SPOOLED, /* its end is being stored */
};
#define JOB_STEP_MAX 128

/*
 * A job that was claimed and is not settled. It belongs to the engine, except between ACTION_START
 * and EVENT_ENDED, when it belongs to its runner; then the engine changes only `stop` and `lost`.
 */
struct job {
	struct job *next, *prev; /* in hand */
	struct job *queued;      /* the list it waits in */
	int pool;
	int64_t slot;         /* in its pool; -1: none, nothing was run */
	int64_t worker;       /* the incarnation that claimed it */
	struct claimed claim; /* texts owned by this job */
	atomic_bool stop;     /* asked to stop: cancelled, shutdown or lost */
	atomic_bool lost;     /* its lease was lost: the result is useless */
	/* how it ended, set before EVENT_ENDED; texts owned by this job */
	enum settle_as as;
	char *result, *error;
	int64_t delay_ms; /* -1: the source's own backoff */
	struct step_end step_end;
	bool settled;                            /* by its handler, in the handler's own transaction */
	int64_t began_ms;                        /* when it was started here */
	int64_t ran_ms;                          /* how long its program ran; -1: not known */
	void *run;                               /* private to the runner */
	_Atomic(struct job_progress *) progress; /* progress that was not reported yet */
	struct job_progress *says;               /* everything last reported; private to its runner */
	/* The running step, written only by its runner (a seqlock): even while nobody writes. */
	atomic_uint step_version;
	_Atomic uint64_t step_now[JOB_STEP_MAX / 8];
	/* private to the engine */
	enum job_place place;
	bool stray;          /* the database says that we have it, but it is not running here */
	bool unclaimed;      /* a failover lost its claim: its end cannot be recorded */
	int64_t came, seen;  /* the turn that claimed it; the last one whose result named it */
	int64_t ended_ms;    /* when its end was reported */
	struct failure *why; /* why its end could not be recorded; NULL: not known */
};

/* Copies the texts. */
struct job *job_new(int pool, int64_t worker, const struct claimed *c);
void job_free(struct job *j);
/* Set its current step of a workflow; copies the texts. */
void job_at_step(struct job *j, const struct step_end *end);
/* Clear the step: what to run is chosen again. */
void job_off_step(struct job *j);
/* Store its progress, from the thread that runs it; NULL leaves a part unchanged. */
void job_say(struct job *j, const char *step, const char *text);
/* Take its latest progress, from any other thread; NULL: nothing new. The caller frees it. */
struct job_progress *job_take_progress(struct job *j);
/* The running step, as many bytes as fit; NULL: not known. From any thread. */
const char *job_step(const struct job *j, char out[JOB_STEP_MAX]);
/* -1 for any negative delay; databases cannot add a longer one to their time. */
#define DELAY_MOST_MS (DURATION_MOST_US / 1000)
int64_t delay_limited(int64_t ms);
/* How it ended, in the form that a source takes. Texts belong to the job. */
struct settlement job_end(const struct job *j);

/* ---- a turn ---- */

/*
 * What a worker asks of its database at once, and the results. A part belongs to one source: ends
 * of jobs are recorded and free slots are filled in one call and one commit. One turn is under way
 * at a time; what ends meanwhile joins the next one, so that batches grow by themselves under load.
 * Data only.
 */
struct turn_part {
	int pool; /* the pool whose source is used */

	/* Ends of jobs that the incarnation `worker` claimed; ends[i] is the end of jobs[i]. */
	int64_t worker;
	struct settlement *ends;
	struct job **jobs;
	int nends;
	bool drain; /* first drain the spool of this source: those jobs ended before */

	/* The current incarnation; 0: claim and ask for nothing. */
	int64_t claimer;
	int64_t room;  /* most jobs to claim */
	bool promote;  /* first make jobs available whose time has come */
	bool cancels;  /* read which of its jobs were asked to stop */
	bool compares; /* read which jobs the database says it has; after ends, without claims */
	bool timeline; /* … because it failed over: ends that are set aside may be of lost claims */
	struct beat *beats;
	int nbeats;

	/* Results. `err` is of the call; if set, everything in it failed. */
	defib_err err;
	struct failure f;
	bool away; /* the database is unavailable: the same call may succeed later */
	/*
	 * For each end if the call succeeded: NULL: it was processed (ends[i].accepted); else why it
	 * cannot be recorded (its table refuses it, or earlier ones wait in the spool).
	 */
	const struct failure **why;
	bool gone; /* the database does not consider the claimer alive: it got no jobs */
	struct claimed *claims;
	int nclaims;
	struct settlement *cancelling; /* keys and epochs */
	int ncancelling;
	/* Keys and epochs, without those whose end is in the spool or set aside. */
	struct settlement *has;
	int nhas;
	int64_t spooled; /* what is left in the spool of this source; set if drain was requested */
	defib_err beat_err;
	struct failure beat_f;
};

struct turn {
	struct arena arena;
	struct turn_part *parts;
	int nparts;
	/* Jobs with new progress (job_take_progress()) to report. */
	struct turn_progress {
		struct job *job;
		bool lost; /* result: the job is no longer ours */
	} * progress;
	int nprogress;
};

#endif
