/* SPDX-License-Identifier: Apache-2.0
 * worker_inside.h: what the files of the worker share.
 *
 * worker.c        creation, start and end; the caller's thread: children and time limits; what
 *                 the worker reports about itself at each renewal of its lease
 * worker_jobs.c   jobs from their start, in a child or a handler, to their end
 * worker_turns.c  the turn thread: reports events to the engine and carries out its actions
 * turns.c         a turn, as calls to the database; the list of ended jobs
 * spooling.c      results that the database could not accept
 * life_thread.c   the life thread: renews the lease and detects dead workers
 * run_thread.c    handlers in threads
 * run_lines.c     jobs that a program beside the worker runs; lines.c is its language
 *
 * The engine and the session belong to the turn thread. Children, and everything that is not marked
 * as shared, belong to the thread that calls worker_run().
 */
#ifndef WORKER_WORKER_INSIDE_H
#define WORKER_WORKER_INSIDE_H

#include "base/clock.h"
#include "recover/scan.h"
#include "worker/engine.h"
#include "worker/run_child.h"
#include "worker/spools.h"
#include "worker/stored_jobs.h"
#include "worker/worker.h"
#include "worker/workflow.h"

#include <pthread.h>

/* A running child, or one between two tries. */
struct run {
	struct child *child; /* NULL: it got no session, and is retried when due */
	struct job *job;
	int at; /* in worker.runs */
	int64_t due_ms;
	int unserved; /* tries without a session */
};

/* How many children of a pool run, and may run. */
struct places {
	int running;       /* counted only by the caller's thread */
	atomic_llong most; /* set by the turn thread */
};

/* A new pool size that the engine does not know yet. */
struct resize {
	bool wanted;
	int64_t concurrency, poll_ms;
};

/* Messages of other threads to the engine; guarded by the worker's lock. */
struct messages {
	bool woken, compare, progress;
	int stops;
	int served, unserved; /* jobs that got the session they need, or did not */
	int able, lacking;    /* programs that this host could start, or could not */
	struct resize *resizes;
};

/* The contents of the spools, for other threads. */
struct spool_news {
	int64_t waiting, bytes;
	int64_t set_aside;  /* results that the database refused */
	char why[256];      /* source and reason of the first of them */
	char unserved[256]; /* sources with spooled results that this worker does not serve */
};

/* ---- jobs that are over ---- */

/*
 * Ended jobs, passed without a lock from the threads that ran them to the turn thread.
 *
 * The turn thread sleeps until enough jobs are there. It stores that number before it checks the
 * count again, and a thread that pushes counts its job before it reads the number: so one of the
 * two always sees the other, and no wake-up is lost.
 */

struct ended {
	_Atomic(struct job *) last; /* newest first, linked by `queued` */
	atomic_llong pushed;        /* how many were not taken yet */
	atomic_llong wake_at;       /* it sleeps until this many are there */
	int event;                  /* eventfd: made readable to wake it */
};

/* DEFIB_IO if no descriptor is available. */
MUST_CHECK defib_err ended_open(struct ended *e, struct failure *f);
void ended_close(struct ended *e);
/* From any thread. */
void ended_push(struct ended *e, struct job *j);
/* Wake it regardless of the count. */
void ended_wake(struct ended *e);
/* All that are there, in the order of their ends, linked by `queued`. */
struct job *ended_take(struct ended *e);
/* About to sleep until `enough` (at least 1) are there; false: they are there already. */
bool ended_may_sleep(struct ended *e, int64_t enough);
/* Awake again; it checks by itself from now on. */
void ended_awake(struct ended *e);

/* ---- the worker ---- */

