/* SPDX-License-Identifier: Apache-2.0
 * defib.h: the public interface of libdefib.
 *
 * Every call that can fail returns a defib_err; DEFIB_OK is 0. Texts that the
 * library returns belong to it unless a comment says otherwise. The library
 * installs no signal handlers and never waits for processes that it did not
 * start.
 *
 * Option structs begin with their own size, so that they can grow: initialize
 * them with the _INIT of their type. A member that is 0 or NULL has its default.
 *
 *   defib_job_spec job = DEFIB_JOB_SPEC_INIT;
 *   job.queue = "mail";
 *   job.kind = "welcome";
 *   job.payload = "{\"to\":\"ada@example.org\"}";
 *   err = defib_enqueue(db, &job, &id, &message);
 */
#ifndef DEFIB_H
#define DEFIB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DEFIB_API __attribute__((visibility("default")))
#define DEFIB_MUST_CHECK __attribute__((warn_unused_result))
#else
#define DEFIB_API
#define DEFIB_MUST_CHECK
#endif

/* The version that this header belongs to; 0.1.0 is 100. */
#define DEFIB_VERSION_MAJOR 0
#define DEFIB_VERSION_MINOR 1
#define DEFIB_VERSION_PATCH 0
#define DEFIB_VERSION_NUMBER                                                                       \
	(DEFIB_VERSION_MAJOR * 10000 + DEFIB_VERSION_MINOR * 100 + DEFIB_VERSION_PATCH)
#define DEFIB_TEXT_OF_WORD(word) #word
#define DEFIB_TEXT_OF(macro) DEFIB_TEXT_OF_WORD(macro)
#define DEFIB_VERSION                                                                              \
	DEFIB_TEXT_OF(DEFIB_VERSION_MAJOR)                                                             \
	"." DEFIB_TEXT_OF(DEFIB_VERSION_MINOR) "." DEFIB_TEXT_OF(DEFIB_VERSION_PATCH)

/*
 * Error classes. The class decides what is right to do next, so there is one
 * class per reaction, not per cause. X(name, number, text)
 */
#define DEFIB_ERR_LIST(X)                                                                          \
	X(OK, 0, "ok")                                                                                 \
	X(USAGE, 1, "wrong usage")                                                                     \
	X(CONFIG, 2, "wrong configuration")                                                            \
	X(CONNECTION, 3, "connection lost or refused; nothing was done")                               \
	X(UNKNOWN_OUTCOME, 4, "the reply was lost; the request may have been carried out: read again") \
	X(TIMEOUT, 5, "not done within its time limit")                                                \
	X(LOCKED, 6, "serialization failure, deadlock or lock time-out: may be tried again")           \
	X(CONSTRAINT, 7, "a constraint or trigger of the table refused it")                            \
	X(PERMISSION, 8, "the database role lacks a privilege")                                        \
	X(READ_ONLY, 9, "the database is read-only")                                                   \
	X(BAD_SQL, 10, "the database could not run this SQL")                                          \
	X(FULL, 11, "no space, memory or connection slot left in the database")                        \
	X(IO, 12, "input or output failed")                                                            \
	X(REFUSED, 13, "refused by a guard")                                                           \
	X(NOT_FOUND, 14, "not found")                                                                  \
	X(DATABASE, 15, "another database error")                                                      \
	X(LEASE_LOST, 16, "the lease on the job or worker is lost; its writes are no longer accepted") \
	X(MEMORY, 17, "out of memory in this process")                                                 \
	X(BAD_VALUE, 18, "the database does not accept this value")

typedef enum defib_err {
#define DEFIB_ERR_ENUM(name, number, text) DEFIB_##name = (number),
	DEFIB_ERR_LIST(DEFIB_ERR_ENUM)
#undef DEFIB_ERR_ENUM
} defib_err;

/* "OK", "CONNECTION", …; never NULL. */
DEFIB_API const char *defib_err_name(defib_err err);
/* One line for people; never NULL. */
DEFIB_API const char *defib_err_text(defib_err err);
/* The version of the library that is loaded: "0.1.0", and as DEFIB_VERSION_NUMBER. */
DEFIB_API const char *defib_version(void);
DEFIB_API int defib_version_number(void);

