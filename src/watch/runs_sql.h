/* SPDX-License-Identifier: Apache-2.0
 * runs_sql.h: the runs of a watch that ended by themselves, as a statement.
 *
 * `stats:` of a watch says when a row's run began and when it ended. Rows that
 * count as failed are left out: many of them were ended by a remedy, and then
 * the time says when that came, not how long the work takes.
 */
#ifndef WATCH_RUNS_SQL_H
#define WATCH_RUNS_SQL_H

#include "watch/compile.h"

/*
 * The newest runs that ended after $1 and up to $2 (microseconds), $3 at most:
 * the key's parts, kind, start and end in microseconds. False: the watch does
 * not say when runs begin and end.
 */
bool runs_sql(const struct binding *b, struct buf *out);

#endif