/* The turn thread. */
struct turn_thread {
	pthread_t thread;
	bool started;
	struct session session;
	int64_t opened;    /* of the session, when it was last checked */
	int64_t reopen_ms; /* when to try to reopen a lost session */
	int64_t timeline;  /* of the server, as last seen */
	char database[64]; /* its id; "": not known */
	bool known;        /* it was asked in this session … */
	int64_t known_for; /* … and for this incarnation */
	bool failed_over;  /* it changed, and the engine does not know yet */
	struct wake *wake;
	struct spools *spools; /* NULL: none */
	struct stored_jobs_timer stored;
	int64_t worker; /* what the engine was told about our life */
	int64_t locked; /* the worker whose lock the session was asked to hold; 0: none */
	enum lease_contact contact;
	struct chance chance;
	bool nudge; /* the caller's thread has something to process */
	struct ended ended;
};

struct worker {
	struct worker_options options;
	struct engine *engine;
	struct turn_thread turn_thread;
	struct life_thread *life;
	struct threads *threads;
	struct lines *lines;
	bool client_gone; /* the program at the other end of the lines: what follows has begun */
	struct keeper *keeper;
	struct source **sources; /* one per pool */
	int *same_jobs;          /* for each pool: the first one that has the same jobs */
	struct places *places;   /* one per pool */
	struct run **runs;
	int nruns, cap_runs;
	int epoll, event;
	int64_t started_us;   /* wall clock */
	int64_t host_told_ms; /* until then, what this host lacks is not logged again */
	atomic_bool finished;
	/* shared */
	pthread_mutex_t lock;
	struct messages messages;
	struct job *begin, **begin_end; /* jobs whose child is to be started */
	struct engine_counts counts;    /* as of the last turn */
	struct spool_news spooled;
	struct job_times ran; /* jobs that ended by themselves */
	int stops;
	bool stop_asked; /* jobs were asked to stop: notify their runners */
};

/* worker.c */
void worker_wake(struct worker *w);
bool worker_stopping(struct worker *w);

/* worker_jobs.c */
/* Run a job, from the turn thread: a handler waits for a thread, a child for worker_run(). */
void jobs_start(struct worker *w, struct job *j);
/* Release the jobs of a pool that wait to be started. */
void jobs_return(struct worker *w, int pool);
/*
 * Start some of the waiting children that there is a place for. True: there may be more, to be
 * started after a check for ended ones, so that ends are recorded while others start.
 */
bool jobs_begin(struct worker *w, int64_t now);
void jobs_step_child(struct worker *w, struct run *r, int64_t now);
/* Step the children that are due, or all of them. Returns when the next one is due. */
int64_t jobs_step_children(struct worker *w, int64_t now, bool all);
/*
 * Handlers that exceed their time limit or do not stop. `stop_asked`: some were asked to stop since
 * the last step. Returns when to check again.
 */
int64_t jobs_step_handlers(struct worker *w, int64_t now, bool stop_asked);
/* Callbacks of the threads: a handler returned, reported progress, or does not stop. */
void jobs_on_handler_ended(void *ctx, struct job *j);
void jobs_on_progress(void *ctx);
void jobs_on_stuck(void *ctx, const struct job *j, int64_t asked_ms_ago);
void jobs_on_stuck_client(void *ctx, const struct job *j, int64_t asked_ms_ago);

/* worker_turns.c */
MUST_CHECK defib_err turn_thread_open(struct worker *w, struct failure *f);
MUST_CHECK defib_err turn_thread_start(struct worker *w, struct failure *f);
/* Wait for its end: by then everything in hand is settled, spooled or released. */
void turn_thread_join(struct worker *w);
void turn_thread_release(struct worker *w);
/* A job has ended, from any thread: the engine learns of it soon. */
void turn_thread_over(struct worker *w, struct job *j);
/* The messages have changed. */
void turn_thread_wake(struct worker *w);

/* turns.c */
void turns_do(struct worker *w, struct turn *t);
MUST_CHECK defib_err turns_ready(struct worker *w, struct failure *f);
/* Record the ends of a part alone; p->why gives for each the failure that its row caused. */
MUST_CHECK defib_err turns_settle(struct worker *w, struct turn_part *p, struct arena *a,
                                  struct failure *f);

