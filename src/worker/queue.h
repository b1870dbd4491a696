/* SPDX-License-Identifier: Apache-2.0
 * queue.h: enqueues and cancels jobs of the built-in queue.
 */
#ifndef WORKER_QUEUE_H
#define WORKER_QUEUE_H

#include "recover/bound.h"
#include "recover/candidate.h"
#include "worker/source.h"

/* Limits of the columns of defib.job; no priority is above the start of a claim's floor. */
#define PRIORITY_LEAST (-32768)
#define PRIORITY_MOST 32766
#define ATTEMPTS_MOST INT32_MAX
#define TIMEOUT_MOST_MS INT32_MAX /* nearly 25 days */

struct enqueue {
	const char *queue, *kind;
	const char *payload; /* JSON or NULL */
	int64_t delay_ms, priority;
	int64_t max_attempts;   /* 0: 5 */
	int64_t timeout_ms;     /* 0: none */
	const char *unique_key; /* NULL: none */
	const char *tags;       /* JSON array of texts, or NULL */
};

/* DEFIB_USAGE if a number is beyond these limits; enqueue_jobs() checks it too. */
MUST_CHECK defib_err enqueue_check(const struct enqueue *job, struct failure *f);
/*
 * Enqueue jobs in a transaction of its own, or in the caller's if one is open. ids (n) gets their
 * ids; for a unique key that is already waiting or running, the id of that job. On success each has
 * one. Wake workers with wake_send() after the commit.
 */
MUST_CHECK defib_err enqueue_jobs(struct store *s, const struct enqueue *jobs, int n, int64_t *ids,
                                  struct failure *f);
/*
 * The same outside a transaction, followed by wake_send(): in one round trip if the engine can do
 * that.
 */
MUST_CHECK defib_err enqueue_and_wake(struct store *s, const char *url, const struct enqueue *jobs,
                                      int n, int64_t *ids, struct failure *f);
/*
 * Cancel a waiting job or ask a running one to stop, in the caller's transaction if one is open.
 * *state is its new state, "" if it was over.
 */
MUST_CHECK defib_err cancel_job(struct store *s, int64_t id, char state[16], struct failure *f);

#endif
