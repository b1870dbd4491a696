/* SPDX-License-Identifier: Apache-2.0
 * stats_sql.h: counting the rows of a watch, as statements without parameters.
 *
 * They read the whole table, or what stats.where leaves of it: the time-out of a statement bounds
 * them, and a caller must expect that. A caller that cannot wait reads a sample: pages on
 * PostgreSQL, always the same ones so that numbers do not jump; evenly spaced ranges of row ids on
 * SQLite.
 */
#ifndef WATCH_STATS_SQL_H
#define WATCH_STATS_SQL_H

#include "watch/compile.h"

/* Which part of a table is counted. */
struct stats_sample {
	double share;        /* of its rows; 0: all are counted */
	int64_t first, span; /* SQLite: the least row id, and from it to the last */
};
#define SAMPLE_PAGES 600  /* of PostgreSQL, about */
#define SAMPLE_ROWS 20000 /* of SQLite, at most */

/* How large the table is: PostgreSQL: pages; SQLite: least and last row id. Parameter: its name. */
void table_size_sql(const struct binding *b, struct buf *out);
/* The sample of a table of that size: pages, or row ids. */
struct stats_sample stats_sample(enum store_engine engine, int64_t size, int64_t first);

/* state, count; the most first, STATS_STATES_MAX at most. False: the watch knows no state. */
#define STATS_STATES_MAX 50
bool states_sql(const struct binding *b, const struct stats_sample *sample, struct buf *out);
/*
 * state, count, failed of those that an index finds, each up to FEW_STATES_MAX: what needs a
 * person is counted, never guessed. False: the watch names no such states.
 */
#define FEW_STATES_MAX 100000
bool few_states_sql(const struct binding *b, struct buf *out);
/*
 * failed, completed, measured, average and 95th percentile of the duration in
 * microseconds; null where the watch does not say how. False: it says nothing.
 */
bool ends_sql(const struct binding *b, const struct stats_sample *sample, struct buf *out);

/* ---- how much waits ---- */

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

/* ---- how long runs took ---- */

/*
 * The newest runs that ended after $1 and up to $2 (microseconds), $3 at most:
 * the key's parts, kind, start and end in microseconds. False: the watch does
 * not say when runs begin and end.
 */
bool runs_sql(const struct binding *b, struct buf *out);

#endif
