/*
 * lost_job.h: the line in the log that a job of a lost worker is worth, with its owner as
 * the watch lets it be shown.
 */
#ifndef WORKER_LOST_JOB_H
#define WORKER_LOST_JOB_H

#include "recover/candidate.h"

/* For scan_observer.job; `ctx` is not used. */
void lost_job_tell(void *ctx, const struct watch *watch, const struct candidate *c);

#endif
