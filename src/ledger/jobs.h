/* SPDX-License-Identifier: Apache-2.0
 * jobs.h: finding a job by its text in a list, for merging what a second
 * statement said into what a first one did.
 */
#ifndef LEDGER_JOBS_H
#define LEDGER_JOBS_H

#include "base/mem.h"

struct job_index {
	const char *const *jobs;
	int *slots; /* open hash of positions; -1 is empty */
	unsigned mask;
};

/* `jobs` must outlive the index. Duplicates keep the first. */
void job_index_init(struct job_index *x, const char *const *jobs, int n, struct arena *a);
/* Position of a job, or -1. */
int job_index_find(const struct job_index *x, const char *job);

#endif
