/* SPDX-License-Identifier: Apache-2.0
 * look.h: the only place that reads candidate rows, page by page.
 */
#ifndef RECOVER_LOOK_H
#define RECOVER_LOOK_H

#include "ledger/ledger.h"
#include "watch/compile.h"
#include "watch/facts.h"

/* A key as one text: as it is, or a JSON array of its parts. */
const char *job_text(const char *const *key, int n, struct arena *a);
/* The same text as parts again; false when it does not have `n`. */
bool job_key(const char *job, int n, struct arena *a, const char *key[WATCH_KEYS_MAX]);
/* One row of look or reread as facts; texts stay in the rows' arena. */
void facts_decode(const struct watch_sql *q, const struct store_rows *rows, int row,
                  struct arena *a, struct facts *out);

/*
 * The next page of candidates: at most `limit`, oldest first, behind `after`
 * (NULL: from the start), of one `owner` (NULL: of all). Runs in a read-only transaction of its own
 * and adds what the ledger knows.
 */
MUST_CHECK defib_err look_page(struct store *s, const struct watch_sql *q, const struct ledger *l,
                               const char *owner, int64_t limit, const struct facts *after,
                               struct arena *a, struct facts **out, int *n, struct failure *f);
/* One job by its key, stuck or not; *found is false when there is no such row. */
MUST_CHECK defib_err look_one(struct store *s, const struct watch_sql *q, const struct ledger *l,
                              const char *const *key, struct arena *a, struct facts *out,
                              bool *found, struct failure *f);
/*
 * Jobs by their texts, stuck or not, with the columns that remedies write;
 * those that are not there are not among the answers.
 */
MUST_CHECK defib_err look_jobs(struct store *s, const struct watch_sql *q, const struct ledger *l,
                               const char *const *jobs, int njobs, struct arena *a,
                               struct facts **out, int *n, struct failure *f);
/* A running row with a sign of life that is no time. */
struct unreadable {
	const char *key[WATCH_KEYS_MAX];
	const char *job;
	enum sign sign;
	const char *value;
};
/* They are in no page; UNREADABLE_MAX of them at most. */
MUST_CHECK defib_err look_unreadable(struct store *s, const struct watch_sql *q, struct arena *a,
                                     struct unreadable **out, int *n, struct failure *f);
/* How many rows are running, ROWS_COUNT_MAX at most. */
MUST_CHECK defib_err look_running(struct store *s, const struct watch_sql *q, int64_t *n,
                                  struct failure *f);
/* How many are stuck, those on hold included, ROWS_COUNT_MAX at most. */
MUST_CHECK defib_err look_stuck(struct store *s, const struct watch_sql *q, int64_t *n,
                                struct failure *f);

#endif