/* What went wrong, as text. It belongs to the caller; NULL is allowed wherever one is taken. */
typedef struct defib_message {
	char what[768]; /* one line: what and why */
	char next[384]; /* what to do next, or "" */
} defib_message;

/*
 * The library logs to stderr, one event per line. `level` is the lowest that is
 * logged: "debug", "info" (the default), "warn", "error" or "critical". `json`
 * other than 0 writes JSON instead of logfmt.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_log(const char *level, int json);

/*
 * Pass each line to `line` instead of writing it to stderr; NULL: to stderr again. Any thread of
 * the library calls it, several at once; it must not call the library. Set it before other calls.
 */
DEFIB_API void defib_set_log(void (*line)(void *ctx, const char *level, const char *text),
                             void *ctx);
/*
 * Set a function that any thread of the library calls when an allocation fails. It may free memory
 * and return a value other than 0: the allocation is then tried again at once. Or it may end the
 * process, which is safe at any point, because whatever the library keeps is in database
 * transactions. If it returns 0, or none is set, the library uses its reserve of 8 MiB. A call that
 * finds no reserve when it begins returns DEFIB_MEMORY and has done nothing; a scan that uses the
 * reserve stops after the current batch and returns DEFIB_MEMORY with its counts. When the reserve
 * is used up, the thread waits until memory is available. Nothing is aborted. Set it before other
 * calls.
 */
DEFIB_API void defib_set_out_of_memory(int (*refused)(void *ctx, size_t bytes), void *ctx);

/* ---- a database ---- */

/*
 * A session that reconnects by itself. For one thread at a time, and for the process that opened
 * it: to a forked child, calls return DEFIB_REFUSED.
 */
typedef struct defib_db defib_db;

enum { DEFIB_OPEN_CREATE = 1 }; /* SQLite: create the file if it does not exist */

/* postgres://…, postgresql://… or sqlite:PATH. On failure *out is NULL. */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_open(const char *url, unsigned flags, defib_db **out,
                                                defib_message *message);
DEFIB_API void defib_close(defib_db *db); /* NULL is allowed */
/* Create or update defib's tables, in one transaction. A second call changes nothing. */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_init_schema(defib_db *db, defib_message *message);

/* ---- enqueueing ---- */

typedef struct defib_job_spec {
	size_t size;
	const char *queue, *kind; /* both required */
	const char *payload;      /* JSON, or NULL */
	int64_t delay_ms;         /* not before this time has passed */
	int64_t priority;         /* greater runs first; -32768 to 32766 */
	int64_t max_attempts;     /* 5 */
	int64_t timeout_ms;       /* time limit of one run; 0: none */
	const char *unique_key;   /* one job per queue and key waits or runs at a time */
	const char *tags;         /* JSON array of strings, or NULL */
} defib_job_spec;
/* clang-format off */
#define DEFIB_JOB_SPEC_INIT {sizeof(defib_job_spec), 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/*
 * Enqueue one job and wake a worker. *id (may be NULL) is its id. If another job
 * has the unique key, nothing is added and *id is the id of that job.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_enqueue(defib_db *db, const defib_job_spec *job,
                                                   int64_t *id, defib_message *message);

/*
 * Enqueue n jobs, all or none. `jobs` is an array of structs of one size. ids (may be NULL) has
 * room for n ids, in the same order. Calls with a few hundred jobs are the fastest. An error in one
 * of them is reported with its position in the array.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_enqueue_many(defib_db *db, const defib_job_spec *jobs,
                                                        int n, int64_t *ids,
                                                        defib_message *message);

struct pg_conn; /* libpq's PGconn */
struct sqlite3; /* SQLite's handle */

