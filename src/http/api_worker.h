/* SPDX-License-Identifier: Apache-2.0
 * api_worker.h: register, beat, leave; and who owns a worker. A registration returns a secret, of
 * which only the hash is stored. A caller that acts for the worker sends it
 * (Defib-Worker-Secret), so an operator's token alone cannot end workers of others or settle their
 * jobs. An admin may; if that affects a job, it is in the ledger.
 */
#ifndef HTTP_API_WORKER_H
#define HTTP_API_WORKER_H

#include "http/api.h"

/* Where jobs come from: {"queue": …, "kinds": […]} or {"watch": …}; NULL after a problem. */
struct source *api_source_named(struct api_call *c);
/* A worker that was declared dead gets 410; if queue tables are missing, says so. */
bool api_worker_failed(struct api_call *c, struct failure *f);
/* Any JSON as the text that was sent; NULL: absent or null. In the call's arena. */
const char *api_json_as_sent(struct api_call *c, const json_t *value);

#define WORKER_SECRET_HEADER "Defib-Worker-Secret"
#define WORKER_SECRET_BYTES 65 /* hexadecimal, including the terminating 0 */

/*
 * The worker of the path, if the caller may act for it; false after answering with a problem. `own`
 * is false if an admin acts in its name. A worker that does not exist is let through: the caller
 * gets the answer that it is gone.
 */
bool api_worker_allowed(struct api_call *c, int64_t *id, bool *own);

/* Jobs of a watch on which an admin acts in a worker's name. */
struct in_its_name {
	int64_t worker;
	const char *watch;       /* NULL: the built-in queue */
	const char *act;         /* "ended the worker", "settled", "claimed" */
	const char *const *jobs; /* none: "*" */
	int n;
};
/* The same, in a transaction of its own. */
MUST_CHECK defib_err api_worker_note(struct api_call *c, const struct in_its_name *what,
                                     struct failure *f);

#endif
