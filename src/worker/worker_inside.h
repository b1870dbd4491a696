/* SPDX-License-Identifier: Apache-2.0
 * worker_inside.h: what the files of the worker share.
 *
 * worker.c        making, running and ending one; the caller's thread: children and time limits;
 *                 what it says of itself at each renewal of its lease
 * worker_jobs.c   jobs from their start, in a child or a handler, to their end
 * worker_turns.c  the thread that turns: tells the engine what happened and does what it says
 * turns.c         a turn, as calls of the database; the list of jobs that are over
 * spooling.c      results that the database could not take
 * life_thread.c   the thread that proves its life and notices the death of others
 * run_thread.c    handlers in threads
 *
 * The engine and the session belong to the thread that turns; children, and all that is not
 * said to be shared, to the thread that calls worker_run().
 */
#ifndef WORKER_WORKER_INSIDE_H
#define WORKER_WORKER_INSIDE_H

#include "base/clock.h"
#include "life/lease.h"
#include "recover/scan.h"
#include "store/store.h"
#include "worker/engine.h"
#include "worker/job.h"
#include "worker/queue.h"
#include "worker/run_child.h"
#include "worker/source.h"
#include "worker/spools.h"
#include "worker/stored_jobs.h"
#include "worker/worker.h"
#include "worker/workflow.h"

#include <pthread.h>

/* A child at work, or between two tries. */
struct run {
	struct child *child; /* NULL: it got no session, and is tried again when it is due */
	struct job *job;
	int at; /* in worker.runs */
	int64_t due_ms;
	int unserved; /* tries without a session */
};

/* How many children of a pool run, and may. */
struct places {
	int running;       /* the caller's thread alone counts them */
	atomic_llong most; /* set by the thread that turns */
};

/* A new size of a pool that the engine has not heard of. */
struct resize {
	bool wanted;
	int64_t concurrency, poll_ms;
};

/* What other threads have to tell the engine; guarded by the worker's lock. */
struct messages {
	bool woken, compare, progress;
	int stops;
	int served, unserved; /* jobs that got the session that they need, or did not */
	int able, lacking;    /* programs that this host could start, or could not */
	struct resize *resizes;
};

/* What the spools hold, for others to read. */
struct spool_news {
	int64_t waiting, bytes;
	int64_t set_aside;  /* results that the database refused */
	char why[256];      /* source and reason of the first of them */
	char unserved[256]; /* sources with something in the spool that nobody here serves */
};

/* ---- jobs that are over ---- */

/*
 * Jobs that are over, from those who ran them to the one who turns, without a lock.
 *
 * The one who takes them sleeps until enough are there. It says how many that is before it
 * looks again how many there are, and whoever pushes counts its job before it reads that
 * number: so one of the two always sees the other, and no wake-up is lost.
 */

struct ended {
	_Atomic(struct job *) last; /* the newest first, linked by `queued` */
	atomic_llong pushed;        /* how many were not taken yet */
	atomic_llong wake_at;       /* it sleeps until so many are there */
	int event;                  /* eventfd: made readable to wake it */
};

/* DEFIB_IO when there is no descriptor to be had. */
MUST_CHECK defib_err ended_open(struct ended *e, struct failure *f);
void ended_close(struct ended *e);
/* From any thread. */
void ended_push(struct ended *e, struct job *j);
/* Wake it whatever is there. */
void ended_wake(struct ended *e);
/* All that are there, in the order of their ends, linked by `queued`. */
struct job *ended_take(struct ended *e);
/* About to sleep until `enough` (1 at least) are there: false: they are there already. */
bool ended_may_sleep(struct ended *e, int64_t enough);
/* Awake again; it looks by itself from now on. */
void ended_awake(struct ended *e);

/* ---- the worker ---- */

/* The thread that turns. */
struct turn_thread {
	pthread_t thread;
	bool started;
	struct session session;
	int64_t opened;    /* of the session, when it was last looked at */
	int64_t reopen_ms; /* when a lost session is tried for again */
	int64_t timeline;  /* of the server, as last seen */
	bool failed_over;  /* it changed, and the engine has not heard of it */
	struct wake *wake;
	struct spools *spools; /* NULL: none */
	struct stored_jobs_timer stored;
	int64_t worker; /* what the engine was told of our life */
	int64_t locked; /* whose lock the session was asked to hold; 0: nobody's */
	enum lease_contact contact;
	struct chance chance;
	bool nudge; /* the caller's thread has something to hear of */
	struct ended ended;
};