/*
 * The same inside the caller's own transaction, on the caller's handle: the
 * job exists exactly if the transaction commits. A transaction must be open
 * (otherwise DEFIB_USAGE); it is never begun, committed or rolled back here.
 * After any failure, roll back. The handle must come from the libpq or SQLite
 * that this library is linked with. Workers find the job when they next poll,
 * or at once with defib_notify() after the commit.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_enqueue_pg(struct pg_conn *conn,
                                                      const defib_job_spec *job, int64_t *id,
                                                      defib_message *message);
DEFIB_API DEFIB_MUST_CHECK defib_err defib_enqueue_sqlite(struct sqlite3 *handle,
                                                          const defib_job_spec *job, int64_t *id,
                                                          defib_message *message);
/* Wake idle workers. A wake-up may be lost, and is never necessary. */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_notify(defib_db *db, defib_message *message);
/* Cancel a waiting job, or ask a running one to stop; DEFIB_NOT_FOUND if it is neither. */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_cancel(defib_db *db, int64_t id, defib_message *message);

/* ---- handling jobs ---- */

/* A job that a handler runs; valid until the handler returns, or defib_job_finish() is called. */
typedef struct defib_job defib_job;

/* None of these numbers is a defib_err: a handler that returns an error code fails its job. */
typedef enum defib_outcome {
	DEFIB_DONE = 100, /* done; the result of defib_job_result() is stored */
	DEFIB_FAILED,     /* an error: retried after a backoff while attempts are left */
	DEFIB_RETRY,      /* retry later; only of a watch's rows do attempts limit this */
	DEFIB_PERMANENT,  /* an error that a retry cannot fix */
	DEFIB_STOPPED,    /* it was asked to stop and did: cancelled or released */
	DEFIB_SETTLED,    /* settled by defib_job_settle_…() in the handler's own transaction */
	DEFIB_LATER,      /* not ended: defib_job_finish() follows, from any thread */
} defib_outcome;

/*
 * Called by threads of the worker, several at once. It should call
 * defib_job_should_stop() now and then, because a thread cannot be killed.
 * If it forks, job and worker are the parent's: to the child, the job is lost,
 * and what it reports is dropped. When the child returns from the handler, it
 * ends with code 0, without exit handlers.
 */
typedef defib_outcome (*defib_handler)(defib_job *job, void *ctx);
/*
 * End a job whose handler has returned DEFIB_LATER, or is about to. Call it exactly once, with any
 * other outcome. It never waits. Until then, only one thread at a time may make calls for the job.
 */
DEFIB_API void defib_job_finish(defib_job *job, defib_outcome outcome);

/* The id in the built-in queue; 0 if the job is a row of a table whose key is not a number. */
DEFIB_API int64_t defib_job_id(const defib_job *job);
/* The key as text; a composite key is a JSON array of its parts. */
DEFIB_API const char *defib_job_key(const defib_job *job);
/* Rises with every claim of the job. With the id, it is a key for effects that must not repeat. */
DEFIB_API int64_t defib_job_epoch(const defib_job *job);
/*
 * Unique to this claim, even if a failover of the database repeats an epoch. The tokens of a job
 * sort as text in the order of its claims. Valid while the handler runs.
 */
DEFIB_API const char *defib_job_token(defib_job *job);
DEFIB_API int64_t defib_job_attempt(const defib_job *job); /* 1 the first time */
DEFIB_API int64_t defib_job_max_attempts(const defib_job *job);
DEFIB_API const char *defib_job_queue(const defib_job *job);
DEFIB_API const char *defib_job_kind(const defib_job *job);
DEFIB_API const char *defib_job_payload(const defib_job *job); /* JSON, or NULL */
/* Other than 0: the job was cancelled or exceeds its time limit, or the worker stops or has lost
 * its lease. */
