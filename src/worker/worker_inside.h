/* SPDX-License-Identifier: Apache-2.0
 * worker_inside.h: what the files of the worker share.
 *
 * worker.c        making, running and ending one; the caller's thread: children and time limits
 * worker_jobs.c   jobs from their start, in a child or a handler, to their end
 * worker_turns.c  the thread that turns: tells the engine what happened and does what it says
 * turns.c         a turn, as calls of the database; results that it could not take
 * worker_info.c   what it says of itself at each renewal of its lease
 *
 * The engine and the session belong to the thread that turns; children, and all that is not
 * said to be shared, to the thread that calls worker_run().
 */
#ifndef WORKER_WORKER_INSIDE_H
#define WORKER_WORKER_INSIDE_H

#include "base/chance.h"
#include "store/session.h"
#include "worker/ended.h"
#include "worker/engine.h"
#include "worker/life_thread.h"
#include "worker/run_child.h"
#include "worker/run_thread.h"
#include "worker/spools.h"
#include "worker/stored_jobs.h"
#include "worker/wake.h"
#include "worker/worker.h"
#include "worker/worker_info.h"
#include "worker/workflow.h"

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

/* worker_info.c */
void worker_info(void *ctx, struct buf *out);

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
/* Whether what was set aside is to be offered again. */
bool turns_spool_due(const struct worker *w, int pool);
/* A pool's source has taken ends: what it refused before may be welcome now. */
void turns_spool_taken(struct worker *w, int pool);
/* Keep the ends of `j` and those behind it, which are of one source; kept[i] says which were. */
void turns_spool_keep(struct worker *w, struct job *j, const struct failure *why, bool *kept,
                      struct failure *f);

#endif