struct worker {
	struct worker_options options;
	struct engine *engine;
	struct turn_thread turn_thread;
	struct life_thread *life;
	struct threads *threads;
	struct keeper *keeper;
	struct source **sources; /* one a pool */
	int *same_jobs;          /* of each pool: the first one that has the same jobs */
	struct places *places;   /* one a pool */
	struct run **runs;
	int nruns, cap_runs;
	int epoll, event;
	int64_t started_us;   /* wall clock */
	int64_t host_told_ms; /* until then what this host lacks is not said again */
	atomic_bool finished;
	/* shared */
	pthread_mutex_t lock;
	struct messages messages;
	struct job *begin, **begin_end; /* jobs that a child is to be started for */
	struct engine_counts counts;    /* as of the last turn */
	struct spool_news spooled;
	struct job_times ran; /* jobs that ended by themselves */
	int stops;
	bool stop_asked; /* jobs were asked to stop: their runners must hear of it */
};

/* worker.c */
void worker_wake(struct worker *w);
bool worker_stopping(struct worker *w);

/* worker_jobs.c */
/* Run a job, from the thread that turns: a handler's waits for a thread, a child's for
 * worker_run(). */
void jobs_start(struct worker *w, struct job *j);
/* Hand back those of a pool that wait to be started. */
void jobs_return(struct worker *w, int pool);
/*
 * Start some of the children that wait to be and that there is a place for. True: there may be
 * more, to be started when it was seen which have ended, so that ends are recorded while others
 * start.
 */
bool jobs_begin(struct worker *w, int64_t now);
void jobs_step_child(struct worker *w, struct run *r, int64_t now);
/* Children that are due, or all of them. When the next one is due. */
int64_t jobs_step_children(struct worker *w, int64_t now, bool all);
/*
 * Handlers that are over their time limit or will not stop. `stop_asked`: some were asked to stop
 * since the last step. When to look again.
 */
int64_t jobs_step_handlers(struct worker *w, int64_t now, bool stop_asked);
/* Callbacks of the threads: a handler returned, has said something, or will not stop. */
void jobs_on_handler_ended(void *ctx, struct job *j);
void jobs_on_progress(void *ctx);
void jobs_on_stuck(void *ctx, const struct job *j, int64_t asked_ms_ago);

/* worker_turns.c */
MUST_CHECK defib_err turn_thread_open(struct worker *w, struct failure *f);
MUST_CHECK defib_err turn_thread_start(struct worker *w, struct failure *f);
/* Wait for its end: everything in hand is settled, spooled or handed back then. */
void turn_thread_join(struct worker *w);
void turn_thread_release(struct worker *w);
/* A job is over, from any thread: the engine hears of it soon. */
void turn_thread_over(struct worker *w, struct job *j);
/* The messages have changed. */
void turn_thread_wake(struct worker *w);

/* turns.c */
void turns_do(struct worker *w, struct turn *t);
MUST_CHECK defib_err turns_ready(struct worker *w, struct failure *f);
/* The ends of a part by themselves; p->why says of each what its row is to blame for. */
MUST_CHECK defib_err turns_settle(struct worker *w, struct turn_part *p, struct arena *a,
                                  struct failure *f);

/* spooling.c */
MUST_CHECK defib_err turns_spool_open(struct worker *w, struct failure *f);
void turns_spool_news(const struct worker *w, struct spool_news *out);
/* Is the end of this claim kept? Then its job is not forgotten. */
bool turns_spool_holds(const struct worker *w, int pool, int64_t worker, const char *key,
                       int64_t epoch);
/* Tell the engine how much waits in each spool. */
void turns_spool_tell(struct worker *w, int64_t now_us);
/*
 * Offer what waits for the sources of `pool` and of others with the same jobs, oldest first, and
 * what was set aside when it is due. How much still waits.
 */