DEFIB_API int defib_job_should_stop(defib_job *job);
/* Other than 0: the lease is lost. Nothing that this handler writes or returns will be accepted. */
DEFIB_API int defib_job_lost(defib_job *job);
/*
 * Report progress. The texts are cut at 127 and 1023 bytes; either may be NULL. Never
 * waits. DEFIB_LEASE_LOST: the job no longer belongs to this worker; stop.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_job_progress(defib_job *job, const char *step,
                                                        const char *text);
/* Set the result, or a step's output; stored if the outcome is done. DEFIB_USAGE: not JSON. */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_job_result(defib_job *job, const char *json);
/* Set the reason of a failure. */
DEFIB_API void defib_job_error(defib_job *job, const char *text);
/* Set the wait before the retry, for DEFIB_FAILED and DEFIB_RETRY, instead of the backoff. */
DEFIB_API void defib_job_retry_in(defib_job *job, int64_t delay_ms);

/*
 * Report whether the handler got a database session of its own (`got` is 0 if it did not). Both are
 * counted in the metrics, and after five failures in a row the worker pauses its claims.
 */
DEFIB_API void defib_job_session(defib_job *job, int got);

/* The step of a workflow that is run or undone; NULL: the job is not a workflow. */
DEFIB_API const char *defib_job_step(const defib_job *job);
DEFIB_API int defib_job_undoing(const defib_job *job); /* other than 0: undo the step */
/*
 * The JSON result of a step that is done, or NULL; in an undo also that of the
 * step itself. It belongs to the job.
 */
DEFIB_API const char *defib_job_output(const defib_job *job, const char *step);

/*
 * Settle the job as done inside the caller's own transaction, together with what the handler writes
 * there: both happen or neither. Call it last before the COMMIT, then return DEFIB_SETTLED. In a
 * workflow it settles the step as done, or as undone, and the job is ready for the next step as
 * soon as the transaction commits.
 *
 * DEFIB_LEASE_LOST: the job no longer belongs to this worker, or an earlier COMMIT whose reply was
 * lost has settled it: roll back and return DEFIB_SETTLED; the worker finds out which. On any other
 * failure roll back, and try again or return DEFIB_FAILED. If the COMMIT fails, do the same. If a
 * handler returns DEFIB_SETTLED without having committed, its job is released after a while.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_job_settle_pg(defib_job *job, struct pg_conn *conn,
                                                         defib_message *message);
DEFIB_API DEFIB_MUST_CHECK defib_err defib_job_settle_sqlite(defib_job *job, struct sqlite3 *handle,
                                                             defib_message *message);

/* ---- a worker ---- */

/*
 * A step of a workflow. Each step is claimed, leased, retried and settled like a
 * job of its own: any worker may run the next one, each has its own attempts, and
 * a step that is recorded as done is not run again. Its effects happen at least
 * once; settle it in your own transaction for exactly once.
 */
typedef struct defib_step {
	size_t size;
	const char *name;   /* required; the record of the step has this name */
	defib_handler run;  /* required */
	defib_handler undo; /* undoes it; NULL: there is nothing to undo */
	int64_t timeout_ms; /* time limit of its run, and of its undo; 0: the job's, or the pool's */
} defib_step;
/* clang-format off */
#define DEFIB_STEP(name, run, undo) {sizeof(defib_step), name, run, undo, 0}
#define DEFIB_STEP_INIT DEFIB_STEP(0, 0, 0)
/* clang-format on */

typedef struct defib_pool {
	size_t size;
	const char *queue; /* required, unless there is a watch */
	const char *kind;  /* only jobs of this kind; NULL: all */
	defib_handler handler;
	void *ctx;           /* passed to the handler, or to those of the steps */
	int64_t concurrency; /* jobs at a time; 1, at most 10000 */
	int64_t poll_ms;     /* how often to ask for jobs if nothing wakes the worker; 1000 */
	int64_t timeout_ms;  /* time limit of jobs without their own; 0: none */
	int64_t stop_ms;     /* how long a handler may take to stop when asked to; 10000 */
	int exclusive;       /* other than 0: stop work when the lease ends by the local clock */
	/*
	 * Instead of a handler: jobs of this kind (then required) are workflows of these
	 * steps, run in order. No other pool may take the same kind of that queue. For a watch: the
	 * steps of its `workflow`, with the same names in the same order; functions run instead of the
	 * programs, and the watch decides what is rolled back.
	 */
	const defib_step *steps;
	int nsteps;
	int saga; /* other than 0: a permanent failure undoes the finished steps, the last one first */
	/*
	 * Instead of a queue: the rows of a table of your own, as the `work` section of this watch
	 * says. The watch is one of the worker's watches. Numbers that are 0 are taken from the watch,
	 * as are its batch, stagger, burst and grace. Without a kind, each of the watch's `pools`
	 * becomes a pool.
	 */
	const char *watch;
} defib_pool;
/* clang-format off */
#define DEFIB_POOL_INIT {sizeof(defib_pool), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

