/* SPDX-License-Identifier: Apache-2.0
 * lost_job.h: the log line of a job of a lost worker, with its owner as the watch lets it be shown.
 */
#ifndef WORKER_LOST_JOB_H
#define WORKER_LOST_JOB_H

#include "recover/candidate.h"

/* What was logged about jobs, by hash; one that is displaced may be logged again. */
#define LOST_JOBS_KEPT 8192
struct lost_jobs {
	uint64_t states[LOST_JOBS_KEPT];
};

/* Whether this is new: the outcome for the job, this owner and this run was not logged yet. */
bool lost_job_is_new(struct lost_jobs *logged, const struct watch *watch,
                     const struct candidate *c);
/* Log it: as a warning if it is new, else at level debug. */
void lost_job_log(struct lost_jobs *logged, const struct watch *watch, const struct candidate *c);

#endif
