/*
 * compile_write.h: the statements that change something, for compile.c.
 */
#ifndef WATCH_COMPILE_WRITE_H
#define WATCH_COMPILE_WRITE_H

#include "watch/compile.h"

/* Fill out->writes and out->before. */
MUST_CHECK defib_err compile_writes(const struct binding *b, struct arena *a, struct watch_sql *out,
                                    struct failure *f);
/*
 * A SET list as an UPDATE over a relation of jobs (write_relation); it returns
 * the key and the columns that q's remedies write.
 */
MUST_CHECK defib_err compile_set(const struct binding *b, const struct watch_sql *q,
                                 const struct sql_text *set, struct arena *a, struct write_sql *out,
                                 struct failure *f);
/*
 * A statement of the user's over the relation `work`: the jobs that a worker of ours has
 * in hand, with key columns, attempt, now, step, worker and epoch.
 */
void compile_work(const struct binding *b, const struct sql_text *statement, struct arena *a,
                  struct write_sql *out);
/*
 * The columns that remedies write, as one JSON object; NULL when there are
 * none. `alias` is "t." or "".
 */
void written_columns(const struct binding *b, const struct watch_sql *q, const char *alias,
                     struct buf *out);
/* t.key = relation.defib_k1 AND … */
void join_keys(const struct binding *b, const char *relation, struct buf *out);
/* t.key::text, … */
void key_list(const struct binding *b, const char *alias, struct buf *out);

#endif