typedef struct defib_worker_options {
	size_t size;
	const char *url;  /* required without watches; the worker opens three sessions of its own */
	const char *name; /* a stable name; default: host and process */
	const char
		*spool; /* directory where results wait while the database is unavailable; NULL: off */
	int64_t lease_ms; /* 15000; from 600 to 86400000 */
	int64_t grace_ms; /* how long defib_worker_stop() lets handlers finish; 30000 */
	/*
	 * How many handlers run at the same time; default: as many as the pools take,
	 * at most 256. Jobs in hand beyond that wait for a thread.
	 */
	int threads;
	int drain; /* other than 0: defib_worker_run() returns when nothing is left to claim */
	/*
	 * A handler was asked to stop and did not within its pool's stop_ms. It keeps
	 * its job until this process ends, even if others must run the job. Called once
	 * per job, from defib_worker_run(); it must not block. NULL: a critical line is
	 * logged.
	 */
	void (*on_stuck)(void *ctx, const char *queue, const char *job);
	void *on_stuck_ctx;
	/*
	 * If most other workers fall silent at once, a problem between them and the
	 * database is more likely than so many crashes. For at most this long none of
	 * them is declared dead for silence alone; 600000. Below 0: each is declared dead
	 * when its lease ends.
	 */
	int64_t brake_ms;
	/* Other than 0, without on_stuck: the process exits with code 70 after that line. */
	int exit_when_stuck;
	/*
	 * The watches of the pools, all in one database. They must outlive the worker, and cannot be
	 * changed while it exists.
	 */
	struct defib_watches *watches;
} defib_worker_options;
/* clang-format off */
#define DEFIB_WORKER_OPTIONS_INIT {sizeof(defib_worker_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

typedef struct defib_counts {
	size_t size;
	int64_t settled;   /* accepted by the database */
	int64_t refused;   /* too late: LEASE_LOST */
	int64_t spooled;   /* waiting in the spool, or were */
	int64_t abandoned; /* could not be recorded anywhere: a critical line names each */
} defib_counts;
/* clang-format off */
#define DEFIB_COUNTS_INIT {sizeof(defib_counts), 0, 0, 0, 0}
/* clang-format on */

typedef struct defib_worker defib_worker;

/*
 * Register a worker and start its threads. Everything is copied except what ctx
 * points to. DEFIB_REFUSED: another process uses this spool directory.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_worker_new(const defib_worker_options *options,
                                                      const defib_pool *pools, int npools,
                                                      defib_worker **out, defib_message *message);
/* Works until it is stopped and all its jobs are settled, spooled or released. */
DEFIB_API void defib_worker_run(defib_worker *worker);
/*
 * From any thread, but not from a signal handler. The first call stops claiming
 * and gives handlers the grace period to finish; the second asks them to stop at
 * once.
 */
DEFIB_API void defib_worker_stop(defib_worker *worker);
/* Change pool `pool` (from 0); both numbers are at least 1. From any thread. */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_worker_resize(defib_worker *worker, int pool,
                                                         int64_t concurrency, int64_t poll_ms);
DEFIB_API DEFIB_MUST_CHECK defib_err defib_worker_counts(defib_worker *worker, defib_counts *out);
/* After defib_worker_run() has returned. NULL is allowed. */
DEFIB_API void defib_worker_free(defib_worker *worker);

/* ---- watches: stuck jobs in tables of your own ---- */

/*
 * Watches as in a configuration file (docs/configuration.md). Each call below opens the sessions
 * it needs and closes them. For one thread at a time; several handles may be used at once.
 */
