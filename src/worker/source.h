/*
 * source.h: where a worker's jobs come from: a queue of the built-in table, or
 * a user's own table with leases beside it. One interface, so that the worker
 * knows nothing of either.
 *
 * Every write presents (key, epoch, worker); what is refused is answered
 * job by job and means that its lease is lost.
 */
#ifndef WORKER_SOURCE_H
#define WORKER_SOURCE_H

#include "store/store.h"

/* A job that was claimed. Texts live in the arena of the claim. */
struct claimed {
	const char *key; /* the job's key as text; a composite key as a JSON array */
	int64_t epoch;
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

struct source;
struct source_ops {
	defib_err (*claim)(struct source *src, struct store *s, int64_t worker, int64_t n,
	                   struct arena *a, struct claimed **out, int *nout, struct failure *f);
	defib_err (*settle)(struct source *src, struct store *s, int64_t worker, struct settlement *all,
	                    int n, struct arena *a, struct failure *f);
	/* What the database says this worker has: keys and epochs. */
	defib_err (*owned)(struct source *src, struct store *s, int64_t worker, struct arena *a,
	                   struct settlement **out, int *n, struct failure *f);
	/* Which of its jobs were asked to stop: keys and epochs. */
	defib_err (*cancelling)(struct source *src, struct store *s, int64_t worker, struct arena *a,
	                        struct settlement **out, int *n, struct failure *f);
	/* Work that comes due by time becomes ready. */
	defib_err (*promote)(struct source *src, struct store *s, struct failure *f);
	/* Step and progress of one job; DEFIB_LEASE_LOST when it is not ours. */
	defib_err (*progress)(struct source *src, struct store *s, int64_t worker, const char *key,
	                      int64_t epoch, const char *step, const char *text, struct failure *f);
	void (*free)(struct source *src);
	/* Say that jobs are alive, where the source has a beat_ms. Those that are not ours are passed.
	 */
	defib_err (*beat)(struct source *src, struct store *s, int64_t worker, struct beat *all, int n,
	                  struct arena *a, struct failure *f);
};

struct source {
	const struct source_ops *ops;
	const char *name; /* queue or watch */
	const char *keys; /* sources with the same text have the same jobs; NULL: with no other */
	int64_t beat_ms;  /* how often jobs in hand are to beat; 0: never */
};

/* Keys and epochs from a query with one parameter, the worker. */
MUST_CHECK defib_err source_keys(struct store *s, const char *sql, int64_t worker, struct arena *a,
                                 struct settlement **out, int *n, struct failure *f);
/* A queue of the built-in table; `kind` NULL: all kinds. */
struct source *source_queue(const char *queue, const char *kind);
/* Jobs of these kinds only; n 0: all kinds. */
struct source *source_queue_kinds(const char *queue, const char *const *kinds, int n);
/*
 * Inside a transaction: is this job of the built-in queue ours and not settled?
 * If so it stays that way until the transaction ends; else DEFIB_LEASE_LOST.
 */
MUST_CHECK defib_err source_queue_hold(struct store *s, int64_t worker, const char *key,
                                       int64_t epoch, struct failure *f);

#endif
