/* SPDX-License-Identifier: Apache-2.0
 * spool_result.h: the end of a job as it waits in a spool: a JSON object that says whose it is
 * and how the job ended, so that whoever finds it can offer it, fenced like any other.
 */
#ifndef WORKER_SPOOL_RESULT_H
#define WORKER_SPOOL_RESULT_H

#include "base/buf.h"
#include "worker/source.h"

struct spool_result {
	const char *source; /* its name */
	int64_t worker;     /* the incarnation that claimed the job */
	const char *token;  /* as its program saw it; NULL: it saw none */
	struct settlement end;
};

void spool_result_encode(const struct spool_result *r, struct buf *out);
/*
 * False: it cannot be understood. What could be is in *out then: its source "" or more, its key ""
 * or more. Texts are in the arena.
 */
bool spool_result_decode(const char *bytes, size_t n, struct arena *a, struct spool_result *out);
/* Which end of which job it is: the same for every record of the same claim. */
uint64_t spool_result_id(int64_t worker, const char *key, int64_t epoch);

#endif