typedef struct defib_watches defib_watches;

/* `url`: the database of all watches. NULL: the configuration names its databases. */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_watches_new(const char *url, defib_watches **out,
                                                       defib_message *message);
/* Read a configuration from a file or a string; it replaces everything loaded or set before. */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_watches_load_file(defib_watches *watches,
                                                             const char *path,
                                                             defib_message *message);
DEFIB_API DEFIB_MUST_CHECK defib_err defib_watches_load_string(defib_watches *watches,
                                                               const char *yaml,
                                                               defib_message *message);
/*
 * Set one option of a watch; a watch of a new name is added. A value that begins with [ or { is
 * read as YAML. Options are checked together, by the next call that uses them.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_watches_set(defib_watches *watches, const char *watch,
                                                       const char *key, const char *value,
                                                       defib_message *message);
/* The name of watch i, from 0; NULL: there is none, or the options are invalid. */
DEFIB_API const char *defib_watches_name(defib_watches *watches, int i);
DEFIB_API void defib_watches_free(defib_watches *watches); /* NULL is allowed */

/* One job, its verdict, and what was done. Texts are valid during the callback; NULL: none. */
typedef struct defib_finding {
	size_t size;
	const char *watch, *job;  /* of a composite key: a JSON array of its parts */
	const char *owner, *kind; /* as the row says */
	const char *verdict;      /* "dead", "silent", …; "none": not stuck */
	const char *rule, *why;   /* the rule that gave the verdict, and what it says */
	const char *remedy;       /* as rules of a watch name it: "requeue", "hold", … */
	const char *remedy_rule;  /* the rule that chose it */
	const char *reason;       /* as it is written into the row */
	const char *evidence;     /* JSON, as in the ledger */
	const char *outcome;      /* "left", "recovered", "held", "changed", "locked", … */
	const char *refusal;      /* why the database or a guard refused it */
} defib_finding;
typedef void (*defib_finding_call)(void *ctx, const defib_finding *finding);

typedef struct defib_result {
	size_t size;
	int64_t found;     /* jobs that were reported */
	int64_t recovered; /* requeued, retried, failed, rolled back, released, undone */
	int64_t held;      /* put on hold, or already on hold */
	int64_t left;      /* not changed: a dry run, or only reported */
	int64_t changed, locked, refused, missing; /* left alone, each with its reason */
	char batch[64];                            /* for defib_undo(); "" when nothing was written */
} defib_result;
/* clang-format off */
#define DEFIB_RESULT_INIT {sizeof(defib_result), 0, 0, 0, 0, 0, 0, 0, 0, ""}
/* clang-format on */

typedef struct defib_act_options {
	size_t size;
	int fix;            /* other than 0: change the jobs; 0: only report what would be done */
	int64_t limit;      /* of a scan: jobs found; 0: as the watch says */
	const char *remedy; /* of a scan: used for every stuck job instead of the watch's rules */
	const char *step;   /* of a retry: the step to begin at */
	const char *reason; /* NULL: the watch's own */
	const char *actor;  /* the actor in the ledger; "library" */
	int override_guard; /* other than 0: also a job whose worker is alive, and despite the brake */
	defib_finding_call finding; /* called for each job, by the calling thread; may be NULL */
	void *ctx;
	int running_only; /* of an act: other than 0: refuse jobs that are not, or no longer, running */
	/* Of an act that was decided earlier: whether its job is still the one that was meant. */
	const char *database; /* refuse another one than this (defib_database()); NULL: any */
	int64_t quiet_ms;     /* refuse jobs that gave a sign of life within this time, or none */
} defib_act_options;
/* clang-format off */
#define DEFIB_ACT_OPTIONS_INIT {sizeof(defib_act_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/*
 * In all of these, `watch` may be NULL if there is only one watch, `options` may be NULL for a dry
 * run without callbacks, and `result` may be NULL. Writes are guarded: a job that has changed since
 * it was judged is left alone. A failure of one job is its outcome; an error that is returned
 * concerns all of them.
 */

