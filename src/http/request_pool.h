/* SPDX-License-Identifier: Apache-2.0
 * request_pool.h: runs calls that need a database: a few threads per database, each with its own
 * sessions, behind a bounded queue.
 *
 * No call waits for an unavailable database: while the last attempt failed, or the overview says
 * that it is unavailable, one call per second is let through to try, and every other is answered
 * 503 at once. So is a call that finds the queue full, or that waited in it for longer than the
 * time limit of the database.
 *
 * New jobs are stored instead if http.spool is set (API_SPOOLED): in the queue like any other call,
 * because they are written to a disk.
 */
#ifndef HTTP_REQUEST_POOL_H
#define HTTP_REQUEST_POOL_H

#include "http/api.h"

#define REQUEST_THREADS 4     /* threads per database, started as needed */
#define REQUEST_QUEUE 256     /* calls that wait */
#define REQUEST_RETRY_MS 1000 /* between attempts on an unavailable database */
#define REQUEST_IDLE_MS 30000 /* sessions that were not used for this long are closed */

struct request_pools;

/* One call's place in the queue, in the caller's memory until `done`. */
struct pooled_request {
	struct api_call *call;
	void (*done)(
		void *ctx); /* once, from any thread, possibly before request_pools_put() returns */
	void *ctx;
	int64_t deadline_ms;
	bool away; /* not tried: it must be stored */
	struct pooled_request *next;
};

struct request_pools *request_pools_new(const struct api *api, int64_t timeout_ms);
void request_pools_put(struct request_pools *d, struct pooled_request *t);
/* Call from time to time: answers calls that waited too long, frees pools that a reload closed. */
void request_pools_tick(struct request_pools *d);
/* Answers the waiting calls, lets running ones end; afterwards every call is answered 503. */
void request_pools_close(struct request_pools *d);
void request_pools_free(struct request_pools *d);

#endif
