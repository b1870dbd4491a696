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
/* A queue of the built-in table; `kind` NULL: all kinds. */
struct source *source_queue(const char *queue, const char *kind);
/* Jobs of these kinds only; n 0: all kinds. */
struct source *source_queue_kinds(const char *queue, const char *const *kinds, int n);
/*
 * Inside a transaction: is this job of the built-in queue ours and not settled? If so, it stays
 * that way until the transaction ends; else DEFIB_LEASE_LOST.
 */
MUST_CHECK defib_err source_queue_hold(struct store *s, int64_t worker, const char *key,
                                       int64_t epoch, struct failure *f);

/* ---- the token of a claim ---- */

/*
 * A text that a program gets with its claim, so that it can fence its effects: unique per claim,
 * and the tokens of one job sort as plain text in the order of its claims.
 *
 *   TIMELINE-EPOCH-WORKER-NONCE     00000002-000000000000000c-41-9f3c52d1a07be866
 *
 * The epoch rises with each claim. But an asynchronous failover loses the last claims and assigns
 * the same epochs, to the same incarnations of workers, again. So the server's timeline, which
 * rises with each failover, comes first, and a nonce comes last, in case no timeline is known.
 */
#define TOKEN_SIZE 80 /* with the NUL */

/* `timeline` 0: not known. */
void token_write(int64_t timeline, int64_t epoch, int64_t worker, uint64_t nonce,
                 char out[TOKEN_SIZE]);
/* For a claim by this incarnation. */
void token_of(const struct claimed *c, int64_t worker, char out[TOKEN_SIZE]);
/* A unique number, counted up from a random start. Any thread. */
uint64_t token_nonce(void);

/*
 * ---- a user's own table, configured by the `work` section of its watch ----
 *
 * The user's rows contain what the user's SET lists write and nothing else. The worker of a job,
 * the time of its claim and the number of its claims are in defib's own lease table, one row per
 * job, claimed by INSERT … ON CONFLICT.
 *
 * Which list is written when a job ends:
 *   done                            done
 *   failed, crashed, permanent      failed
 *   timed_out                       timed_out, else failed
 *   released, stopped               release
 *   anything but done, of a row
 *   that `cancel` was written to    failed, with the error "cancelled" if it has none
 *   retry; or failed, timed_out and
 *   crashed where a backoff and
 *   max_attempts are given and
 *   attempts are left               release; else failed where a claim changed the row
 * A list that is not given changes only the lease.
 *
 * Jobs of a workflow run one step per claim. A finished step that is not the last writes `step`
 * (else release); other ends as above. A row that matches `rollback_ready` is claimed for its undo:
 * nothing is written to it until everything is undone, and then `rolled_back`.
 */

/*
 * Bind and compile with a session on the table's database; `kind` NULL: all kinds. The watch must
 * outlive the source. DEFIB_CONFIG names the option that does not fit.
 */
MUST_CHECK defib_err source_table(const struct watch *w, const char *kind, struct store *s,
                                  struct source **out, struct failure *f);

/*
 * A few jobs of the table, named individually (source_chosen.c): each is offered once, in the given
 * order, and claimed, leased and settled like any other. Only once, because a job that fails and is
 * released must not be claimed again by the same emergency run. Running jobs are offered too,
 * unless their worker is known to be alive: an operator asked for them.
 */
struct aged;
struct chosen_options {
	const struct watch *watch; /* outlives the source, as do the jobs */
	const struct aged *jobs;
	int n;
	/* A job could not be claimed. Called by the thread that claims. */
	void (*not_claimed)(void *ctx, const char *job);
	/* A job was settled, took_ms after its claim. Called by the thread that settles. */
	void (*ended)(void *ctx, const struct settlement *end, int64_t took_ms);
	void *ctx;
};

MUST_CHECK defib_err source_chosen(const struct chosen_options *o, struct store *s,
                                   struct source **out, struct failure *f);

#endif
