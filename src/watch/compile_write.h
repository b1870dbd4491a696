/* SPDX-License-Identifier: Apache-2.0
 * compile_write.h: what a remedy writes, as statements.
 */
#ifndef WATCH_COMPILE_WRITE_H
#define WATCH_COMPILE_WRITE_H

#include "watch/compile.h"

/* Whether a statement of an act may write more than the jobs' own rows: the user's, or a trigger.
 */
bool act_writes_beyond(const struct watch_sql *q, int act);
/* Of any remedy. */
bool watch_writes_beyond(const struct watch_sql *q);

/* The relation that a write takes: keys, then the columns it uses. */
void write_relation(const struct binding *b, const struct write_sql *w, struct relation *r);
/* Append those of the first `n` columns that `uses` (of a write: its uses, or its facts) names. */
void write_values(const bool *uses, const struct write_value *values, int n, struct relation *r);
/* Prepare what is read and written, so that invalid SQL is reported before anything is done. */
MUST_CHECK defib_err watch_prepare(const struct watch_sql *q, struct store *s, struct arena *a,
                                   struct failure *f);
/* Fill out->writes, out->before and out->named. */
MUST_CHECK defib_err compile_writes(const struct binding *b, struct arena *a, struct watch_sql *out,
                                    struct failure *f);
/* A SET list as an UPDATE over a relation of jobs (write_relation). Returns their keys. */
MUST_CHECK defib_err compile_set(const struct binding *b, const struct sql_text *set,
                                 struct arena *a, struct write_sql *out, struct failure *f);
/*
 * A statement of the user over the relation `work`: the jobs that one of our workers is running,
 * with key columns, attempt, now, step, worker, epoch and metadata.
 */
void compile_work(const struct binding *b, const struct sql_text *statement, struct arena *a,
                  struct write_sql *out);
/*
 * What the ledger keeps of a row, as one JSON object: the columns that remedies write, and what a
 * claim changes (the other columns that running, owner, attempts, epoch and the signs of life name;
 * and as ":epoch" and so on, what these read from other tables). NULL if remedies write nothing.
 */
void kept_columns(const struct binding *b, const struct watch_sql *q, struct buf *out);

#endif
