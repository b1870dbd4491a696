/* SPDX-License-Identifier: Apache-2.0
 * spool_results.h: the end of a job as a record of the spool.
 */
#ifndef WORKER_SPOOL_RESULTS_H
#define WORKER_SPOOL_RESULTS_H

#include "worker/job.h"

/* The end of a job, as JSON. Any process that finds it can submit it, fenced like any other. */
struct spool_result {
	const char *source;   /* its name */
	const char *database; /* of the claim (registry_database()); "": not known */
	int64_t worker;       /* the incarnation that claimed the job */
	const char *token;    /* as its program got it; NULL: it got none */
	struct settlement end;
};

void spool_result_encode(const struct spool_result *r, struct buf *out);
/*
 * False: it cannot be understood. *out then has what could be read: its source and key, or "".
 * Texts are in the arena.
 */
bool spool_result_decode(const char *bytes, size_t n, struct arena *a, struct spool_result *out);

#endif
