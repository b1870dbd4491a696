/* SPDX-License-Identifier: Apache-2.0
 * carry.h: decisions carried out, come what may: tries with full jitter when the
 * database is away, commits whose answer was lost, and single rows that spoil a
 * batch. Scan, by hand, pending retries and undo all write through here.
 */
#ifndef RECOVER_CARRY_H
#define RECOVER_CARRY_H

#include "base/clock.h"
#include "recover/apply.h"
#include "store/store.h"

struct carrier {
	struct session *session;
	const struct watch_sql *sql;
	const struct ledger *ledger;
	const char *actor;
	char name[64];         /* of this run in the ledger; parts are numbered ".1", ".2" … */
	int transactions;      /* of this run */
	struct carrier *chief; /* of a lane: the one whose run it is, and who counts; NULL: itself */
	bool first;            /* of a lane: the batch at hand is the first of the run */
	struct chance chance;  /* for jitter */
	struct arena arena;    /* of the batch under way */
	int64_t opened;        /* the session that was asked: */
	bool may_lock_signs;
};

/* A new run with a name of its own. What was learnt of the database is kept. */
void carrier_begin(struct carrier *c, const char *actor);
/*
 * Carry out a batch and set each outcome. `keep` is where texts of refusals go.
 * After a failure, what may still have been done is read again by the outcomes.
 */
MUST_CHECK defib_err carry(struct carrier *c, struct candidate *batch, int n, struct arena *keep,
                           struct failure *f);

/*
 * Those that are still to be written, in front; returns how many. Apply must not
 * meet what was refused or found missing before.
 */
int acting_first(struct candidate *all, int n, struct arena *a);

/* Tries of anything that a broken session or a lock may spoil. */
struct tries {
	int64_t begun_ms;
	int n;
};
struct tries tries_begin(void);
/* Whether to do again what failed so; after a pause, if so. */
bool try_again(struct carrier *c, struct tries *t, defib_err err);

/* ---- retries that are due ---- */

/*
 * The second half of a retry in two phases: when its wait is over,
 * the job is made to run again, if it is still as the first half left it.
 */

/*
 * Fire all retries of the carrier's watch that are due by the database's
 * clock. A job that somebody has changed since keeps what it has; the ledger
 * says so, and its retry is over. `page` is scratch. Adds to *fired.
 */
MUST_CHECK defib_err retries_fire(struct carrier *c, struct arena *page, int64_t *fired,
                                  struct failure *f);

/* ---- several sessions at once ---- */

/*
 * Sessions that write batches while the scan reads and judges the next ones.
 *
 * Each lane is a thread with a session and a carrier of its own. Batches are told in the order
 * in which they were put. What is put belongs to a lane until it is taken out.
 */

struct lane_job {
	struct candidate *batch;
	int stuck;          /* how many they are */
	bool first;         /* of its run */
	struct arena arena; /* of the candidates */
	struct arena page;  /* of their facts: with the last batch of a page; else empty */
	struct arena said;  /* what the database said when they were written */
	defib_err err;
	struct failure failure;
	struct lane_job *next;
	bool done;
};

struct lane_job *lane_job_new(void);
void lane_job_free(struct lane_job *j);

struct lanes;
/* Sessions like this one, which carry on what `chief` began. NULL: none could be had. */
struct lanes *lanes_open(const struct session *like, struct carrier *chief);
/* Whether as many are under way as are good for the lanes, and for memory. */
bool lanes_full(const struct lanes *l);
void lanes_put(struct lanes *l, struct lane_job *j);
/* The one that was put first, when it is done; NULL: there is none. */
struct lane_job *lanes_take(struct lanes *l);
/* All must have been taken. NULL is allowed. */
void lanes_close(struct lanes *l);

#endif
