/* SPDX-License-Identifier: Apache-2.0
 * source_table_steps.h: the steps of workflows whose jobs are rows of a user's table: what is next,
 * what is recorded.
 */
#ifndef WORKER_SOURCE_TABLE_STEPS_H
#define WORKER_SOURCE_TABLE_STEPS_H

#include "worker/source_table.h"

/*
 * Read what is recorded of rows, and determine each next step. Steps that rows say others have
 * finished are recorded too. A row that ran elsewhere, and whose progress is unknown, is held and
 * removed from rows[0..*n-1].
 */
MUST_CHECK defib_err steps_plan_rows(const struct table_source *src, struct store *s,
                                     int64_t worker, struct work_row **rows, int *n,
                                     struct arena *a, struct failure *f);
/* What a settlement changes in the records of its job's steps, each with a statement of its own. */
enum step_mark_kind {
	MARK_RUN,     /* a step was finished: recorded anew */
	MARK_UNDO,    /* a step recorded as done is changed */
	MARK_ATTEMPT, /* an attempt that the step's own record does not describe */
};
struct step_mark {
	enum step_mark_kind kind;
	const char *job, *step, *output, *error;
	enum step_state state;
	enum settle_as as; /* of an attempt */
	bool undo;         /* of an attempt: it was to undo the step */
	bool passed;       /* of an undo: nothing was run */
	int64_t position, epoch;
};
struct step_marks {
	int n, cap;
	struct step_mark *items;
};
void steps_mark(const struct settlement *g, const struct work_row *row, enum step_after after,
                struct arena *a, struct step_marks *out);
MUST_CHECK defib_err steps_record(const struct table_sql *q, struct store *s,
                                  const struct step_marks *marks, struct arena *a,
                                  struct failure *f);
/* The result of a completed rollback, including marks that are not recorded yet. */
struct undo_report {
	const char *error; /* what could not be undone; NULL: nothing */
	const char *evidence;
};
MUST_CHECK defib_err steps_report(const struct table_sql *q, struct store *s, const char *job,
                                  const struct step_marks *marks, struct arena *a,
                                  struct undo_report *out, struct failure *f);

#endif
