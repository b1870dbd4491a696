/* SPDX-License-Identifier: Apache-2.0
 * run_thread.h: handlers in a pool of threads. A thread cannot be killed: a
 * handler is asked to stop, and one that does not within its grace is reported
 * as stuck, after which only the end of the process helps.
 */
#ifndef WORKER_RUN_THREAD_H
#define WORKER_RUN_THREAD_H

#include "worker/worker.h"

struct job;
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
/* Ask handlers over their time limit to stop; report the stuck. When to look again. */
int64_t threads_look(struct threads *t, int64_t now_ms);
/* Ends the threads after what they run now. NULL is allowed. */
void threads_stop(struct threads *t);

#endif
