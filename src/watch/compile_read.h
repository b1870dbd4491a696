/* SPDX-License-Identifier: Apache-2.0
 * compile_read.h: the parts of the statements that read (compile.c), for other
 * statements over the same rows.
 */
#ifndef WATCH_COMPILE_READ_H
#define WATCH_COMPILE_READ_H

#include "watch/compile.h"

/* All facts, in the order of struct fact_columns; `reread`: also what remedies write. */
void fact_list(const struct binding *b, const struct watch_sql *q, bool reread, struct buf *out);
void from_table(const struct binding *b, struct buf *out);
/* The same, joined with a relation of keys from parameter 1 on. */
void from_keys(const struct binding *b, struct buf *out);
/* A key column as it is compared and ordered. */
void key_column(const struct binding *b, int k, struct buf *out);
void parameter(const struct binding *b, int number, const char *type, struct buf *out);
/* Running, and past a limit: what look takes for judge to decide. */
void stuck_condition(const struct binding *b, struct buf *out);
/* watch_sql.unreadable (compile_unreadable.c). */
const char *compile_unreadable(const struct binding *b, struct arena *a);

#endif
