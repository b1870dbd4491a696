/* SPDX-License-Identifier: Apache-2.0
 * source_table.h: a user's own table, configured by the `work` section of its watch.
 *
 * The user's rows contain what the user's SET lists write and nothing else. The worker of a job,
 * the time of its claim and the number of its claims are in defib's own lease table, one row per
 * job, claimed by INSERT … ON CONFLICT.
 *
 * Which list is written when a job ends:
 *   done                            done
 *   failed, crashed, permanent      failed
 *   timed_out                       timed_out, else failed
 *   released, stopped               release
 *   anything but done, of a row
 *   that `cancel` was written to    failed, with the error "cancelled" if it has none
 *   retry; or failed, timed_out and
 *   crashed where a backoff and
 *   max_attempts are given and
 *   attempts are left               release; else failed where a claim changed the row
 * A list that is not given changes only the lease.
 *
 * Jobs of a workflow run one step per claim. A finished step that is not the last writes `step`
 * (else release); other ends as above. A row that matches `rollback_ready` is claimed for its undo:
 * nothing is written to it until everything is undone, and then `rolled_back`.
 */
#ifndef WORKER_SOURCE_TABLE_H
#define WORKER_SOURCE_TABLE_H

#include "base/clock.h"
#include "worker/source_table_sql.h"
#include "worker/workflow.h"

/*
 * Bind and compile with a session on the table's database; `kind` NULL: all kinds. The watch must
 * outlive the source. DEFIB_CONFIG names the option that does not fit.
 */
MUST_CHECK defib_err source_table(const struct watch *w, const char *kind, struct store *s,
                                  struct source **out, struct failure *f);

/* ---- what its files share ---- */

struct table_source {
	struct source base;
	const struct watch *watch;
	struct arena arena;
	struct table_sql sql;
	struct chance chance;
};

/* A job that a SET list is written to, and the values of its parameters. */
struct work_row {
	const char *key[WATCH_KEYS_MAX];
	const char *job, *kind, *worker, *error, *result, *reason;
	const char *step;                         /* the running or ended one; NULL: none */
	const char *metadata;                     /* of a heartbeat, JSON; NULL: none */
	int64_t attempt, epoch, now_us, retry_us; /* retry_us 0: none */
	bool undoing;
	const char *steps_done, *owner; /* of a claim: as the row has them */
	bool leased;                    /* one of our workers had it before */
	bool alone;                     /* as in struct claimed */
	bool has_sign;
	int64_t sign_us;
	const struct workflow *workflow; /* NULL: it has none */
	const char *steps;               /* as in struct claimed */
	bool written;                    /* out */
};

/* Write one list to rows. A list that is not given writes nothing and reports success. */
MUST_CHECK defib_err work_write(const struct table_sql *q, struct store *s, enum work_list list,
                                struct work_row *const *rows, int n, struct arena *a,
                                struct failure *f);
/* Run a statement over a relation, which is then released; `worker` 0: it takes none. */
MUST_CHECK defib_err work_over(struct store *s, const char *sql, int64_t worker, struct relation *r,
                               struct arena *a, struct store_rows *rows, struct failure *f);
/* Run statements over the relation `work` of rows. */
MUST_CHECK defib_err work_run(const struct table_sql *q, struct store *s,
                              const struct write_sql *statements, int nstatements,
                              struct work_row *const *rows, int n, struct arena *a,
                              struct failure *f);
/* A relation with the keys of rows. */
void work_keys(const struct table_sql *q, struct work_row *const *rows, int n, struct relation *r);
/* The rows by job, and the one that a returned row belongs to; NULL: none. */
struct work_index;
struct work_index *work_index(const struct table_sql *q, struct work_row *const *rows, int n,
                              struct arena *a);
struct work_row *work_find(const struct work_index *x, const struct store_rows *rows, int row,
                           struct arena *a);

/*
 * The attempts of a job, the current one included. Where claims do not raise the row's own number,
 * the lease, which counts the claims since the job last came to an end, may know of more.
 */
static inline int64_t work_attempts(const struct table_sql *q, int64_t of_row, int64_t of_lease)
{
	return q->counts_runs || of_row > of_lease ? of_row : of_lease;
}

/* Make the source in memory that the caller allocated; a failure frees that memory. */
MUST_CHECK defib_err table_open(struct table_source *t, const struct watch *w, const char *kind,
                                struct store *s, struct failure *f);
void table_free(struct source *src);

/* A row as all statements and triggers have left it; `col` is the first column after the key. */
struct work_left {
	bool running, ready, undo;
};
static inline struct work_left work_left(const struct store_rows *rows, int row, int col)
{
	return (struct work_left){.running = row_bool(rows, row, col + WORK_RUNNING),
	                          .ready = row_bool(rows, row, col + WORK_READY),
	                          .undo = row_bool(rows, row, col + WORK_UNDO)};
}
/* DEFIB_CONFIG if a claimed row would not be seen as running, or would be claimed again. */
MUST_CHECK defib_err work_check_claim(const struct table_source *src, const struct work_row *row,
                                      const struct work_left *now, struct failure *f);

#endif