/* spooling.c */
MUST_CHECK defib_err turns_spool_open(struct worker *w, struct failure *f);
void turns_spool_news(const struct worker *w, struct spool_news *out);
/* Is the end of this claim stored? Then its job is not lost. */
bool turns_spool_holds(const struct worker *w, int pool, int64_t worker, const char *key,
                       int64_t epoch);
/* Report to the engine how much waits in each spool. */
void turns_spool_tell(struct worker *w, int64_t now_us);
/*
 * Offer what waits for the sources of `pool` and of others with the same jobs, oldest first, and
 * what was set aside when it is due. Returns how much still waits.
 */
int64_t turns_spool_drain(struct worker *w, int pool);
/* After a failover: drop set-aside ends of the claimer that do not belong to jobs it has. */
void turns_spool_forget(struct worker *w, const struct turn_part *p);
/* Whether it is time to offer what was set aside again. */
bool turns_spool_due(const struct worker *w, int pool);
/* A pool's source has accepted ends: it may now accept what it refused before. */
void turns_spool_taken(struct worker *w, int pool);
/*
 * Store the ends of `j` and those linked to it, which belong to one source; kept[i] says which were
 * stored.
 */
void turns_spool_keep(struct worker *w, struct job *j, const struct failure *why, bool *kept,
                      struct failure *f);

/* ---- handlers in threads ---- */

/*
 * Handlers in a pool of threads. A thread cannot be killed: a handler is asked to stop, and one
 * that does not within its grace is reported as stuck. Then only ending the process helps.
 */

struct threads;

struct threads_options {
	int count;
	/* Called from a thread of the pool, or by threads_return(): the job has ended. */
	void (*ended)(void *ctx, struct job *j);
	/* Called from a thread of the pool: a handler with a time limit begins. */
	void (*began)(void *ctx);
	/* Called from a thread of the pool: a job has reported progress. */
	void (*said)(void *ctx);
	/* Called by threads_look(), once per job: its handler does not stop. */
	void (*stuck)(void *ctx, const struct job *j, int64_t asked_ms_ago);
	void *ctx;
};

MUST_CHECK defib_err threads_start(const struct threads_options *o, struct threads **out,
                                   struct failure *f);
/*
 * Run a job; `pool` has the handler, `step` is that of a workflow or NULL. Never blocks.
 * threads_go() hands the added jobs over together, from the same thread.
 */
void threads_add(struct threads *t, struct job *j, const struct worker_pool *pool,
                 const struct workflow_step *step);
void threads_go(struct threads *t);
/* End the jobs that wait for a thread: all of them as released, or only those asked to stop. */
void threads_return(struct threads *t, bool all);
/* Ask the jobs to stop that must, running or not. True: there were some. */
bool threads_ask(struct threads *t, bool (*must)(void *ctx, const struct job *j), void *ctx);
/*
 * Ask handlers that exceed their time limit to stop; report the stuck ones. Returns when to check
 * again.
 */
int64_t threads_look(struct threads *t, int64_t now_ms);
/* Ends the threads after the handlers they run now. NULL is allowed. */
void threads_stop(struct threads *t);

/* ---- jobs that a program beside the worker runs ---- */

/*
 * The client gets jobs as lines on `out` and says on `in` how they go and end (docs/lines.md). It
 * is never waited for. If it closes its lines, or is silent for client_timeout_ms while it has
 * jobs, it is gone, and its jobs are lost with this worker.
 */

struct lines;

struct lines_options {
	int in, out;
	int64_t client_timeout_ms; /* 0: none */
	/* Called by lines_step(), or by lines_add() if the client is gone: the job has ended. */
	void (*ended)(void *ctx, struct job *j);
	void (*said)(void *ctx); /* a job has reported progress */
	void (*stop)(void *ctx); /* the client asks the worker to stop */
	/* Called once per job: the client did not stop it. */
	void (*stuck)(void *ctx, const struct job *j, int64_t asked_ms_ago);
	/* Called from any thread: lines_look() has something to do sooner. */
	void (*began)(void *ctx);
	void *ctx;
};

