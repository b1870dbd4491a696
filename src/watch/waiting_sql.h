/* SPDX-License-Identifier: Apache-2.0
 * waiting_sql.h: the statements about rows that wait. Each reads a bounded number of rows; late
 * ones come in the order of due_at, so that an index on it serves them.
 */
#ifndef WATCH_WAITING_SQL_H
#define WATCH_WAITING_SQL_H

#include "watch/compile.h"

#define WAITING_ROWS 1000       /* late rows that are read one by one */
#define WAITING_SCHEDULES 10000 /* rows that are schedules */
#define WAITING_KINDS 100       /* kinds that are told apart */
#define WAITING_CLAIMS 10000    /* running rows that are read */

/* look_waiting, late_kinds and claims of the watch, if it says which rows wait. */
void compile_waiting(const struct binding *b, struct arena *a, struct watch_sql *out);
/*
 * By kind: when a job that no longer runs was last started, of those that were started within
 * `within_us`. False: no column tells. Without an index it reads the whole table.
 */
bool sql_ended_claims(const struct binding *b, int64_t within_us, struct buf *out);

#endif
