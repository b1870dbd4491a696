/* SPDX-License-Identifier: Apache-2.0
 * spool_results.h: results in a spool, known by their claims, so that none is kept twice. In the
 * list of what was set aside a record is the reason, a new line, and the result as it was.
 */
#ifndef WORKER_SPOOL_RESULTS_H
#define WORKER_SPOOL_RESULTS_H

#include "base/buf.h"
#include "worker/source.h"
#include "worker/spool.h"

/* The end of a job, as JSON: whoever finds it can offer it, fenced like any other. */
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

/* ---- results in a spool ---- */

#define SPOOL_WHY_MOST 400 /* bytes of a reason */

struct spool_list {
	bool aside;
	struct spool *spool; /* NULL: not opened, nothing in it */
	uint64_t *ids;       /* spool_result_id() of its records, in their order: from `first` on */
	int first, n, cap;
};

struct spools_record {
	struct spool_result result;
	bool whole;      /* false: its bytes are no result that this version understands */
	const char *why; /* it was set aside; NULL: it was not */
	struct spool_record raw;
};

/* *source (to be freed) is filled where it is NULL and a record says it. */
MUST_CHECK defib_err list_open(struct spool_list *l, const char *path, char **source,
                               struct failure *f);
void list_close(struct spool_list *l);
int64_t list_count(const struct spool_list *l);
int64_t list_bytes(const struct spool_list *l);
/* Is one of this claim in it, behind so many of the oldest? */
bool list_has(const struct spool_list *l, int from, uint64_t id);
/* A result as a record of the list, in the arena; `why` where it is set aside. */
struct spool_record list_record(const struct spool_list *l, const char *why, const char *bytes,
                                size_t n, struct arena *a);
MUST_CHECK defib_err list_append(struct spool_list *l, const struct spool_record *all,
                                 const uint64_t *ids, int n, struct failure *f);
int list_peek(struct spool_list *l, struct spools_record *out, int most, struct arena *a);
/* The bytes of its result, without the reason. */
const char *list_result(const struct spool_list *l, const struct spool_record *r, size_t *n);
MUST_CHECK defib_err list_take(struct spool_list *l, const struct spools_record *all, int n,
                               struct failure *f);
/* Of the oldest, those that are in `other` too, behind place `from`: a crash left them in both. */
MUST_CHECK defib_err list_drop_repeated(struct spool_list *l, const struct spool_list *other,
                                        int from, struct failure *f);
/* The reason of the first, "" where there is none. */
void list_why(struct spool_list *l, char out[SPOOL_WHY_MOST + 1]);

#endif
