/*
 * stats_sql.h: counting the rows of a watch, as statements without parameters.
 *
 * They read the whole table, or what stats.where leaves of it: the time-out of
 * a statement bounds them, and who asks must be ready for that.
 */
#ifndef WATCH_STATS_SQL_H
#define WATCH_STATS_SQL_H

#include "watch/compile.h"

/* state, count; the most first, STATS_STATES_MAX at most. False: the watch knows no state. */
#define STATS_STATES_MAX 50
bool states_sql(const struct binding *b, struct buf *out);
/*
 * failed, completed, measured, average and 95th percentile of the duration in
 * microseconds; null where the watch does not say how. False: it says nothing.
 */
bool ends_sql(const struct binding *b, struct buf *out);

#endif
