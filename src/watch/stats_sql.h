/* SPDX-License-Identifier: Apache-2.0
 * stats_sql.h: statements that count the rows of a watch, without parameters.
 *
 * They read the whole table, or the part that stats.where selects. The statement time-out bounds
 * them, and callers must expect it. A caller that cannot wait reads a sample: pages on PostgreSQL,
 * always the same ones so that numbers do not jump; evenly spaced ranges of row ids on SQLite.
 */
#ifndef WATCH_STATS_SQL_H
#define WATCH_STATS_SQL_H

#include "watch/compile.h"

/* Which part of a table is counted. */
struct stats_sample {
	double share;        /* of its rows; 0: all rows are counted */
	int64_t first, span; /* SQLite: the lowest row id, and the distance to the highest */
};
#define SAMPLE_PAGES 600  /* PostgreSQL, approximately */
#define SAMPLE_ROWS 20000 /* SQLite, at most */

/*
 * The size of the table. PostgreSQL: pages; SQLite: lowest and highest row id. Parameter: its name.
 */
void table_size_sql(const struct binding *b, struct buf *out);
/* The sample of a table of that size: pages, or row ids. */
struct stats_sample stats_sample(enum store_engine engine, int64_t size, int64_t first);

/* state, count; largest count first, at most STATS_STATES_MAX. False: the watch has no states. */
#define STATS_STATES_MAX 50
bool states_sql(const struct binding *b, const struct stats_sample *sample, struct buf *out);
/*
 * state, count, failed for states that an index finds, each up to FEW_STATES_MAX: states that need
 * an operator are counted, never estimated. False: the watch names no such states.
 */
#define FEW_STATES_MAX 100000
bool few_states_sql(const struct binding *b, struct buf *out);
/*
 * failed, completed, measured, average and 95th percentile of the duration in microseconds; null
 * for what the watch does not define. False: it defines none.
 */
bool ends_sql(const struct binding *b, const struct stats_sample *sample, struct buf *out);

/* ---- how many jobs wait ---- */

#define DEPTH_COUNT_MAX 100000 /* counting stops here */
#define DEPTH_STATES_MAX 2

#define DEPTH_READY "ready"
struct depth_state {
	const char *name;  /* DEPTH_READY, "scheduled" */
	const char *where; /* a predicate over t */
};

/* The waiting states that a watch defines; returns how many. */
int depth_states(const struct watch *w, struct depth_state *out);
/* count and age of the oldest in microseconds; the age is null if rows do not record it. */
void depth_sql(const struct binding *b, const struct depth_state *s, struct buf *out);

/* ---- how many ended ---- */

/*
 * Rows that ended after $1 and up to $2 (microseconds): minute since 1970, how many ended well,
 * and how many failed. False: the watch does not say when runs end.
 */
bool ended_sql(const struct binding *b, struct buf *out);

/* ---- how long runs took ---- */

/*
 * The newest runs that ended after $1 and up to $2 (microseconds), at most $3: the parts of the
 * key, kind, start and end in microseconds. False: the watch does not say when runs begin and end.
 */
bool runs_sql(const struct binding *b, struct buf *out);

#endif
