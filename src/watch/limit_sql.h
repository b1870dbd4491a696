/* SPDX-License-Identifier: Apache-2.0
 * limit_sql.h: the limit of a row, as statements compute it; watch_limit_of() does the same from
 * facts.
 */
#ifndef WATCH_LIMIT_SQL_H
#define WATCH_LIMIT_SQL_H

#include "watch/watch.h"

/* The expressions of a statement; NULL: it has none. */
struct limit_sql {
	const char *state, *kind; /* as text */
	const char *own_us;       /* the row's own time-out */
};
/* Microseconds; null: the sign has no limit for the row. */
void sql_limit_us(const struct watch *w, enum sign s, const struct limit_sql *x, struct buf *out);
/* The state as it is configured, if the row is in one of those that have a limit; else null. */
void sql_limit_state(const struct threshold *t, const char *state, struct buf *out);
/*
 * A time-out of a row in microseconds, from an expression in seconds: null unless it is above zero,
 * and at most a century, so that it can be added to a time.
 */
struct own_limit {
	const char *seconds;
	double factor;
	int64_t least_us;
	bool typed; /* the engine has types: the expression is a number */
};
void sql_own_limit(const struct own_limit *own, struct buf *out);

#endif