/*
 * One pass over a watch: find stuck jobs and, with `fix`, recover them, as `defib scan` does: one
 * look is enough, and a pause does not apply. DEFIB_REFUSED: the brake of the daemon that leads the
 * watch is on, and `override_guard` is not set.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_scan(defib_watches *watches, const char *watch,
                                                const defib_act_options *options,
                                                defib_result *result, defib_message *message);
/* Why a job is, or is not, stuck and what a scan would do. DEFIB_NOT_FOUND: no such row. */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_explain(defib_watches *watches, const char *watch,
                                                   const char *job, defib_finding_call finding,
                                                   void *ctx, defib_message *message);
/*
 * End a job, by the watch's `end`, for an endpoint that has checked who asks. DEFIB_OK: it is
 * marked as ending, or it was ending or had ended before, and nothing was written. DEFIB_NOT_FOUND:
 * no such row. DEFIB_LOCKED: another transaction holds the row.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_end(defib_watches *watches, const char *watch,
                                               const char *job, const char *reason,
                                               const char *actor, defib_message *message);
/*
 * The id of a watch's database. It is drawn when defib's tables are made, so another database under
 * the same URL has another one. DEFIB_NOT_FOUND: the tables do not exist.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_database(defib_watches *watches, const char *watch,
                                                    char id[64], defib_message *message);
/* Do an act to n jobs, by the name of its command: "requeue", "hold", "release", … */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_act(defib_watches *watches, const char *watch,
                                               const char *act, const char *const *jobs, int n,
                                               const defib_act_options *options,
                                               defib_result *result, defib_message *message);
/*
 * Undo a batch (`batch` of a result), for those jobs that were not claimed or changed since. An
 * undone job is on hold until its owner or sign of life changes, or it is released.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_undo(defib_watches *watches, const char *watch,
                                                const char *batch, const defib_act_options *options,
                                                defib_result *result, defib_message *message);
/*
 * Clean up the jobs of instances that have ended, by the watch's `startup`; does nothing if that
 * is off. Call it at start, before your own workers claim. It always writes. It takes every running
 * job only if instances of the watch were registered before and none of them is alive. If no
 * instance ever registered, the workers may be foreign and alive: young jobs are left to their
 * threshold. To treat all of them as left behind, start an instance (defib_instance_start).
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_startup(defib_watches *watches, const char *watch,
                                                   defib_result *result, defib_message *message);

/* ---- an instance: your own code works on your own table ---- */

typedef struct defib_instance_options {
	size_t size;
	/* Required, all in one database. They must outlive the instance and stay unchanged. */
	defib_watches *watches;
	const char *const *names; /* which of them; nnames 0: all */
	int nnames;
	const char *name; /* a stable name; default: host and process */
	int64_t lease_ms; /* 15000; from 600 to 86400000 */
} defib_instance_options;
/* clang-format off */
#define DEFIB_INSTANCE_OPTIONS_INIT {sizeof(defib_instance_options), 0, 0, 0, 0, 0}
/* clang-format on */

typedef struct defib_instance defib_instance;

/*
 * Register this process as an instance that works on the watches, and clean up the jobs of
 * instances that have ended, by each watch's `startup` (`result` may be NULL). With no other live
 * instance, every running job was left behind. Call it at start, before your own code claims. Until
 * it is stopped, its threads renew its lease, and recover stuck jobs of the watches as a worker
 * does. Jobs with heartbeats (defib_beat_start) are its own, and are recovered when it dies.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_instance_start(const defib_instance_options *options,
                                                          defib_instance **out,
                                                          defib_result *result,
                                                          defib_message *message);
/*
 * How long to wait before your code asks for a session of its own, in ms; 0: ask now, and report
 * the result. After five failures in a row the wait grows with each failure, up to 30 s. This call
 * and the next may come from any thread.
 */
DEFIB_API int64_t defib_instance_wait_ms(defib_instance *instance);
/* Report whether it got the session (`got` is 0 if not); counted in the metrics. */
DEFIB_API void defib_instance_session(defib_instance *instance, int got);
/* The instance leaves. NULL is allowed. */
DEFIB_API void defib_instance_stop(defib_instance *instance);

