/* SPDX-License-Identifier: Apache-2.0
 * source_table_ending.h: jobs of a user's table that are being settled, for the
 * files that do it: source_table_settle.c locks, reads, writes and
 * keeps in the ledger what it must, source_table_decide.c says what becomes of each.
 */
#ifndef WORKER_SOURCE_TABLE_ENDING_H
#define WORKER_SOURCE_TABLE_ENDING_H

#include "worker/source_table_sql.h"

struct ending {
	struct settlement *given;
	struct work_row row;
	bool leased; /* the lease is ours, and locked */
	bool found;  /* the row is there, and as the claim left it */
	bool cancelled;
	bool undoing; /* the row is one that is being undone */
	int64_t lease_attempts, max_attempts;
	int64_t pause_ms;      /* before it may be claimed again */
	bool retry;            /* it will be tried again */
	bool over;             /* its attempts are */
	enum step_after after; /* of a step */
	struct undo_report report;
	enum work_list list;
};

struct settling {
	struct table_source *src;
	struct store *store;
	int64_t worker;
	struct ending *all;
	int n;
	struct arena *arena;
	struct step_marks marks; /* of what was accepted */
};

static inline bool leased(const struct ending *e)
{
	return e->leased;
}

static inline bool writable(const struct ending *e)
{
	return e->leased && e->found;
}

static inline bool handed_back(const struct ending *e)
{
	return e->given->as == SETTLE_RELEASED || e->given->as == SETTLE_STOPPED;
}

/* A step of a workflow, or a row that is being undone. */
static inline bool is_step(const struct ending *e)
{
	return e->given->step.side != STEP_SIDE_NONE || e->undoing;
}

/* source_table_decide.c: no database, no clock */
void decide_endings(struct settling *z);

#endif
