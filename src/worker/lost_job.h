/* SPDX-License-Identifier: Apache-2.0
 * lost_job.h: the line in the log that a job of a lost worker is worth, with its owner as
 * the watch lets it be shown.
 */
#ifndef WORKER_LOST_JOB_H
#define WORKER_LOST_JOB_H

#include "recover/candidate.h"

/* What was said of jobs, by hash; one that is pushed out may be said again. */
#define LOST_JOBS_KEPT 8192
struct lost_jobs {
	uint64_t states[LOST_JOBS_KEPT];
};

/* Whether this is to be said: what became of the job has not been said, of this owner and run. */
bool lost_job_news(struct lost_jobs *told, const struct watch *watch, const struct candidate *c);
/* Say it: news as a warning, what was said before at the level debug. */
void lost_job_tell(struct lost_jobs *told, const struct watch *watch, const struct candidate *c);

#endif
