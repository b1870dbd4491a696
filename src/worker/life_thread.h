/* SPDX-License-Identifier: Apache-2.0
 * life_thread.h: the thread of a worker that renews its lease and detects dead workers, on a
 * session of its own.
 *
 * It decides nothing: it carries out what the step function in life/life.h says. Jobs of dead
 * workers go through the same pipeline as every other stuck job (sweeper.h).
 */
#ifndef WORKER_LIFE_THREAD_H
#define WORKER_LIFE_THREAD_H

#include "recover/scan.h"
#include "worker/worker.h"

struct life_thread;

struct life_thread_options {
	struct store_options store;
	const char *name; /* of the worker */
	struct source **sources;
	int nsources;
	const struct watch **watches; /* whose jobs are recovered: watches[0] is the built-in queue */
	int nwatches;
	const struct retention *retention; /* see sweeper.h */
	struct lease_rules lease;
	/*
	 * If most of the workers seen beating fall silent at once, how long they are not declared dead;
	 * 0: 10 minutes, below 0: no delay.
	 */
	int64_t brake_ms;
	bool no_startup; /* no cleanup after dead instances in watches[1…] */
	/* Out: the sums of that cleanup, whose failure is then the result; NULL: it is only logged. */
	struct startup_result *cleaned;
	/*
	 * Called from this thread. `holding`: how many jobs the worker has in hand. `taken`: we were
	 * declared dead; all jobs in hand are lost, and a new incarnation is about to register.
	 * `compare`: the database says that we have more jobs than that. `wake`: there may be new jobs,
	 * or our contact has changed.
	 */
	int64_t (*holding)(void *ctx);
	void (*taken)(void *ctx);
	void (*compare)(void *ctx);
	void (*wake)(void *ctx);
	/* The worker's description of itself for each renewal, a JSON object; may add nothing. */
	void (*info)(void *ctx, struct buf *out);
	void *ctx;
};

/*
 * Registers the worker, cleans up after dead instances (not in watches[0], whose workers all
 * register), and starts the thread.
 */
MUST_CHECK defib_err life_thread_start(const struct life_thread_options *o,
                                       struct life_thread **out, struct failure *f);
/* The id of the current incarnation; 0 from its death until the next is registered. */
int64_t life_thread_worker(struct life_thread *w);
enum lease_contact life_thread_contact(struct life_thread *w);
/* When the lease of the current incarnation expires by our own clock; 0: there is none. */
int64_t life_thread_ends_ms(struct life_thread *w);
/* Ends the thread; `leave` marks the worker as left in the registry. NULL is allowed. */
void life_thread_stop(struct life_thread *w, bool leave);

#endif
