/* SPDX-License-Identifier: Apache-2.0
 * stored_jobs.h: new work that the database could not take, in a durable file,
 * until it can: jobs are not refused because the pool is exhausted or the
 * server is away.
 *
 * It is a spool (spool.h) in the folder `new` below the spool of workers. One
 * record is one put: its jobs go in together or not at all, as they would have
 * done when they were sent. Whoever appends or drains owns the folder for that
 * moment only, so that programs, workers and daemons can share it.
 *
 * Each put goes in once. Its token is inserted with its jobs in one transaction
 * (defib.enqueued) and a token that is there is passed by: a drain that is
 * killed after its commit repeats nothing, nor does a put whose first commit
 * may have happened though its answer was lost.
 *
 * What the database refuses for ever moves to the spool `new/refused`, and a
 * critical line says so: it must not hold up what waits behind it.
 */
#ifndef WORKER_STORED_JOBS_H
#define WORKER_STORED_JOBS_H

#include "store/store.h"
#include "worker/queue.h"

#define STORED_JOBS_FOLDER "new" /* no name for a worker: it lies among their spools */
#define STORED_TOKEN_SIZE 33     /* 128 random bits in hex, and the end */

struct stored_jobs {
	const char *folder; /* BASE/new; made when something is put */
	const char *base;   /* what was configured, and must be ours; NULL: `folder` alone */
	const char *url;    /* of its database: a folder holds jobs of one only */
	int64_t wait_ms;    /* how long to wait for whoever owns the folder, or drains it */
};

/* What became of jobs that were sent. */
struct stored_sent {
	char token[STORED_TOKEN_SIZE];
	bool kept;          /* they wait here, because of `why` … */
	struct failure why; /* … */
	int64_t *ids;       /* … or these are they; the caller's memory */
};

/*
 * Send jobs: what waits goes first, so that the order is kept, then they. Where the
 * database is away they are kept. `s` NULL: it is, because of `sent->why`.
 */
MUST_CHECK defib_err stored_jobs_send(const struct stored_jobs *q, struct store *s,
                                      const struct enqueue *jobs, int n, struct stored_sent *sent,
                                      struct failure *f);

/* Whether something waits, without owning the folder. */
bool stored_jobs_waits(const struct stored_jobs *q);

struct stored_drained {
	int64_t jobs, puts; /* that went in */
	int64_t refused;    /* puts that moved aside */
};

/*
 * Oldest first, for a moment: call it again while something waits. Adds to `out`. Fails with
 * DEFIB_REFUSED where another owns the folder for longer than wait_ms.
 */
MUST_CHECK defib_err stored_jobs_drain(const struct stored_jobs *q, struct store *s,
                                       struct stored_drained *out, struct failure *f);

/* ---- the steps, for tests ---- */

void stored_token(char token[STORED_TOKEN_SIZE]);
MUST_CHECK defib_err stored_jobs_put(const struct stored_jobs *q, const char *token,
                                     const struct enqueue *jobs, int n, struct failure *f);

/*
 * A put as a record: who it is (its token), whose (the database), when it was put, and its jobs as
 * they were sent. JSON, so that a person can read what was refused.
 */
struct stored_put {
	const char *token, *database;
	int64_t at_ms; /* wall clock: delays count from then */
	struct enqueue *jobs;
	int n;
};

void stored_put_write(const struct stored_put *put, struct buf *out);
/* False: it is none. Everything is copied into the arena. */
bool stored_put_read(const char *bytes, size_t n, struct arena *a, struct stored_put *put);
/* What is left of the delays, as of now. */
void stored_put_count_delays(struct stored_put *put, int64_t now_ms);

/* ---- from time to time ---- */

/*
 * Draining by somebody who has a session and a loop anyway (worker_turns.c, a database loop of the
 * daemon). How it went is logged; what is wrong with it, once.
 */
struct stored_jobs_timer {
	struct stored_jobs queue; /* folder NULL: there is none */
	int64_t due_ms;           /* when to look again */
	bool complained;          /* until it goes well again */
};

/* It is time to look, and something waits. */
bool stored_jobs_due(struct stored_jobs_timer *t);
/* One turn. Answers what went wrong. */
defib_err stored_jobs_tick(struct stored_jobs_timer *t, struct session *s);

#endif
