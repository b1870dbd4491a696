/* SPDX-License-Identifier: Apache-2.0
 * held.h: which holds of a watch are in force.
 *
 * A hold is over when its job has moved on (look.c); its row in our table may remain. So counting
 * holds requires reading the rows. A hold that only mirrors a state of the row is deleted when it
 * is over, and so is an excuse.
 */
#ifndef RECOVER_HELD_H
#define RECOVER_HELD_H

#include "ledger/ledger.h"
#include "watch/compile.h"

/*
 * Whether a job is on hold as reported to people: a hold of ours is in force, or its state, as the
 * watch names it, is "held". `state` is the row's; NULL: none.
 */
bool held_now(const struct watch *w, const struct facts *f, const char *state);

struct held_count {
	int64_t all;     /* each is counted by the watch that made it */
	int64_t running; /* rows on hold, by whichever watch, that still run and so are also stuck */
	int64_t retries; /* in addition: retries that wait for their time */
	/* Excused from the verdict that they have now, by whichever watch … */
	int64_t excused;
	/* … and of these the ones that a look finds in the table: they are to be left out there. */
	int64_t excused_found, excused_as[VERDICT_COUNT];
};
/*
 * What waits in a watch. Beyond HELD_LOOK_MAX holds in our table the rows are not read, and each
 * counts as in force and running.
 */
#define HELD_LOOK_MAX 10000
MUST_CHECK defib_err held_count(struct store *s, const struct watch_sql *q, struct held_count *out,
                                struct failure *f);
/*
 * How many jobs are stuck, without the excused, including those on hold: look_stuck() counts both.
 */
MUST_CHECK defib_err held_stuck(struct store *s, const struct watch_sql *q, bool ledger, int64_t *n,
                                struct failure *f);
/* The holds in force, oldest first, at most `most`; from the first HELD_LOOK_MAX. */
MUST_CHECK defib_err held_jobs(struct store *s, const struct watch_sql *q, int most,
                               struct arena *a, struct held_job **out, int *n, struct failure *f);
/*
 * Delete holds that the user's table also records, if they are over, and holds whose row is gone.
 * Nothing depends on them, because the row itself keeps scans away. Other holds stay, whatever
 * happened to them. Excuses of the watch whose judged facts have changed are deleted too.
 */
MUST_CHECK defib_err held_clear(struct store *s, const struct watch_sql *q, struct failure *f);

#endif
