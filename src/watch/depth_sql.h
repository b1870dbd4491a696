/* SPDX-License-Identifier: Apache-2.0
 * depth_sql.h: how much work waits, as statements without parameters: only of watches
 * that say which rows are ready to be worked on.
 */
#ifndef WATCH_DEPTH_SQL_H
#define WATCH_DEPTH_SQL_H

#include "watch/compile.h"

#define DEPTH_COUNT_MAX 100000 /* rows that are counted */
#define DEPTH_STATES_MAX 2

struct depth_state {
	const char *name;  /* "ready", "scheduled" */
	const char *where; /* a predicate over t */
};

/* What a watch knows of waiting rows; how many there are. */
int depth_states(const struct watch *w, struct depth_state *out);
/* count and age of the oldest in microseconds; the age is null where rows do not tell. */
void depth_sql(const struct binding *b, const struct depth_state *s, struct buf *out);

#endif
