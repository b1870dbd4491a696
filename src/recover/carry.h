/* SPDX-License-Identifier: Apache-2.0
 * carry.h: applies decisions despite failures: retries with full jitter while the database is
 * unavailable, resolves commits whose reply was lost, and splits batches that a single row makes
 * fail. Scan, acts by hand, pending retries and undo all write through here.
 */
#ifndef RECOVER_CARRY_H
#define RECOVER_CARRY_H

#include "base/clock.h"
#include "recover/apply.h"

struct carrier {
	struct session *session;
	const struct watch_sql *sql;
	const struct ledger *ledger;
	const char *actor;
	char name[64];    /* of this run in the ledger; parts are numbered ".1", ".2" … */
	int transactions; /* of this run */
	struct carrier
		*chief; /* of a lane: the carrier whose run it is, and which counts; NULL: itself */
	bool first; /* of a lane: the current batch is the first of the run */
	struct chance chance; /* for jitter */
	struct arena arena;   /* of the current batch */
	int64_t opened;       /* the session that was checked: */
	bool may_lock_signs;
	bool contended; /* others write the same rows or add entries: stable batches go one by one */
};

/* Begin a new run with a name of its own. What was learnt about the database is kept. */
void carrier_begin(struct carrier *c, const char *actor);
/*
 * Apply a batch and set each outcome. Texts of refusals go to `keep`. After a failure, outcomes
 * that are uncertain are determined by reading again.
 */
MUST_CHECK defib_err carry(struct carrier *c, struct candidate *batch, int n, struct arena *keep,
                           struct failure *f);

/*
 * Move the candidates that are still to be written to the front; returns their number. Apply must
 * not see candidates that were refused or missing before.
 */
int acting_first(struct candidate *all, int n, struct arena *a);

/* Tries of an operation that a lost session or a lock can make fail. */
struct tries {
	int64_t begun_ms;
	int n;
	bool unlocked_row; /* the last one failed at a row (apply.h) */
};
struct tries tries_begin(void);
/* Whether to repeat what failed with `err`; if so, it pauses first. */
bool try_again(struct carrier *c, struct tries *t, defib_err err);

/* ---- retries that are due ---- */

/*
 * The second half of a two-phase retry: when its wait is over, the job is made available again, if
 * it is still as the first half left it.
 */

/*
 * Fire all retries of the carrier's watch that are due by the database's clock. A job that changed
 * since is left alone; the ledger records that, and its retry is over. `page` is scratch. Adds to
 * *fired.
 */
MUST_CHECK defib_err retries_fire(struct carrier *c, struct arena *page, int64_t *fired,
                                  struct failure *f);

/* ---- several sessions at once ---- */

/*
 * Sessions that write batches while the scan reads and judges the next ones.
 *
 * Each lane is a thread with its own session and carrier. Results are returned in the order in
 * which batches were put. A batch belongs to its lane from lanes_put() to lanes_take().
 */

struct lane_job {
	struct candidate *batch;
	int stuck;             /* number of candidates */
	bool first;            /* of its run */
	struct arena arena;    /* of the candidates */
	struct arena page;     /* of their facts: set on the last batch of a page; else empty */
	struct arena messages; /* the database's messages from the write */
	defib_err err;
	struct failure failure;
	struct lane_job *next;
	bool done;
};

struct lane_job *lane_job_new(void);
void lane_job_free(struct lane_job *j);

struct lanes;
/* Open sessions like this one, which continue the run of `chief`. NULL: none could be opened. */
struct lanes *lanes_open(const struct session *like, struct carrier *chief);
/* Whether enough batches are under way for the lanes, and for memory. */
bool lanes_full(const struct lanes *l);
void lanes_put(struct lanes *l, struct lane_job *j);
/* The batch that was put first, when it is done; NULL: there is none. */
struct lane_job *lanes_take(struct lanes *l);
/* All batches must have been taken. NULL is allowed. */
void lanes_close(struct lanes *l);

#endif
