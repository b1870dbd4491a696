/* SPDX-License-Identifier: Apache-2.0
 * source_table_sql.h: the statements of a table's source, with the user's SQL and on defib's own
 * tables.
 */
#ifndef WORKER_SOURCE_TABLE_SQL_H
#define WORKER_SOURCE_TABLE_SQL_H

#include "watch/compile.h"
#include "worker/job.h"

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
void own_relation(enum own_rows of, enum store_engine engine, struct relation *r);
void own_statements_compile(const struct binding *b, struct arena *a, struct table_sql *out);

#endif
