/* SPDX-License-Identifier: Apache-2.0
 * look.h: the only place that reads candidate rows, page by page.
 */
#ifndef RECOVER_LOOK_H
#define RECOVER_LOOK_H

#include "ledger/ledger.h"
#include "watch/compile.h"

/* A key as one text: as it is, or a JSON array of its parts. */
const char *job_text(const char *const *key, int n, struct arena *a);
/* The same text split into parts; false if it does not have `n`. */
bool job_key(const char *job, int n, struct arena *a, const char *key[WATCH_KEYS_MAX]);
/* A relation of the keys of these jobs. */
void jobs_keys(const struct binding *b, const char *const *jobs, int n, struct arena *a,
               struct relation *r);
/* One row of look or reread as facts; texts stay in the rows' arena. */
void facts_decode(const struct watch_sql *q, const struct store_rows *rows, int row,
                  struct arena *a, struct facts *out);

/* What a look reads, and where its results live. */
struct look {
	struct store *store;
	const struct watch_sql *sql;
	const struct ledger *ledger;
	struct arena *arena;
};

/*
 * The next page of candidates: at most `limit`, oldest first, after `after` (NULL: from the start),
 * of one `owner` (NULL: of all). Runs in a read-only transaction of its own and adds what the
 * ledger knows.
 */
MUST_CHECK defib_err look_page(const struct look *l, const char *owner, int64_t limit,
                               const struct facts *after, struct facts **out, int *n,
                               struct failure *f);
/*
 * Running rows whose values are remembered, at most `limit`, stuck or not, without what was seen of
 * them before (seen.h) and what the ledger knows; look_history() adds the latter.
 */
MUST_CHECK defib_err look_seen(const struct look *l, int64_t limit, struct facts **out, int *n,
                               struct failure *f);
/* Rows that wait: those that are late, or all schedules; otherwise as look_seen(). */
MUST_CHECK defib_err look_waiting(const struct look *l, int64_t limit, struct facts **out, int *n,
                                  struct failure *f);
MUST_CHECK defib_err look_history(const struct look *l, struct facts *facts, int n,
                                  struct failure *f);
/* One job by its key, stuck or not; *found is false if there is no such row. */
MUST_CHECK defib_err look_one(const struct look *l, const char *const *key, struct facts *out,
                              bool *found, struct failure *f);
/*
 * Jobs by their texts, stuck or not, with the columns that remedies write. Missing jobs are left
 * out of the result.
 */
MUST_CHECK defib_err look_jobs(const struct look *l, const char *const *jobs, int njobs,
                               struct facts **out, int *n, struct failure *f);
/* The same in the order of the jobs; the facts of a missing one have no job. */
MUST_CHECK defib_err look_each(const struct look *l, const char *const *jobs, int n,
                               struct facts **out, struct failure *f);
/* A running row with a sign of life that is not a valid time. */
struct unreadable {
	const char *key[WATCH_KEYS_MAX];
	const char *job;
	enum sign sign;
	const char *value;
};
/* No page contains them; at most UNREADABLE_MAX. */
MUST_CHECK defib_err look_unreadable(struct store *s, const struct watch_sql *q, struct arena *a,
                                     struct unreadable **out, int *n, struct failure *f);
/* The number that a query returns. */
MUST_CHECK defib_err look_number(struct store *s, const char *sql, int64_t *n, struct failure *f);
/* How many rows are running, at most ROWS_COUNT_MAX. */
MUST_CHECK defib_err look_running(struct store *s, const struct watch_sql *q, int64_t *n,
                                  struct failure *f);
/* How many are stuck, including those on hold, at most ROWS_COUNT_MAX. */
MUST_CHECK defib_err look_stuck(struct store *s, const struct watch_sql *q, int64_t *n,
                                struct failure *f);

/* ---- the oldest jobs ---- */

/*
 * The oldest jobs of a watch by their sign of life, whatever the rules say about them: for an
 * operator in an emergency.
 *
 * Waiting jobs count as well as running ones: if no worker runs, both grow old, and only running
 * jobs are ever judged stuck.
 */

struct aged {
	const char *job; /* facts.h */
	const char *key[WATCH_KEYS_MAX];
	int64_t age_us;
	bool alive; /* a live worker has it */
};

/* At most `limit` jobs whose sign of life is older than `older_us`, oldest first. */
MUST_CHECK defib_err aged_jobs(const struct binding *b, struct store *s, int64_t older_us,
                               int64_t limit, struct arena *a, struct aged **out, int *n,
                               struct failure *f);

/* ---- columns as the ledger keeps them ---- */

/* Some columns; `names` NULL: all. */
struct column_set {
	const char *const *names;
	int n;
};
/*
 * Whether `now` has the values of `expected`, for the columns that both and `only` name: a watch
 * may have come to write more columns since, or fewer. If not, *first (may be NULL) names the first
 * column that differs and its current value.
 */
bool columns_same(const char *expected, const char *now, const struct column_set *only,
                  struct arena *a, const char **first);
/*
 * The same for only those columns that an expression of the user names. A value that is unknown on
 * either side counts as equal.
 */
bool columns_same_in(const char *expression, enum store_engine engine, const char *expected,
                     const char *now);

#endif
