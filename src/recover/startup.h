/* SPDX-License-Identifier: Apache-2.0
 * startup.h: what instances that are gone left behind, taken care of once at a
 * start, before anybody claims: so that a restart neither runs a pile of stale
 * work nor lets it lie until its thresholds.
 *
 * With no other instance alive that works on the watch, everything that runs was
 * left by somebody who is gone, where the watch says so ({do: …}); by default only
 * what an instance of ours once claimed: a row that never had a lease may be in the
 * hands of a worker that knows nothing of defib. While others live, only what is provably nobody's:
 * the lease's worker is dead, or there is no lease and the row is past its
 * threshold. One look, no brake and no pace; the write is the guarded one, so
 * that a job claimed meanwhile is left alone. A row whose worker is known to live,
 * or that a person has on hold, is never touched.
 */
#ifndef RECOVER_STARTUP_H
#define RECOVER_STARTUP_H

#include "recover/scan.h"

struct startup_options {
	/*
	 * The worker that starts, registered already; 0: a daemon, which works on
	 * nothing itself. It takes everything only where workers registered before
	 * and are gone: a table whose workers never register may be worked on by anybody.
	 */
	int64_t self;
	bool doubtful; /* we could not see anything a moment ago: silence proves nothing yet */
	bool ledger_off;
	bool (*go_on)(void *ctx); /* asked before every batch whether to go on; NULL: always */
	void *ctx;
};

struct startup_result {
	int live; /* other instances */
	bool all; /* none lives: everything that ran was taken for left behind */
	int64_t found;
	int64_t outcomes[OUTCOME_COUNT];
};

/* By the watch's `startup`; does nothing where that is off. */
MUST_CHECK defib_err startup_reconcile(struct session *session, const struct watch *w,
                                       const struct startup_options *o,
                                       struct startup_result *result, struct failure *f);

/* ---- the log ---- */

/*
 * What a start-up did, in the log: a line a job and one summary.
 *
 *   scheduler_startup_cleanup running_failed=154 cancelling_failed=77 watch=jobs scrape=3 crawl=2
 */

#define STARTUP_NAMES_MAX 24 /* states, and kinds, that are counted apart; the rest are "other" */

struct startup_count {
	char name[64];
	int64_t n;
};

struct startup_report {
	struct startup_count states[STARTUP_NAMES_MAX + 1]; /* "running_failed" */
	struct startup_count kinds[STARTUP_NAMES_MAX + 1];
	int nstates, nkinds;
};

/* Where one remedy was chosen for all, its counts are told even when they are 0. */
void startup_report_init(struct startup_report *r, const struct watch *w);
/* One job was dealt with; `state` is as it stood in the row before, NULL: not known. */
void startup_report_job(struct startup_report *r, const struct watch *w, const struct candidate *c,
                        const char *state, int64_t ran_us);
void startup_report_end(const struct startup_report *r, const struct watch *w,
                        const struct startup_result *result);

#endif
