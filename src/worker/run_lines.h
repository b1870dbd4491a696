/* SPDX-License-Identifier: Apache-2.0
 * run_lines.h: the client gets jobs as lines on `out` and says on `in` how they go and end
 * (docs/lines.md). It is never waited for. If it closes its lines, or is silent for
 * client_timeout_ms while it has jobs, it is gone, and its jobs are lost with this worker.
 */
#ifndef WORKER_RUN_LINES_H
#define WORKER_RUN_LINES_H

#include "worker/worker.h"

struct lines;

struct lines_options {
	int in, out;
	int64_t client_timeout_ms; /* 0: none */
	/* Called by lines_step(), or by lines_add() if the client is gone: the job has ended. */
	void (*ended)(void *ctx, struct job *j);
	void (*on_progress)(void *ctx); /* a job has reported progress */
	void (*stop)(void *ctx);        /* the client asks the worker to stop */
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

#endif
