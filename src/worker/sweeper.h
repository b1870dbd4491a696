/* SPDX-License-Identifier: Apache-2.0
 * sweeper.h: the thread of a worker that recovers what dead workers had, on a
 * session of its own. However slow the statements of a watch are, and whatever
 * becomes of their session, the lease of the worker is renewed beside it.
 *
 * It decides nothing about workers: whose end was noticed, and when silence
 * proves something, is told to it by the life thread. In the built-in queue it takes only what the
 * dead left: silence convicts workers there (life/silence.h), and not their rows. Everywhere the
 * daemon's guard holds (guard/guard.h): absence, doubt, brake, second look and pace, and what
 * people said; a watch that a daemon leads is left to it. The session is open only while there
 * is something to do.
 */
#ifndef WORKER_SWEEPER_H
#define WORKER_SWEEPER_H

#include "recover/candidate.h"
#include "recover/scan.h"
#include "watch/settings.h"

struct sweeper;

struct sweeper_options {
	struct store_options store;
	const struct watch **watches; /* watches[0] is the built-in queue */
	int nwatches;
	const struct retention *retention; /* of defib's tables, where no daemon leads; NULL: never */
	void (*wake)(void *ctx);           /* from the sweeper's thread: there may be work */
	void *ctx;
};

struct sweeper *sweeper_new(const struct sweeper_options *o);
/*
 * Cleanup after dead instances in watches[1…], before the thread runs and before anybody
 * claims; `self` is the worker that starts.
 */
void sweeper_start_up(struct sweeper *s, int64_t self);
MUST_CHECK defib_err sweeper_run(struct sweeper *s, struct failure *f);
/* A worker is dead: its jobs, soon. `mass`: it did not die alone, which is no job's fault. */
void sweeper_recover(struct sweeper *s, int64_t owner, bool mass);
/*
 * Those of the watches that are marked, soon. `dead_only`: silence proves nothing at the moment.
 * `upkeep`: defib's own tables are kept small, too.
 */
void sweeper_sweep(struct sweeper *s, const bool *which, bool dead_only, bool upkeep);
/* We were away: nobody is condemned for silence that began then. */
void sweeper_doubt(struct sweeper *s);
void sweeper_stop(struct sweeper *s); /* ends the thread after its batch */
void sweeper_free(struct sweeper *s); /* stopped, or never run; NULL is allowed */

/* ---- the log line of a lost job, with its owner as the watch lets it be shown ---- */

/* What was said of jobs, by hash; one that is pushed out may be said again. */
#define LOST_JOBS_KEPT 8192
struct lost_jobs {
	uint64_t states[LOST_JOBS_KEPT];
};

/* Whether this is to be said: what became of the job has not been said, of this owner and run. */
bool lost_job_is_new(struct lost_jobs *logged, const struct watch *watch,
                     const struct candidate *c);
/* Say it: news as a warning, what was said before at the level debug. */
void lost_job_log(struct lost_jobs *logged, const struct watch *watch, const struct candidate *c);

#endif
