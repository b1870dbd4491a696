/* SPDX-License-Identifier: Apache-2.0
 * runs.h: reading the runs that ended, for those who learn from them.
 */
#ifndef INSIGHT_RUNS_H
#define INSIGHT_RUNS_H

#include "watch/compile.h"

struct run {
	const char *job, *kind; /* kind NULL: none */
	int64_t finished_us, took_us;
};

/* The database's clock. */
MUST_CHECK defib_err runs_now(struct store *s, int64_t *us, struct failure *f);
/* Whether the watch says when its runs begin and end. */
bool runs_known(const struct watch *w);
/*
 * The newest `limit` runs that ended by themselves after `after_us` and up to
 * `until_us`. Times that cannot be (an end before its start) are left out;
 * *last_us is the latest end that was read, also of those. *more: the limit
 * kept runs out.
 */
MUST_CHECK defib_err runs_read(struct store *s, const struct binding *b, int64_t after_us,
                               int64_t until_us, int64_t limit, struct arena *a, struct run **out,
                               int *n, int64_t *last_us, bool *more, struct failure *f);

#endif
