/* SPDX-License-Identifier: Apache-2.0
 * life_thread.h: the thread of a worker that proves its own life and notices the
 * death of others, on a session of its own.
 *
 * It decides nothing: it asks, watches and tells as the step function of a life says
 * (life/life.h). What the dead had in hand goes through the same pipeline as every
 * other stuck job (sweeper.h).
 */
#ifndef WORKER_LIFE_THREAD_H
#define WORKER_LIFE_THREAD_H

#include "life/lease.h"
#include "recover/scan.h"
#include "worker/source.h"

#include <pthread.h>

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
	 * How long most of those who were seen beating are not declared dead when they
	 * fall silent at once; 0: 10 minutes, below 0: they always are.
	 */
	int64_t brake_ms;
	bool no_startup; /* no cleanup after dead instances in watches[1…] */
	/*
	 * Called from this thread. `holding`: how many jobs the worker has in hand.
	 * `taken`: we were declared dead; all in hand is lost, and a new incarnation is about to be
	 * registered. `compare`: the database says that we have more jobs than that. `wake`: there
	 * may be work, or our contact has changed.
	 */
	int64_t (*holding)(void *ctx);
	void (*taken)(void *ctx);
	void (*compare)(void *ctx);
	void (*wake)(void *ctx);
	/* What the worker says of itself at each renewal, a JSON object; may add nothing. */
	void (*info)(void *ctx, struct buf *out);
	void *ctx;
};

/*
 * Registers the worker, cleans up after dead instances (watches[0], whose
 * workers all register, needs no such care), and starts the thread.
 */
MUST_CHECK defib_err life_thread_start(const struct life_thread_options *o,
                                       struct life_thread **out, struct failure *f);
/* The id of the present incarnation; 0 while a dead one is not registered anew. */
int64_t life_thread_worker(struct life_thread *w);
enum lease_contact life_thread_contact(struct life_thread *w);
/* Ends the thread; `leave` says goodbye in the registry. NULL is allowed. */
void life_thread_stop(struct life_thread *w, bool leave);

#endif
