/* SPDX-License-Identifier: Apache-2.0
 * startup.h: cleans up after dead instances once at start, before any job is claimed, so that a
 * restart neither runs a backlog of stale work nor leaves it until its thresholds pass.
 *
 * If no other live instance works on the watch, every running job was left behind by a dead
 * instance, if the watch says so ({do: …}); by default only jobs that an instance of ours once
 * claimed, because a row that never had a lease may belong to a foreign worker. While other
 * instances are alive, only jobs that provably have no worker are taken: the lease's worker is
 * dead, or there is no lease and the row is past its threshold. There is one look, no brake and no
 * pace. The write is the guarded one, so a job that is claimed meanwhile is left alone. A row whose
 * worker is known to be alive, or that an operator holds, is never touched.
 */
#ifndef RECOVER_STARTUP_H
#define RECOVER_STARTUP_H

#include "recover/scan.h"

struct startup_options {
	/*
	 * The worker that starts, already registered; 0: a daemon, which runs no jobs itself. A daemon
	 * takes all running jobs only if workers registered before and are gone: a table whose workers
	 * never register may be in use by foreign workers.
	 */
	int64_t self;
	bool doubtful; /* we could not see anything until a moment ago: silence proves nothing yet */
	bool ledger_off;
	bool (*go_on)(void *ctx); /* asked before every batch whether to go on; NULL: always */
	void *ctx;
};

struct startup_result {
	int live; /* other instances */
	bool all; /* none lives: everything that ran was considered left behind */
	int64_t found;
	int64_t outcomes[OUTCOME_COUNT];
};

/* As the watch's `startup` says; does nothing if that is off. */
MUST_CHECK defib_err startup_reconcile(struct session *session, const struct watch *w,
                                       const struct startup_options *o,
                                       struct startup_result *result, struct failure *f);

/* ---- the log ---- */

/*
 * What the start-up did, in the log: one line per job and one summary.
 *
 *   scheduler_startup_cleanup running_failed=154 cancelling_failed=77 watch=jobs scrape=3 crawl=2
 */

#define STARTUP_NAMES_MAX                                                                          \
	24 /* states, and kinds, that are counted separately; the rest are "other" */

struct startup_count {
	char name[64];
	int64_t n;
};

struct startup_report {
	struct startup_count states[STARTUP_NAMES_MAX + 1]; /* "running_failed" */
	struct startup_count kinds[STARTUP_NAMES_MAX + 1];
	int nstates, nkinds;
};

/* If one remedy was chosen for all, its counts are logged even when they are 0. */
void startup_report_init(struct startup_report *r, const struct watch *w);
/* One job was handled; `state` is the row's previous state, NULL: not known. */
void startup_report_job(struct startup_report *r, const struct watch *w, const struct candidate *c,
                        const char *state, int64_t us);
void startup_report_end(const struct startup_report *r, const struct watch *w,
                        const struct startup_result *result);

#endif
