/* SPDX-License-Identifier: Apache-2.0
 * mistakes.h: recoveries that were mistakes: the worker was alive, and finished
 * the job after all (LATE_COMPLETION after the recovery).
 *
 * Each recovery counts at most once, and only the last one before a late
 * completion is blamed. What persons did by hand is no verdict and not counted.
 * Only the newest entries of the ledger are looked at, so that the cost stays
 * the same however large it has grown.
 */
#ifndef LEDGER_MISTAKES_H
#define LEDGER_MISTAKES_H

#include "ledger/ledger.h"

#define MISTAKES_ENTRIES 50000 /* of the ledger, the newest */

/* Recoveries, and mistakes among them. */
struct mistakes {
	struct {
		int64_t recoveries, mistakes;
	} day, week;
};
MUST_CHECK defib_err mistakes_count(struct store *s, const char *watch, struct mistakes *out,
                                    struct failure *f);

/* A recovery of a job that nobody has called a mistake yet, the job's last. */
struct recovered {
	const char *job, *event;
	const char *at;    /* ISO, UTC */
	const char *owner; /* by the evidence; NULL: not known */
};
/* Not older than this, newest first. */
MUST_CHECK defib_err mistakes_candidates(struct store *s, const char *watch, int64_t within_us,
                                         int64_t limit, struct arena *a, struct recovered **out,
                                         int *n, struct failure *f);
/*
 * Note the late completions of these jobs, in a transaction of its own; those
 * that another has noted meanwhile are left out. *noted is how many were.
 */
MUST_CHECK defib_err mistakes_note(struct store *s, const struct ledger_context *ctx,
                                   const struct ledger_entry *entries, int n, int64_t within_us,
                                   struct arena *a, int64_t *noted, struct failure *f);

#endif
