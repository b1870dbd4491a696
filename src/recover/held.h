/* SPDX-License-Identifier: Apache-2.0
 * held.h: which holds of a watch are holds now.
 *
 * A hold is over when its job has moved on (look.c), without anybody deleting it. Who counts
 * must ask the rows; and one that only told of a state of the row is cleared away when it is over.
 */
#ifndef RECOVER_HELD_H
#define RECOVER_HELD_H

#include "ledger/ledger.h"
#include "watch/compile.h"
#include "watch/facts.h"

/*
 * Whether a job is on hold as people read it: a hold of ours still holds it, or its state, as the
 * watch calls it, is "held". `state` is what the row says; NULL: nothing.
 */
bool held_now(const struct watch *w, const struct facts *f, const char *state);

struct held_count {
	int64_t all;
	int64_t running; /* of these: still running, and so stuck as well */
	int64_t retries; /* beside them: retries that wait for their time */
};
/*
 * What of a watch waits. Beyond HELD_LOOK_MAX holds in our table the rows are not asked, and each
 * counts, as a running one.
 */
#define HELD_LOOK_MAX 10000
MUST_CHECK defib_err held_count(struct store *s, const struct watch_sql *q, struct held_count *out,
                                struct failure *f);
/* The holds that are in force, oldest first, `most` at most; of HELD_LOOK_MAX. */
MUST_CHECK defib_err held_jobs(struct store *s, const struct watch_sql *q, int most,
                               struct arena *a, struct held_job **out, int *n, struct failure *f);
/*
 * Forget holds in the table's own words that are over, and those whose row is gone: nothing
 * depends on them, as the row itself keeps automation away. Others stay, whatever became of them.
 */
MUST_CHECK defib_err held_clear(struct store *s, const struct watch_sql *q, struct failure *f);

#endif