/* ---- the ledger ---- */

typedef struct defib_ledger_filter {
	size_t size;
	const char *watch, *job, *event, *actor, *batch; /* NULL: any */
	int64_t after_id;                                /* only entries with a higher id */
	int64_t limit;                                   /* 10000 */
	int newest_first;
} defib_ledger_filter;
/* clang-format off */
#define DEFIB_LEDGER_FILTER_INIT {sizeof(defib_ledger_filter), 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

/* Texts are valid during the callback; NULL: none. */
typedef struct defib_ledger_entry {
	size_t size;
	int64_t id;
	const char *at; /* ISO 8601, UTC */
	const char *batch, *watch, *job, *event, *actor, *verdict, *rule, *reason;
	const char *evidence, *before, *after; /* JSON */
} defib_ledger_entry;

/* Entries in the order of their ids; none if the database has no ledger. */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_ledger_read(
	defib_db *db, const defib_ledger_filter *filter,
	void (*entry)(void *ctx, const defib_ledger_entry *entry), void *ctx, defib_message *message);

/* ---- a heartbeat for a job of your own table ---- */

typedef struct defib_beat_options {
	size_t size;
	const char *url; /* required; heartbeats have a session of their own */
	const char
		*statement; /* required: an UPDATE or INSERT that writes one heartbeat, with $1, $2, … */
	const char *const *params; /* their values */
	int nparams;
	int64_t every_ms; /* 30000 */
	int tries;        /* attempts per heartbeat; 4: three retries */
	int64_t retry_ms; /* between two attempts; 5000 */
	/*
	 * Called by the heartbeat's thread. DEFIB_LEASE_LOST: the statement wrote no row, so the job
	 * has another owner, and heartbeats have ended. Another error: all attempts at one heartbeat
	 * failed; the next heartbeat follows as scheduled.
	 */
	void (*failed)(void *ctx, defib_err err, const defib_message *message);
	void *ctx;
	/*
	 * Instead of a URL and a statement: a job of a watch. Each heartbeat runs the statements of
	 * `work.beat` for this job, or without them sets the column of `alive_at`; the end runs those
	 * of `work.after`. DEFIB_LEASE_LOST: the row is no longer running, or has another owner. The
	 * watches must outlive the heartbeat, and cannot be changed meanwhile. The default of every_ms
	 * is the watch's `beat`. If an instance of this process works on the watch, and the watch has
	 * `work`, the job is the instance's while its heartbeats go on, and is recovered when the
	 * instance dies: write the job's end before you stop its heartbeats.
	 */
	defib_watches *watches;
	const char *watch;    /* NULL: the only one */
	const char *key;      /* required */
	const char *worker;   /* a name; default: host and process */
	const char *step;     /* NULL: none */
	const char *metadata; /* a JSON object; NULL: none */
} defib_beat_options;
/* clang-format off */
#define DEFIB_BEAT_OPTIONS_INIT                                                                    \
	{sizeof(defib_beat_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/* clang-format on */

typedef struct defib_beat defib_beat;

/* Write the first heartbeat, then more in a thread. Everything is copied except what ctx points to.
 */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_beat_start(const defib_beat_options *options,
                                                      defib_beat **out, defib_message *message);
/* For a watch: set step and metadata; written at once. DEFIB_USAGE: not a JSON object. */
DEFIB_API DEFIB_MUST_CHECK defib_err defib_beat_step(defib_beat *beat, const char *step,
                                                     const char *metadata);
/* From any thread except the heartbeat's own. When it returns, no heartbeat follows. NULL is
 * allowed.
 */
DEFIB_API void defib_beat_stop(defib_beat *beat);
/*
 * The same, but the job is left running because the program stops. It stays the job of this
 * process's instance, and is recovered when that ends.
 */
DEFIB_API void defib_beat_leave(defib_beat *beat);

#ifdef __cplusplus
}
#endif
#endif
