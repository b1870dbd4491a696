/* SPDX-License-Identifier: Apache-2.0
 * worker_state.h: the state of a worker, which its files share.
 *
 * worker.c        creation, start and end; the caller's thread: children and time limits; what the
 *                 worker reports about itself at each renewal of its lease
 * worker_jobs.c   jobs from their start, in a child or a handler, to their end
 * worker_turns.c  the turn thread: reports events to the engine and carries out its actions
 * turns.c         a turn, as calls to the database
 * spooling.c      results that the database could not accept
 * life_thread.c   the life thread: renews the lease and detects dead workers
 * run_thread.c    handlers in threads
 * run_lines.c     jobs that a program beside the worker runs; lines.c is its language
 *
 * The engine and the session belong to the turn thread. Children, and everything that is not marked
 * as shared, belong to the thread that calls worker_run().
 */
#ifndef WORKER_WORKER_STATE_H
#define WORKER_WORKER_STATE_H

#include "base/clock.h"
#include "recover/scan.h"
#include "worker/ended.h"
#include "worker/engine.h"
#include "worker/run_child.h"
#include "worker/spools.h"
#include "worker/stored_jobs.h"
#include "worker/wake.h"
#include "worker/worker.h"
#include <pthread.h>

/* A running child, or one between two tries. */
struct child_run {
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

/* The turn thread. */
struct turn_thread {
	pthread_t thread;
	bool started;
	struct session session;
	int64_t opened;    /* of the session, when it was last checked */
	int64_t reopen_ms; /* when to try to reopen a lost session */
	int64_t states;    /* of the session, when it was last checked */
	char database[64]; /* its id; "": not known */
	bool known;        /* it was asked in this session … */
	int64_t known_for; /* … and for this incarnation */
	bool failed_over;  /* the database is in another state, and the engine does not know yet */
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
	struct child_run **runs;
	int nruns, cap_runs;
	int epoll, event;
	int64_t started_us;     /* wall clock */
	int64_t host_logged_ms; /* until then, what this host lacks is not logged again */
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

void worker_wake(struct worker *w);
bool worker_stopping(struct worker *w);

#endif
