/* SPDX-License-Identifier: Apache-2.0
 * compile_parts.h: the parts that statements over the rows of a watch are made of.
 */
#ifndef WATCH_COMPILE_PARTS_H
#define WATCH_COMPILE_PARTS_H

#include "watch/compile.h"

/* Fill out->writes, out->before and out->named. */
MUST_CHECK defib_err compile_writes(const struct binding *b, struct arena *a, struct watch_sql *out,
                                    struct failure *f);
/* Fill out->whole, where it can be; after all others (compile_whole.c). */
void compile_wholes(const struct binding *b, struct arena *a, struct watch_sql *out);
/* A SET list as an UPDATE over a relation of jobs (write_relation); it returns their keys. */
MUST_CHECK defib_err compile_set(const struct binding *b, const struct sql_text *set,
                                 struct arena *a, struct write_sql *out, struct failure *f);
/*
 * A statement of the user's over the relation `work`: the jobs that a worker of ours has
 * in hand, with key columns, attempt, now, step, worker and epoch.
 */
void compile_work(const struct binding *b, const struct sql_text *statement, struct arena *a,
                  struct write_sql *out);
/*
 * What the ledger keeps of a row, as one JSON object: the columns that remedies write, and what a
 * claim changes (the other columns that running, owner, attempts, epoch and the signs of life name;
 * as ":epoch" and so on, what these find in other tables). NULL where remedies write nothing.
 */
void kept_columns(const struct binding *b, const struct watch_sql *q, struct buf *out);
/* t.key = relation.defib_k1 AND … */
void join_keys(const struct binding *b, const char *relation, struct buf *out);
/* t.key::text, … */
void key_list(const struct binding *b, const char *alias, struct buf *out);

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
/* watch_sql.unreadable: rows whose times cannot be read (compile_whole.c). */
const char *compile_unreadable(const struct binding *b, struct arena *a);

#endif