int64_t turns_spool_drain(struct worker *w, int pool);
/* After a fail-over: set-aside ends of the claimer that are not among what it has. */
void turns_spool_forget(struct worker *w, const struct turn_part *p);
/* Whether what was set aside is to be offered again. */
bool turns_spool_due(const struct worker *w, int pool);
/* A pool's source has taken ends: what it refused before may be welcome now. */
void turns_spool_taken(struct worker *w, int pool);
/* Keep the ends of `j` and those behind it, which are of one source; kept[i] says which were. */
void turns_spool_keep(struct worker *w, struct job *j, const struct failure *why, bool *kept,
                      struct failure *f);

/* ---- handlers in threads ---- */

/*
 * Handlers in a pool of threads. A thread cannot be killed: a
 * handler is asked to stop, and one that does not within its grace is reported
 * as stuck, after which only the end of the process helps.
 */

struct threads;

struct threads_options {
	int count;
	/* Called from a thread of the pool, or by threads_return(): the job is over. */
	void (*ended)(void *ctx, struct job *j);
	/* Called from a thread of the pool: a handler with a time limit begins. */
	void (*began)(void *ctx);
	/* Called from a thread of the pool: a job has said something of its progress. */
	void (*said)(void *ctx);
	/* Called by threads_look(), once a job: its handler does not stop. */
	void (*stuck)(void *ctx, const struct job *j, int64_t asked_ms_ago);
	void *ctx;
};

MUST_CHECK defib_err threads_start(const struct threads_options *o, struct threads **out,
                                   struct failure *f);
/*
 * Run a job; `pool` tells the handler, `step` that of a workflow or NULL. Never blocks. Jobs are
 * handed over together by threads_go(), from the same thread.
 */
void threads_add(struct threads *t, struct job *j, const struct worker_pool *pool,
                 const struct workflow_step *step);
void threads_go(struct threads *t);
/* End what waits for a thread: all of it as released, or what was asked to stop. */
void threads_return(struct threads *t, bool all);
/* Ask those to stop that must, running or not. True: there were some. */
bool threads_ask(struct threads *t, bool (*must)(void *ctx, const struct job *j), void *ctx);
/* Ask handlers over their time limit to stop; report the stuck. When to look again. */
int64_t threads_look(struct threads *t, int64_t now_ms);
/* Ends the threads after what they run now. NULL is allowed. */
void threads_stop(struct threads *t);

/* ---- the thread of its life ---- */

/*
 * The thread of a worker that proves its own life and notices the
 * death of others, on a session of its own.
 *
 * It decides nothing: it asks, watches and tells as the step function of a life says
 * (life/life.h). What the dead had in hand goes through the same pipeline as every
 * other stuck job (sweeper.h).
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
	 * How long most of those who were seen beating are not declared dead when they
	 * fall silent at once; 0: 10 minutes, below 0: they always are.
	 */
	int64_t brake_ms;
	bool no_startup; /* no cleanup after dead instances in watches[1…] */
	/*
	 * Called from this thread. `holding`: how many jobs the worker has in hand.
	 * `taken`: we were declared dead; all in hand is lost, and a new incarnation is about to be
	 * registered. `compare`: the database says that we have more jobs than that. `wake`: there
	 * may be work, or our contact has changed.
	 */
	int64_t (*holding)(void *ctx);
	void (*taken)(void *ctx);
	void (*compare)(void *ctx);
	void (*wake)(void *ctx);
	/* What the worker says of itself at each renewal, a JSON object; may add nothing. */
	void (*info)(void *ctx, struct buf *out);
	void *ctx;
};

/*
 * Registers the worker, cleans up after dead instances (watches[0], whose
 * workers all register, needs no such care), and starts the thread.
 */
MUST_CHECK defib_err life_thread_start(const struct life_thread_options *o,
                                       struct life_thread **out, struct failure *f);
/* The id of the present incarnation; 0 while a dead one is not registered anew. */
int64_t life_thread_worker(struct life_thread *w);
enum lease_contact life_thread_contact(struct life_thread *w);
/* When the lease of the present incarnation is over by our own clock; 0: there is none. */
int64_t life_thread_ends_ms(struct life_thread *w);
/* Ends the thread; `leave` says goodbye in the registry. NULL is allowed. */
void life_thread_stop(struct life_thread *w, bool leave);

#endif
