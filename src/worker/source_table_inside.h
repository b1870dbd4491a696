/* SPDX-License-Identifier: Apache-2.0
 * source_table_inside.h: what the files of a table's source share.
 *
 * source_table.c         claiming, queries about leases, and the user's statements while a job is
 *                        in hand and at its end
 * source_table_settle.c  recording how jobs ended
 * source_table_own.c     the statements on defib's own tables
 * source_table_steps.c   the steps of workflows: what is next, what is recorded
 * source_table_sql.c     the statements: with the user's SQL, and on defib's own tables
 */
#ifndef WORKER_SOURCE_TABLE_INSIDE_H
#define WORKER_SOURCE_TABLE_INSIDE_H

#include "base/clock.h"
#include "watch/compile.h"
#include "worker/workflow.h"

/* X(enum, member of struct work, option): the SET lists */
#define WORK_LISTS(X)                                                                              \
	X(CLAIM, claim, "work.claim")                                                                  \
	X(DONE, done, "work.done")                                                                     \
	X(FAILED, failed, "work.failed")                                                               \
	X(TIMED_OUT, timed_out, "work.timed_out")                                                      \
	X(RELEASE, release, "work.release")                                                            \
	X(RETRY, retry, "work.retry")                                                                  \
	X(STEP, step, "work.step")                                                                     \
	X(ROLLED_BACK, rolled_back, "work.rolled_back")

enum work_list {
#define X(id, member, option) LIST_##id,
	WORK_LISTS(X)
#undef X
		LIST_NONE
};

extern const char *const work_list_options[LIST_NONE];

/* Columns of `claimed` and `facts` after the key. */
enum work_column {
	WORK_KIND,
	WORK_ATTEMPTS,
	WORK_MAX,
	WORK_RUNNING,
	WORK_CANCEL,
	WORK_UNDO,  /* the row must be undone */
	WORK_READY, /* it may be claimed */
	WORK_NOW,
	WORK_PAYLOAD
};

struct table_sql {
	struct binding binding;
	const char *live; /* $1 worker: its name and the database's clock, if it is alive */
	/* By whether rows must be undone; [true] is NULL if none ever is. */
	const char *peek[2];     /* a row if there is anything to claim */
	const char *pick[2];     /* $1 limit: keys, then enum pick_column; in the order of work */
	const char *take;        /* $1 worker, relation of job: enum take_column of each lease taken */
	const char *claimed;     /* relation of keys: enum work_column */
	const char *lock_leases; /* $1 worker, relation of given: enum lease_column */
	const char *beat_leases; /* the same, without those that another transaction has locked */
	const char *repeated;    /* $1 worker, relation of given: pos */
	const char *lock_rows;   /* relation of keys; PostgreSQL only */
	const char *facts;       /* relation of keys: enum work_column without the payload */
	const char *end_leases;  /* $1 worker, relation of ended */
	const char *now_held;    /* relation of given: pos, epoch, owner */
	const char *owned;       /* $1 worker: job, epoch */
	const char *cancelling;  /* $1 worker: job, epoch; NULL: the watch has no cancel */
	const char *holds;       /* $1 worker, $2 job, $3 epoch */
	struct write_sql lists[LIST_NONE]; /* sql is NULL where the watch has none */
	const char *steps;                 /* relation of job: enum step_column */
	const char *record_runs;           /* relation of runs */
	const char *keep_runs;             /* relation of undos */
	const char *record_undos;          /* the same */
	const char *record_attempts;       /* relation of attempts */
	const char *drop_attempts;         /* the same */
	bool counts_runs;                  /* the row's own attempts rise with each claim */
	int nbeat, nafter;
	struct write_sql *beat, *after;
};

enum pick_column { PICK_KIND, PICK_STEPS_DONE, PICK_LEASED, PICK_OWNER, PICK_SIGN };
enum take_column { TAKE_JOB, TAKE_EPOCH, TAKE_ATTEMPTS, TAKE_ALONE };
enum lease_column { LEASE_POS, LEASE_ATTEMPTS, LEASE_WORKER, LEASE_NOW };
enum step_column { STEP_JOB, STEP_NAME, STEP_STATE, STEP_OUTPUT, STEP_ERROR };

MUST_CHECK defib_err table_sql_compile(const struct watch *w, const char *kind, struct store *s,
                                       struct arena *a, struct table_sql *out, struct failure *f);

