/* SPDX-License-Identifier: Apache-2.0
 * work_trial.h: the SET lists of a watch's `work:`, tried on a row as a worker writes them, in a
 * transaction that is rolled back. A claim must leave the row running and no longer ready, and each
 * end must end that: the checks are those that a worker makes in its own transaction.
 *
 * A rollback does not take back everything. The caller decides whether a list may be executed, by
 * what work_trial_reads() says of it; opening only prepares.
 */
#ifndef WORKER_WORK_TRIAL_H
#define WORKER_WORK_TRIAL_H

#include "store/store.h"
#include "watch/watch.h"

struct work_trial;

/* Compiles the lists and has the database parse them; nothing is executed. */
MUST_CHECK defib_err work_trial_open(const struct watch *w, struct store *s,
                                     struct work_trial **out, struct failure *f);
void work_trial_close(struct work_trial *t);

#define WORK_TRIAL_CLAIM 0 /* the number of work.claim */
/* The lists by number, from 0; an end that has no list of its own is not among them. */
int work_trial_count(void);
/* "work.done"; NULL: the watch has no such list. */
const char *work_trial_option(const struct work_trial *t, int list);

#define WORK_TRIAL_STATEMENTS 5
/* What a trial of a list executes. */
struct work_trial_reads {
	const char *statements[WORK_TRIAL_STATEMENTS]; /* ends with NULL */
	const char *sets[2];                           /* the SET lists among them, as texts */
	const char **columns;                          /* that they assign */
	int ncolumns;
};
/* With `claims`, a ready row is claimed first; else only a row that runs already is used. */
void work_trial_reads(struct work_trial *t, int list, bool claims, struct arena *a,
                      struct work_trial_reads *out);

enum work_tried {
	WORK_TRIED,  /* it does what its name says */
	WORK_WRONG,  /* it does not: the failure says why, and what to change */
	WORK_NO_ROW, /* no row could be used */
};
/*
 * Try one on a row that nobody has locked. *job is that row. An error is the database's, which may
 * refuse the write of this row alone.
 */
MUST_CHECK defib_err work_trial_try(struct work_trial *t, struct store *s, int list, bool claims,
                                    struct arena *a, enum work_tried *as, const char **job,
                                    struct failure *f);

#endif
