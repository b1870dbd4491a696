/* SPDX-License-Identifier: Apache-2.0
 * instance.h: a process that works on watches with code of its own, as a member of the registry. It
 * claims nothing here; the heartbeats of its jobs (heartbeat.h) say which are its own. While it is
 * registered, another process that starts knows that running rows
 * may belong to it; when it starts, rows of dead instances are cleaned up (recover/startup.h); and
 * like any worker it takes part in detecting dead workers and recovering stuck jobs.
 *
 * Its code reports whether it got the sessions that it asked for, for the metrics and the breaker.
 */
#ifndef WORKER_INSTANCE_H
#define WORKER_INSTANCE_H

#include "life/lease.h"
#include "recover/startup.h"

struct instance_options {
	const char *name;
	struct store_options store;
	const struct watch **watches; /* [0] is the built-in queue, the others are worked on */
	int nwatches;
	struct lease_rules lease;
};

struct instance;

/* Everything in the options must outlive it. *cleaned: what was done at start. */
MUST_CHECK defib_err instance_open(const struct instance_options *o, struct instance **out,
                                   struct startup_result *cleaned, struct failure *f);
/* A session was asked for, and there was one or not; from any thread. */
void instance_session(struct instance *i, bool got);
/* How long to wait before the next is asked for, in ms; 0: not at all. From any thread. */
int64_t instance_wait_ms(struct instance *i);
/* The worker that it is registered as; 0: declared dead, and not registered again yet. */
int64_t instance_worker(struct instance *i);
void instance_close(struct instance *i); /* leaves; NULL is allowed */

#endif
