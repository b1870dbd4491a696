/* SPDX-License-Identifier: Apache-2.0
 * worker.h: a worker as its callers see it (cli/cmd_work.c, lib/worker.c). It claims jobs into
 * slots, runs them as child processes, through a handler in threads or by a program at the other
 * end of a pair of pipes (docs/lines.md), and records their ends. The
 * engine (engine.h) decides; begin reading there. worker_state.h names the files and threads
 * around it. It has two sessions: one for turns, one for its life; a third only while it recovers
 * jobs of others.
 */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include "life/lease.h"
#include "watch/watch.h"
#include "worker/source.h"

/* The exit code of a process with a handler that does not stop (EX_SOFTWARE). */
#define WORKER_EXIT_STUCK 70
/* … and of one whose program at the other end of its lines is gone with its jobs (EX_IOERR). */
#define WORKER_EXIT_CLIENT_GONE 74

/* A handler's view of its job, and how it returns results. Called from a thread of the pool. */
struct handler_job;
/* Returned by a handler that has not ended: handler_finish() follows, from any thread. */
#define HANDLER_LATER SETTLE_COUNT
typedef enum settle_as (*handler_fn)(struct handler_job *j, void *ctx);

struct worker_pool {
	struct source *source;
	const struct watch *watch;         /* of a table, for the log; NULL: a queue */
	int64_t concurrency;               /* slots */
	char *const *command;              /* argv, ends with NULL; or … */
	struct text_list pass_environment; /* of the command, and of steps besides their workflow's */
	handler_fn handler;                /* … a handler */
	void *handler_ctx;
	bool lines; /* … the program at the other end of the worker's lines */
	/* Jobs of these kinds run the workflows' steps; NULL: none. `command` may be NULL then. */
	const struct workflow_list *workflows;
	const char
		*no_session_error; /* of a job whose program got none; NULL: the default in watch.h */
	const char *unrecorded_message; /* of a job whose end could not be recorded; NULL: likewise */
	int64_t poll_ms;                /* 1000 */
	int64_t batch;       /* most jobs claimed per poll interval; 0: as many as there are slots */
	int64_t timeout_ms;  /* if the job has none of its own; 0: none */
	int64_t grace_ms;    /* between SIGTERM and SIGKILL */
	int64_t stop_ms;     /* of a handler: between the request to stop and stuck; 0: grace_ms */
	int64_t stagger_ms;  /* pause between the starts of two slots, across pools too */
	int64_t burst_limit; /* most jobs a slot takes within burst_ms of its start; 0: no limit */
	int64_t burst_ms;
	bool exclusive;
	bool noted;      /* log a line for each claim and end: there are few */
	bool own_grace;  /* a stop lets its jobs finish for grace_ms instead of the worker's */
	bool wait_first; /* no claim before the first poll interval has passed */
};

struct worker_options {
	const char *name;
	struct store_options store;
	struct worker_pool *pools;
	int npools;
	const struct watch **watches; /* recovered by this worker; [0] is the built-in queue */
	int nwatches;
	const struct retention *retention; /* see sweeper.h; NULL: nothing is removed */
	struct lease_rules lease;
	const char *spool;       /* directory; NULL: off */
	const char *stored_jobs; /* directory of new jobs that wait (stored_jobs.h); NULL: none */
	int64_t grace_ms;        /* how long a stop waits for jobs; 30000 */
	int threads;             /* for handlers; 0: as many as slots, 16 at most */
	bool drain;              /* end when there is nothing left to claim */
	int64_t brake_ms;        /* see struct life_thread_options */
	bool no_startup;
	/* How often, and with which pause, a failed beat is retried; 0: 3 times, 5000 ms. */
	int64_t beat_tries, beat_retry_ms;
	/*
	 * A handler was asked to stop and did not within its pool's grace; it cannot be killed. Called
	 * once per job, from worker_run(); NULL: the process exits with WORKER_EXIT_STUCK, and its jobs
	 * are recovered like those of any dead worker.
	 */
	void (*stuck)(void *ctx, const char *source, const char *job);
	void *stuck_ctx;
	/*
	 * Of pools with `lines`: the descriptors, and how long the program may be silent while it has
	 * jobs; 0: for any time.
	 */
	int lines_in, lines_out;
	int64_t client_timeout_ms;
};

struct worker;

MUST_CHECK defib_err worker_open(const struct worker_options *o, struct worker **out,
                                 struct failure *f);
/* Runs until it is stopped and everything in hand is settled, spooled or released. */
void worker_run(struct worker *w);
/*
 * Ask it to stop; may be called from any thread and from a signal thread. The first call stops
 * claiming and lets jobs finish within the grace, the second releases them at once.
 */
void worker_stop(struct worker *w);
/* New sizes and thresholds for pool i, at the next tick. */
void worker_resize(struct worker *w, int pool, int64_t concurrency, int64_t poll_ms);
struct worker_counts {
	int64_t settled, refused, spooled, abandoned;
};
void worker_counts(struct worker *w, struct worker_counts *out);
/* The lines of the log at start and end; kinds[i] is what pool i is limited to, NULL: all. */
void worker_log_started(const struct worker_options *o, const char *const kinds[]);
void worker_log_ended(const struct worker_counts *counts);
/* A handler got the session that it needs, or did not; from any thread. */
void worker_served(struct worker *w, bool served);
void worker_close(struct worker *w);

/* For handlers. */
const struct claimed *handler_claim(const struct handler_job *j);
bool handler_should_stop(struct handler_job *j);
bool handler_lost(struct handler_job *j);
defib_err handler_progress(struct handler_job *j, const char *step, const char *text);
void handler_result(struct handler_job *j, const char *json);
void handler_error(struct handler_job *j, const char *text);
void handler_delay(struct handler_job *j, int64_t delay_ms);
struct source *handler_source(const struct handler_job *j);
/* The incarnation that claimed it: part of the fencing token, with key and epoch. */
int64_t handler_worker(const struct handler_job *j);
/* The step of a workflow being run or undone, NULL if the job has none; and its end. */
const struct workflow_step *handler_step(const struct handler_job *j);
const struct step_end *handler_step_end(const struct handler_job *j);
const char *handler_given_result(const struct handler_job *j); /* may be NULL */
/* The end of a handler that returned HANDLER_LATER, or is about to; its job is gone afterwards. */
void handler_finish(struct handler_job *j, enum settle_as as);
/* It was settled in the handler's own transaction: the worker only forgets it. */
void handler_settled(struct handler_job *j);

/* ---- how long jobs ran ---- */

/*
 * What a worker reports about itself at each renewal of its lease, and how long its jobs ran, in
 * the buckets of the metrics: a fixed size however many there were. Unlike run_times.h it is not a
 * sample of ended rows and does not forget: the counters only grow, from the worker's start.
 */

/* Upper bounds in seconds, ascending. */
#define JOB_TIME_BOUNDS                                                                            \
	0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200,  \
		21600, 86400
#define JOB_TIME_BUCKETS 22 /* the last: above all bounds */
extern const double job_time_bounds[JOB_TIME_BUCKETS - 1];

struct job_times {
	int64_t counts[JOB_TIME_BUCKETS];
	int64_t sum_ms;
};

void job_times_add(struct job_times *t, int64_t ms);
/* {"sum":12.5,"buckets":{"0.5":3,"+Inf":1}}: the count of each bucket, without empty ones. */
void job_times_json(const struct job_times *t, struct buf *out);

#endif
