/* SPDX-License-Identifier: Apache-2.0
 * source.h: where a worker's jobs come from: the built-in queue, or a user's own table with leases
 * beside it. One interface, so that the worker depends on neither.
 *
 * Every write carries (key, epoch, worker). A refusal is reported per job and means that its lease
 * is lost.
 */
#ifndef WORKER_SOURCE_H
#define WORKER_SOURCE_H

#include "store/store.h"
#include "worker/job.h"

struct source;
struct watch;
struct source_ops {
	defib_err (*claim)(struct source *src, struct store *s, int64_t worker, int64_t n,
	                   struct arena *a, struct claimed **out, int *nout, struct failure *f);
	defib_err (*settle)(struct source *src, struct store *s, int64_t worker, struct settlement *all,
	                    int n, struct arena *a, struct failure *f);
	/* The jobs that this worker has according to the database: keys and epochs. */
	defib_err (*owned)(struct source *src, struct store *s, int64_t worker, struct arena *a,
	                   struct settlement **out, int *n, struct failure *f);
	/* Which of its jobs were asked to stop: keys and epochs. */
	defib_err (*cancelling)(struct source *src, struct store *s, int64_t worker, struct arena *a,
	                        struct settlement **out, int *n, struct failure *f);
	/* Make jobs available whose time has come. */
	defib_err (*promote)(struct source *src, struct store *s, struct failure *f);
	/* Step and progress of one job; DEFIB_LEASE_LOST if it is not ours. */
	defib_err (*progress)(struct source *src, struct store *s, int64_t worker, const char *key,
	                      int64_t epoch, const char *step, const char *text, struct failure *f);
	void (*free)(struct source *src);
	/* Report that jobs are alive, if the source has a beat_ms. Jobs of others are skipped. */
	defib_err (*beat)(struct source *src, struct store *s, int64_t worker, struct beat *all, int n,
	                  struct arena *a, struct failure *f);
	/*
	 * A part of a turn in the source's own way; NULL: through the other functions, in one
	 * transaction.
	 */
	defib_err (*turn)(struct source *src, struct store *s, struct turn_part *p, struct arena *a,
	                  struct failure *f);
};

struct source {
	const struct source_ops *ops;
	const char *name; /* queue or watch */
	const char
		*keys;       /* sources with the same text have the same jobs; NULL: shared with no other */
	bool announced;  /* new jobs wake workers (queue.h) */
	int64_t beat_ms; /* how often jobs in hand beat; 0: never */
};

/*
 * A part of a turn, in one transaction (job.h): first the ends, each with its own result, then
 * claims, queries and progress for p->claimer. If the claimer is not alive, p->gone is set, and the
 * ends are still recorded. Results live in the arena; the return value is also in p->err and p->f.
 * If a row rejects its end, the whole part fails (store_blames_rows()) and nothing is written; the
 * caller finds out which row it is. A user's table that can be settled but not claimed from is
 * settled: its claims fail separately, in the first turn without ends.
 */
defib_err source_turn(struct source *src, struct store *s, struct turn_part *p, struct arena *a);

/* The same without beats, using only what every source has. */
MUST_CHECK defib_err source_turn_by_parts(struct source *src, struct store *s, struct turn_part *p,
                                          struct arena *a, struct failure *f);

/* What their tokens need: the timeline of the claim, and a nonce each. */
void source_tokens(const struct store *s, struct claimed *all, int n);
/* Keys and epochs from a query with one parameter, the worker. */
MUST_CHECK defib_err source_keys(struct store *s, const char *sql, int64_t worker, struct arena *a,
                                 struct settlement **out, int *n, struct failure *f);

#endif
