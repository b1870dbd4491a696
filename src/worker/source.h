/* SPDX-License-Identifier: Apache-2.0
 * source.h: where a worker's jobs come from: a queue of the built-in table, or
 * a user's own table with leases beside it. One interface, so that the worker
 * knows nothing of either.
 *
 * Every write presents (key, epoch, worker); what is refused is answered
 * job by job and means that its lease is lost.
 */
#ifndef WORKER_SOURCE_H
#define WORKER_SOURCE_H

#include "store/store.h"
#include "worker/job.h"

struct source;
struct source_ops {
	defib_err (*claim)(struct source *src, struct store *s, int64_t worker, int64_t n,
	                   struct arena *a, struct claimed **out, int *nout, struct failure *f);
	defib_err (*settle)(struct source *src, struct store *s, int64_t worker, struct settlement *all,
	                    int n, struct arena *a, struct failure *f);
	/* What the database says this worker has: keys and epochs. */
	defib_err (*owned)(struct source *src, struct store *s, int64_t worker, struct arena *a,
	                   struct settlement **out, int *n, struct failure *f);
	/* Which of its jobs were asked to stop: keys and epochs. */
	defib_err (*cancelling)(struct source *src, struct store *s, int64_t worker, struct arena *a,
	                        struct settlement **out, int *n, struct failure *f);
	/* Work that comes due by time becomes ready. */
	defib_err (*promote)(struct source *src, struct store *s, struct failure *f);
	/* Step and progress of one job; DEFIB_LEASE_LOST when it is not ours. */
	defib_err (*progress)(struct source *src, struct store *s, int64_t worker, const char *key,
	                      int64_t epoch, const char *step, const char *text, struct failure *f);
	void (*free)(struct source *src);
	/* Say that jobs are alive, where the source has a beat_ms. Those that are not ours are passed.
	 */
	defib_err (*beat)(struct source *src, struct store *s, int64_t worker, struct beat *all, int n,
	                  struct arena *a, struct failure *f);
	/* A part of a turn in a way of its own; NULL: by the others, in one transaction. */
	defib_err (*turn)(struct source *src, struct store *s, struct turn_part *p, struct arena *a,
	                  struct failure *f);
};

struct source {
	const struct source_ops *ops;
	const char *name; /* queue or watch */
	const char *keys; /* sources with the same text have the same jobs; NULL: with no other */
	bool announced;   /* new jobs wake workers (queue.h) */
	int64_t beat_ms;  /* how often jobs in hand are to beat; 0: never */
};

/*
 * A part of a turn, all in one transaction (job.h): ends first, each answered by itself, then
 * what is claimed, asked and told for p->claimer. A claimer that is not alive is answered by
 * p->gone, and costs the ends nothing. Answers live in the arena; what is returned stands in
 * p->err and p->f too. Whether ends are refused by rows of their own is for the caller to find
 * out: then the whole part failed (store_blames_rows()) and nothing was written. A user's table
 * that can be settled but not claimed from is settled: its claims fail by themselves, in the
 * first turn that has no ends.
 */
defib_err source_turn(struct source *src, struct store *s, struct turn_part *p, struct arena *a);

/* The same without beats, by what every source can do. */
MUST_CHECK defib_err source_turn_by_parts(struct source *src, struct store *s, struct turn_part *p,
                                          struct arena *a, struct failure *f);

/* What their tokens need: where they were claimed, and a nonce each. */
void source_tokens(const struct store *s, struct claimed *all, int n);
/* Keys and epochs from a query with one parameter, the worker. */
MUST_CHECK defib_err source_keys(struct store *s, const char *sql, int64_t worker, struct arena *a,
                                 struct settlement **out, int *n, struct failure *f);
/* A queue of the built-in table; `kind` NULL: all kinds. */
struct source *source_queue(const char *queue, const char *kind);
/* Jobs of these kinds only; n 0: all kinds. */
struct source *source_queue_kinds(const char *queue, const char *const *kinds, int n);
/*
 * Inside a transaction: is this job of the built-in queue ours and not settled?
 * If so it stays that way until the transaction ends; else DEFIB_LEASE_LOST.
 */
MUST_CHECK defib_err source_queue_hold(struct store *s, int64_t worker, const char *key,
                                       int64_t epoch, struct failure *f);

/* ---- the token of a claim ---- */

/*
 * What a program is told of its claim, so that an effect can be fenced: unique for each
 * claim, and in the order of claims of a job as plain text.
 *
 *   TIMELINE-EPOCH-WORKER-NONCE     00000002-000000000000000c-41-9f3c52d1a07be866
 *
 * The epoch rises with each claim. But an asynchronous fail-over loses the last claims, and gives
 * the same epochs, of the same workers' incarnations, again: so the server's timeline stands
 * first, which rises with each fail-over, and a nonce last, for where no timeline is known.
 */
#define TOKEN_SIZE 80 /* with the NUL */

/* `timeline` 0: not known. */
void token_write(int64_t timeline, int64_t epoch, int64_t worker, uint64_t nonce,
                 char out[TOKEN_SIZE]);
/* Of a claim by this incarnation. */
void token_of(const struct claimed *c, int64_t worker, char out[TOKEN_SIZE]);
/* A number that nobody else draws: counted from where chance began. Any thread. */
uint64_t token_nonce(void);

#endif