/* Relations over which statements on our own tables run. */
enum own_rows {
	ROWS_NONE,
	ROWS_GIVEN,    /* pos, job, epoch of settlements */
	ROWS_JOBS,     /* job */
	ROWS_RUNS,     /* job, step, position, epoch, output: finished steps */
	ROWS_UNDOS,    /* job, step, state, error, epoch, ran: new states of finished steps */
	ROWS_ATTEMPTS, /* job, step, position, epoch, undo, outcome, error: what finished no step */
	ROWS_ENDED,    /* job, settled (its epoch, or null if it was refused), attempts, pause_ms */
};
/* source_table_own.c */
void own_relation(enum own_rows of, enum store_engine engine, struct relation *r);
void own_statements_compile(const struct binding *b, struct arena *a, struct table_sql *out);

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

/* source_table_steps.c */
/*
 * Read what is recorded of rows, and determine each next step. Steps that rows say others have
 * finished are recorded too. A row that ran elsewhere, and whose progress is unknown, is held and
 * removed from rows[0..*n-1].
 */
MUST_CHECK defib_err steps_plan_rows(const struct table_source *src, struct store *s,
                                     int64_t worker, struct work_row **rows, int *n,
                                     struct arena *a, struct failure *f);
/* What a settlement changes in the records of its job's steps, each with a statement of its own. */
enum step_mark_kind {
	MARK_RUN,     /* a step was finished: recorded anew */
	MARK_UNDO,    /* a step recorded as done is changed */
	MARK_ATTEMPT, /* an attempt that the step's own record does not describe */
};
struct step_mark {
	enum step_mark_kind kind;
	const char *job, *step, *output, *error;
	enum step_state state;
	enum settle_as as; /* of an attempt */
	bool undo;         /* of an attempt: it was to undo the step */
	bool passed;       /* of an undo: nothing was run */
	int64_t position, epoch;
};
struct step_marks {
	int n, cap;
	struct step_mark *items;
};
void steps_mark(const struct settlement *g, const struct work_row *row, enum step_after after,
                struct arena *a, struct step_marks *out);
MUST_CHECK defib_err steps_record(const struct table_sql *q, struct store *s,
                                  const struct step_marks *marks, struct arena *a,
                                  struct failure *f);
/* The result of a completed rollback, including marks that are not recorded yet. */
struct undo_report {
	const char *error; /* what could not be undone; NULL: nothing */
	const char *evidence;
};
MUST_CHECK defib_err steps_report(const struct table_sql *q, struct store *s, const char *job,
                                  const struct step_marks *marks, struct arena *a,
                                  struct undo_report *out, struct failure *f);

/*
 * The attempts of a job, the current one included. Where claims do not raise the row's own number,
 * the lease, which counts the claims since the job last came to an end, may know of more.
 */
static inline int64_t work_attempts(const struct table_sql *q, int64_t of_row, int64_t of_lease)
{
	return q->counts_runs || of_row > of_lease ? of_row : of_lease;
}

/* source_table.c */
/* Make the source in memory that the caller allocated; a failure frees that memory. */
MUST_CHECK defib_err table_open(struct table_source *t, const struct watch *w, const char *kind,
                                struct store *s, struct failure *f);
void table_free(struct source *src);

/* source_table_settle.c */
defib_err table_settle(struct source *src, struct store *s, int64_t worker, struct settlement *all,
                       int n, struct arena *a, struct failure *f);

/* ---- jobs being settled ---- */

struct ending {
	struct settlement *given;
	struct work_row row;
	bool leased; /* the lease is ours, and locked */
	bool found;  /* the row exists, and is as the claim left it */
	bool cancelled;
	bool undoing; /* the row is being undone */
	bool limited; /* max_attempts is known */
	int64_t lease_attempts, max_attempts;
	int64_t pause_ms;          /* before it may be claimed again */
	bool retry;                /* it will be retried */
	bool over;                 /* no attempts are left */
	enum step_after after;     /* of a step */
	struct undo_report report; /* at the end of a rollback: the row has its error … */
	const char *error;         /* … and this is the step's own */
	enum work_list list;
};

struct settling {
	struct table_source *src;
	struct store *store;
	int64_t worker;
	struct ending *all;
	int n;
	struct arena *arena;
	struct step_marks marks; /* of accepted ends */
};

static inline bool leased(const struct ending *e)
{
	return e->leased;
}

static inline bool writable(const struct ending *e)
{
	return e->leased && e->found;
}

static inline bool handed_back(const struct ending *e)
{
	return e->given->as == SETTLE_RELEASED || e->given->as == SETTLE_STOPPED;
}

/* A step of a workflow, or a row that is being undone. */
static inline bool is_step(const struct ending *e)
{
	return e->given->step.side != STEP_SIDE_NONE || e->undoing;
}

/* Decide the outcome of each, without database or clock. */
void decide_endings(struct settling *z);
/* Whether this was the last attempt that the watch allows. */
bool attempts_exhausted(const struct table_source *src, const struct ending *e);
/* An ended job whose row is ready nevertheless. */
void wait_if_failed(struct settling *z, struct ending *e);

#endif
