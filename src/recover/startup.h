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
 *
 * startup.c         whose rows, which remedy, page by page
 * startup_report.c  a line a job and the summary
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

#endif
