/* SPDX-License-Identifier: Apache-2.0
 * source_table_settle.h: records how jobs of a user's table ended.
 */
#ifndef WORKER_SOURCE_TABLE_SETTLE_H
#define WORKER_SOURCE_TABLE_SETTLE_H

#include "worker/source_table_steps.h"

defib_err table_settle(struct source *src, struct store *s, int64_t worker, struct settlement *all,
                       int n, struct arena *a, struct failure *f);

struct table_ending {
	struct settlement *given;
	struct work_row row;
	bool leased; /* the lease is ours, and locked */
	bool found;  /* the row exists, and is as the claim left it */
	bool cancelled;
	bool undoing; /* the row is being undone */
	bool limited; /* max_attempts is known */
	int64_t lease_attempts, max_attempts;
	int64_t pause_ms;          /* before it may be claimed again */
	bool retry;                /* it will be retried */
	bool over;                 /* no attempts are left */
	enum step_after after;     /* of a step */
	struct undo_report report; /* at the end of a rollback: the row has its error … */
	const char *error;         /* … and this is the step's own */
	enum work_list list;
};

struct settling {
	struct table_source *src;
	struct store *store;
	int64_t worker;
	struct table_ending *all;
	int n;
	struct arena *arena;
	struct step_marks marks; /* of accepted ends */
};

static inline bool leased(const struct table_ending *e)
{
	return e->leased;
}

static inline bool writable(const struct table_ending *e)
{
	return e->leased && e->found;
}

static inline bool handed_back(const struct table_ending *e)
{
	return e->given->as == SETTLE_RELEASED || e->given->as == SETTLE_STOPPED;
}

/* A step of a workflow, or a row that is being undone. */
static inline bool is_step(const struct table_ending *e)
{
	return e->given->step.side != STEP_SIDE_NONE || e->undoing;
}

/* DEFIB_CONSTRAINT if a row whose end was written would be found stuck, or run again. */
MUST_CHECK defib_err work_check_end(const struct table_source *src, const struct table_ending *e,
                                    const struct work_left *now, struct failure *f);
/* Decide the outcome of each, without database or clock. */
void decide_endings(struct settling *z);
/* Whether this was the last attempt that the watch allows. */
bool attempts_exhausted(const struct table_source *src, const struct table_ending *e);
/* An ended job whose row is ready nevertheless. */
void wait_if_failed(struct settling *z, struct table_ending *e);

#endif
