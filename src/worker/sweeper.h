/* SPDX-License-Identifier: Apache-2.0
 * sweeper.h: the thread of a worker that recovers the jobs of dead workers, on a session of its
 * own. Slow statements of a watch, or the loss of that session, do not delay the renewal of the
 * worker's lease.
 *
 * It decides nothing about workers: the life thread tells it which workers are dead and whether
 * silence proves anything. In the built-in queue it only recovers jobs of dead workers, because
 * silence is judged per worker there (life/silence.h), not per row. Everywhere the daemon's guard
 * applies (guard/guard.h): absence, doubt, brake, second look, pace and overrides. A watch that a
 * daemon leads is left to it. The session is open only while there is something to do.
 */
#ifndef WORKER_SWEEPER_H
#define WORKER_SWEEPER_H

#include "recover/startup.h"

struct sweeper;

struct sweeper_options {
	struct store_options store;
	const struct watch **watches; /* watches[0] is the built-in queue */
	int nwatches;
	const struct retention *retention; /* of defib's tables, if no daemon leads; NULL: never */
	void (*wake)(void *ctx);           /* called from the sweeper's thread: there may be new jobs */
	void *ctx;
};

struct sweeper *sweeper_new(const struct sweeper_options *o);
/*
 * Cleanup after dead instances in watches[1…], before the thread runs and before any job is
 * claimed; `self` is the worker that starts. Counts are added to *cleaned (may be NULL). A failure
 * is logged and returned; the other watches are still cleaned up.
 */
defib_err sweeper_start_up(struct sweeper *s, int64_t self, struct startup_result *cleaned,
                           struct failure *f);
MUST_CHECK defib_err sweeper_run(struct sweeper *s, struct failure *f);
/*
 * A worker is dead: recover its jobs soon. `mass`: several died at once, which is not the jobs'
 * fault.
 */
void sweeper_recover(struct sweeper *s, int64_t owner, bool mass);
struct sweep_order {
	const bool *which; /* of the watches */
	bool died;         /* a worker was declared dead by one that may not know them: do not leave it
	                      to a daemon's next pass */
	bool dead_only;    /* silence proves nothing at the moment */
	bool upkeep;       /* also apply retention to defib's own tables */
};
/* Sweep the marked watches soon. */
void sweeper_sweep(struct sweeper *s, const struct sweep_order *order);
/* We were away: silence that began then is not held against any worker. */
void sweeper_doubt(struct sweeper *s);
void sweeper_stop(struct sweeper *s); /* ends the thread after its current batch */
void sweeper_free(struct sweeper *s); /* after it was stopped, or never ran; NULL is allowed */

#endif
