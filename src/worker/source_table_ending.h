/* SPDX-License-Identifier: Apache-2.0
 * source_table_ending.h: jobs of a user's table that are being settled, for the
 * files that do it: source_table_settle.c locks, reads and writes,
 * source_table_decide.c says what becomes of each, and source_table_notes.c
 * what the ledger keeps of it.
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

/* Those of `all` that are wanted. */
struct work_row **settling_rows(struct settling *z, bool (*want)(const struct ending *), int *n);
struct ending *ending_of(struct work_row *row);
/* What the rows say now, as enum work_column behind the key. */
MUST_CHECK defib_err settling_facts(struct settling *z, struct work_row *const *rows, int n,
                                    struct store_rows *back, struct failure *f);
/* Run a statement over those that are wanted, as a relation of given; `want` NULL: all. */
MUST_CHECK defib_err settling_over(struct settling *z, const char *sql, int64_t worker,
                                   bool (*want)(const struct ending *), struct store_rows *rows,
                                   struct failure *f);

/* source_table_decide.c: no database, no clock */
void decide_endings(struct settling *z);

/* source_table_notes.c: the last statements of the transaction */
MUST_CHECK defib_err note_steps(struct settling *z, struct failure *f);
MUST_CHECK defib_err note_late(struct settling *z, struct failure *f);

#endif
