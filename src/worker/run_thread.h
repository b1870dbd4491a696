/* SPDX-License-Identifier: Apache-2.0
 * run_thread.h: handlers in a pool of threads. A thread cannot be killed: a handler is asked to
 * stop, and one that does not within its grace is reported as stuck. Then only ending the process
 * helps.
 */
#ifndef WORKER_RUN_THREAD_H
#define WORKER_RUN_THREAD_H

#include "worker/worker.h"
#include "worker/workflow.h"

struct threads;

struct threads_options {
	int count;
	/* Called from a thread of the pool, or by threads_return(): the job has ended. */
	void (*ended)(void *ctx, struct job *j);
	/* Called from a thread of the pool: a handler with a time limit begins. */
	void (*began)(void *ctx);
	/* Called from a thread of the pool: a job has reported progress. */
	void (*on_progress)(void *ctx);
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

#endif
