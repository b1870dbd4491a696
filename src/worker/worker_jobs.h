/* SPDX-License-Identifier: Apache-2.0
 * worker_jobs.h: a job from its start, in a child or a handler, to its end.
 */
#ifndef WORKER_WORKER_JOBS_H
#define WORKER_WORKER_JOBS_H

#include "worker/worker_state.h"

/* Run a job, from the turn thread: a handler waits for a thread, a child for worker_run(). */
void jobs_start(struct worker *w, struct job *j);
/* Release the jobs of a pool that wait to be started. */
void jobs_return(struct worker *w, int pool);
/*
 * Start some of the waiting children that there is a place for. True: there may be more, to be
 * started after a check for ended ones, so that ends are recorded while others start.
 */
bool jobs_begin(struct worker *w, int64_t now);
void jobs_step_child(struct worker *w, struct child_run *r, int64_t now);
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

#endif
