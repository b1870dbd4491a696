/* SPDX-License-Identifier: Apache-2.0
 * api_worker.h: workers in any language that speak nothing but HTTP: the life of a worker
 * (docs/clients.md) as routes.
 *
 * Such a worker is no process that anybody here can see, and holds no session: only its
 * lease proves its life. Its incarnation says so by being of no host (registry.h), so
 * that nobody looks for its pid or its lock. Calls of one worker may come through
 * different daemons: everything is in the database.
 *
 * api_enqueue.c  jobs into a queue
 * api_worker.c   the routes; register, beat, leave
 * api_work.c     claim, settle, progress
 */
#ifndef HTTP_API_WORKER_H
#define HTTP_API_WORKER_H

#include "http/api.h"
#include "worker/source.h"

/* Where jobs come from: {"queue": …, "kinds": […]} or {"watch": …}; NULL after a problem. */
struct source *source_named(struct api_call *c);
/* The worker of the path; false after a problem was answered. */
bool worker_named(struct api_call *c, int64_t *id);
/* A worker that was declared dead is 410; what the queue misses are its tables. */
bool worker_failed(struct api_call *c, struct failure *f);
/* Any JSON as the text that was sent; NULL: absent or null. In the call's arena. */
const char *json_as_sent(struct api_call *c, const json_t *value);

void call_enqueue(struct api_call *c);
void call_register(struct api_call *c);
void call_beat(struct api_call *c);
void call_leave(struct api_call *c);
void call_claim(struct api_call *c);
void call_settle(struct api_call *c);
void call_progress(struct api_call *c);

#endif
