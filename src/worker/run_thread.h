/*
 * run_thread.h: handlers in a pool of threads. A handler that will not stop
 * cannot be killed: the worker gives up on it after the grace and exits.
 */
#ifndef WORKER_RUN_THREAD_H
#define WORKER_RUN_THREAD_H

#include "worker/worker.h"

struct threads;

struct threads_options {
	int count;
	struct hand *hand;
	/* Called from a thread of the pool when a handler has returned. */
	void (*ended)(void *ctx, struct hand_job *j);
	void *ctx;
};

MUST_CHECK defib_err threads_start(const struct threads_options *o, struct threads **out,
                                   struct failure *f);
/* Run a job; `pool` tells the handler. Never blocks. */
void threads_add(struct threads *t, struct hand_job *j, const struct worker_pool *pool);
/* Ends the threads after what they run now. NULL is allowed. */
void threads_stop(struct threads *t);

#endif
