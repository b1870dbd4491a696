/* SPDX-License-Identifier: Apache-2.0
 * startup_report.h: what a start-up did, in the log: a line a job and one summary.
 *
 *   scheduler_startup_cleanup running_failed=154 cancelling_failed=77 watch=jobs scrape=3 crawl=2
 */
#ifndef RECOVER_STARTUP_REPORT_H
#define RECOVER_STARTUP_REPORT_H

#include "recover/startup.h"

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
