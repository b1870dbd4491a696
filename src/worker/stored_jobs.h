/* SPDX-License-Identifier: Apache-2.0
 * stored_jobs.h: new jobs that the database could not accept, in a durable file until it can, so
 * that jobs are not refused because the pool is exhausted or the server is unavailable.
 *
 * It is a spool (store/spool.h) in the directory `new` below the spool of workers. One record is
 * one put: its jobs are inserted together or not at all, as they would have been when they were
 * sent. A process that appends or drains owns the directory only for that moment, so that programs,
 * workers and daemons can share it.
 *
 * Each put names the database that it is for: by the address, and by the id that `init` drew there
 * (registry_database()) as the last process that reached it saw it, which stands in the file
 * `database`. It is inserted into no other.
 *
 * Each put is inserted once. Its token is inserted with its jobs in one transaction
 * (defib.enqueued), and a put whose token exists is skipped: a drain that is killed after its
 * commit repeats nothing, nor does a put whose first commit succeeded although the reply was lost.
 *
 * A put that the database refuses permanently, or that is for another database, moves to the spool
 * `new/refused` and is logged as critical: it must not delay what waits behind it.
 */
#ifndef WORKER_STORED_JOBS_H
#define WORKER_STORED_JOBS_H

#include "worker/queue.h"

#define STORED_JOBS_FOLDER "new" /* among the spools of workers: no worker may have this name */
#define STORED_TOKEN_SIZE 33     /* 128 random bits in hex, and the NUL */

struct stored_jobs {
	const char *folder; /* BASE/new; created when something is stored */
	const char *base;   /* as configured; must belong to us; NULL: check only `folder` */
	const char *url;    /* of its database: a directory holds jobs of only one address */
	int64_t wait_ms;    /* how long to wait for another process that owns or drains the directory */
};

/* The result of sending jobs. */
struct stored_sent {
	char token[STORED_TOKEN_SIZE];
	bool stored;        /* they wait here, because of `why` … */
	struct failure why; /* … */
	int64_t *ids;       /* … or these are their ids; the caller's memory */
};

/*
 * Send jobs: stored jobs go first, so that the order is kept. If the database is unavailable, the
 * jobs are stored. `s` NULL: it is unavailable, because of `sent->why`.
 */
MUST_CHECK defib_err stored_jobs_send(const struct stored_jobs *q, struct store *s,
                                      const struct enqueue *jobs, int n, struct stored_sent *sent,
                                      struct failure *f);

/* Whether jobs are stored, without owning the directory. */
bool stored_jobs_waits(const struct stored_jobs *q);

struct stored_drained {
	int64_t jobs, puts; /* that were inserted */
	int64_t refused;    /* puts that were set aside */
};

/*
 * Drain the oldest first, for a short time: call again while jobs are stored. Adds to `out`.
 * DEFIB_REFUSED if another process owns the directory for longer than wait_ms.
 */
MUST_CHECK defib_err stored_jobs_drain(const struct stored_jobs *q, struct store *s,
                                       struct stored_drained *out, struct failure *f);

/* ---- the steps, for tests ---- */

void stored_token(char token[STORED_TOKEN_SIZE]);
MUST_CHECK defib_err stored_jobs_put(const struct stored_jobs *q, const char *token,
                                     const struct enqueue *jobs, int n, struct failure *f);

/*
 * A put as a record: its token, its database's address and id, when it was stored, and its jobs as
 * they were sent. JSON, so that people can read what was refused.
 */
struct stored_put {
	const char *token, *address;
	const char *database; /* "": not known */
	int64_t at_ms;        /* wall clock: delays count from here */
	struct enqueue *jobs;
	int n;
};

void stored_put_write(const struct stored_put *put, struct buf *out);
/* False: the bytes are not a put. Everything is copied into the arena. */
bool stored_put_read(const char *bytes, size_t n, struct arena *a, struct stored_put *put);
/* Reduce the delays by the time that has passed. */
void stored_put_count_delays(struct stored_put *put, int64_t now_ms);

/* ---- from time to time ---- */

/*
 * Drains from a caller that has a session and a loop anyway (worker_turns.c, a database loop of the
 * daemon). The result is logged; a problem is logged once.
 */
struct stored_jobs_timer {
	struct stored_jobs queue; /* folder NULL: there is none */
	int64_t due_ms;           /* when to check again */
	bool complained;          /* until it succeeds again */
};

/* It is time to check, and jobs are stored. */
bool stored_jobs_due(struct stored_jobs_timer *t);
/* One drain. Returns what went wrong. */
defib_err stored_jobs_tick(struct stored_jobs_timer *t, struct session *s);

#endif