/* *out is set even if it fails. DEFIB_USAGE: these are not pipes, sockets or terminals. */
MUST_CHECK defib_err lines_open(const struct lines_options *o, struct lines **out,
                                struct failure *f);
void lines_ready(struct lines *l, const char *worker, int64_t concurrency);
/* Give a job to the client, from the turn thread; lines_go() sends what was added. */
void lines_add(struct lines *l, struct job *j, const struct worker_pool *pool);
void lines_refused(struct lines *l, const struct job *j);
void lines_go(struct lines *l);
/* A descriptor that becomes readable when lines_step() has something to do. */
int lines_fd(const struct lines *l);
void lines_step(struct lines *l, int64_t now_ms);
/* As threads_look() and threads_ask(). */
int64_t lines_look(struct lines *l, int64_t now_ms, bool stop_asked, bool stopping);
bool lines_ask(struct lines *l, bool (*must)(void *ctx, const struct job *j), void *ctx);
/* When the client was found to be gone; 0: it is there. */
int64_t lines_gone_ms(const struct lines *l);
int lines_held(struct lines *l); /* jobs that the client has */
/* Say how the worker ended. */
void lines_end(struct lines *l, const struct worker_counts *c);
void lines_close(struct lines *l); /* NULL is allowed */

/* ---- the life thread ---- */

/*
 * The thread of a worker that renews its lease and detects dead workers, on a session of its own.
 *
 * It decides nothing: it carries out what the step function in life/life.h says. Jobs of dead
 * workers go through the same pipeline as every other stuck job (sweeper.h).
 */

struct life_thread;

struct life_thread_options {
	struct store_options store;
	const char *name; /* of the worker */
	struct source **sources;
	int nsources;
	const struct watch **watches; /* whose jobs are recovered: watches[0] is the built-in queue */
	int nwatches;
	const struct retention *retention; /* see sweeper.h */
	struct lease_rules lease;
	/*
	 * If most of the workers seen beating fall silent at once, how long they are not declared dead;
	 * 0: 10 minutes, below 0: no delay.
	 */
	int64_t brake_ms;
	bool no_startup; /* no cleanup after dead instances in watches[1…] */
	/* Out: the sums of that cleanup, whose failure is then the result; NULL: it is only logged. */
	struct startup_result *cleaned;
	/*
	 * Called from this thread. `holding`: how many jobs the worker has in hand. `taken`: we were
	 * declared dead; all jobs in hand are lost, and a new incarnation is about to register.
	 * `compare`: the database says that we have more jobs than that. `wake`: there may be new jobs,
	 * or our contact has changed.
	 */
	int64_t (*holding)(void *ctx);
	void (*taken)(void *ctx);
	void (*compare)(void *ctx);
	void (*wake)(void *ctx);
	/* The worker's description of itself for each renewal, a JSON object; may add nothing. */
	void (*info)(void *ctx, struct buf *out);
	void *ctx;
};

/*
 * Registers the worker, cleans up after dead instances (not in watches[0], whose workers all
 * register), and starts the thread.
 */
MUST_CHECK defib_err life_thread_start(const struct life_thread_options *o,
                                       struct life_thread **out, struct failure *f);
/* The id of the current incarnation; 0 from its death until the next is registered. */
int64_t life_thread_worker(struct life_thread *w);
enum lease_contact life_thread_contact(struct life_thread *w);
/* When the lease of the current incarnation expires by our own clock; 0: there is none. */
int64_t life_thread_ends_ms(struct life_thread *w);
/* Ends the thread; `leave` marks the worker as left in the registry. NULL is allowed. */
void life_thread_stop(struct life_thread *w, bool leave);

#endif
