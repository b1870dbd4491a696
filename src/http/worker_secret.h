/* SPDX-License-Identifier: Apache-2.0
 * worker_secret.h: whose a worker is that speaks HTTP.
 *
 * A registration answers a secret, of which only the hash is kept. Who acts for the worker shows
 * it (Defib-Worker-Secret), so an operator's token alone ends no worker of others and settles none
 * of their jobs. An admin may; where that changes what becomes of a job, it is in the ledger.
 */
#ifndef HTTP_WORKER_SECRET_H
#define HTTP_WORKER_SECRET_H

#include "http/api.h"

#define WORKER_SECRET_HEADER "Defib-Worker-Secret"
#define WORKER_SECRET_BYTES 65 /* hexadecimal, with the 0 at its end */

/* A new one; false: there is no chance to be had. */
bool worker_secret_make(char out[WORKER_SECRET_BYTES]);
/* Keep its hash with the worker, in the transaction that registers it. */
MUST_CHECK defib_err worker_secret_keep(struct store *s, int64_t worker, const char *secret,
                                        struct failure *f);
/*
 * The worker of the path, if the caller may act for it; false after a problem was answered. `own`
 * is false where it is an admin who acts in its name. One that is not there is let through: the
 * caller is to hear that it is gone.
 */
bool worker_allowed(struct api_call *c, int64_t *id, bool *own);

/* Jobs of a watch that an admin does something to in a worker's name. */
struct in_its_name {
	int64_t worker;
	const char *watch;       /* NULL: the built-in queue */
	const char *act;         /* "ended the worker", "settled", "claimed" */
	const char *const *jobs; /* none: "*" */
	int n;
};
/* Note it, inside a transaction. Nothing where the ledger is off. */
MUST_CHECK defib_err worker_note(struct api_call *c, const struct in_its_name *what,
                                 struct failure *f);
/* The same, in a transaction of its own. */
MUST_CHECK defib_err worker_note_alone(struct api_call *c, const struct in_its_name *what,
                                       struct failure *f);

#endif
