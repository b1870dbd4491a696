/* SPDX-License-Identifier: Apache-2.0
 * compile.h: compiles a bound watch to a few statements.
 *
 * look, lock, reread and write are made once per scan; `defib sql` prints them. The user's SQL is
 * inserted as written, in parentheses; everything else is quoted names and parameters. Numbers and
 * kinds from the configuration are written as literals, so that the printed SQL reads like the
 * watch itself.
 */
#ifndef WATCH_COMPILE_H
#define WATCH_COMPILE_H

#include "store/relation.h"
#include "watch/bind.h"

/* Parameters of SET lists and calls that a statement actually uses. */
enum stuck_column {
	STUCK_OWNER,
	STUCK_KIND,
	STUCK_ATTEMPT,
	STUCK_ALIVE_AT,
	STUCK_VERDICT,
	STUCK_REASON,
	STUCK_RETRY_AT,
	STUCK_EVIDENCE,
	STUCK_NOW,
	STUCK_STEP,
	STUCK_COUNT,
	/* Known only to a worker's own writes. */
	WORK_WORKER = STUCK_COUNT,
	WORK_ERROR,
	WORK_RESULT,
	WORK_EPOCH,
	WORK_METADATA,
	/* What an undo restores. */
	UNDO_BEFORE,
	WRITE_COLUMNS
};

/* Further columns of a whole statement, for the ledger and for the facts that were judged. */
enum whole_column {
	WHOLE_AT, /* the job's number in the batch */
	WHOLE_JOB,
	WHOLE_RULE,
	WHOLE_OWNER,
	WHOLE_KIND,
	WHOLE_ATTEMPTS,
	WHOLE_MAX_ATTEMPTS,
	WHOLE_EPOCH,
	WHOLE_STATE,
	WHOLE_PROGRESS,
	WHOLE_SIGN,
	WHOLE_OWN = WHOLE_SIGN + SIGN_COUNT,
	WHOLE_WHEN = WHOLE_OWN + SIGN_COUNT,
	WHOLE_COLUMNS
};

/* One statement that writes, over a relation of the jobs it is for. */
struct write_sql {
	const char *sql;
	const char *set; /* the SET list of an UPDATE; NULL: not an UPDATE */
	bool uses[WRITE_COLUMNS];
	bool returns; /* the keys of the rows that were written, with their new values */
	bool tells;   /* and after them what the ledger keeps of the row, and whether it is running */
	bool facts[WHOLE_COLUMNS]; /* of a whole statement: its additional columns */
};

/* The columns of look and reread, in this order; -1: the watch does not use it. */
struct fact_columns {
	int key, owner, owner_alive, kind, attempts, max_attempts, epoch, sign, state, progress,
		own[SIGN_COUNT], waiting, due, last_run, lost, now, running, position, when, show, masked,
		steps_done, late, before, count;
};

struct watch_sql {
	const struct binding *binding;
	struct fact_columns cols;
	const char *look_first; /* $1 limit */
	const char *look_next;  /* $1 limit, $2 position, $3… key */
	const char *look_owner; /* $1 limit, $2 owner; NULL where the watch has no owner */
	/*
	 * $1 limit: running rows whose values are remembered, in the order of the key, whether stuck or
	 * not; NULL: nothing is remembered.
	 */
	const char *look_seen;
	/*
	 * Of rows that wait; NULL: the watch does not say which. Those that are late, the oldest first;
	 * or all of them, if they are schedules. $1 limit.
	 */
	const char *look_waiting;
	const char *late_kinds; /* by kind: how many are late, and the earliest time at which one was
	                           due */
	const char *claims; /* by kind: jobs that run and are not stuck, their workers, newest claim */
	const char *look_one; /* $1… key; no condition, includes the columns that remedies write */
	const char *may[ACT_COUNT]; /* $1… key: whether its condition (end_when) holds, and its state */
	/*
	 * Running rows with a sign of life that cannot be read: the key, then for each sign its value
	 * or null. NULL: there can be none.
	 */
	const char *unreadable;
	/* Count up to ROWS_COUNT_MAX. */
	const char *count_running, *count_stuck;
	const char *lock;     /* relation of keys; PostgreSQL only */
	const char *lock_now; /* the same, but fails if another transaction holds one */
	/*
	 * The same, and also locks the rows of other tables that decide: state, signs of life, leases.
	 * After the key it returns columns: does another transaction hold one of them? NULL if there
	 * are none. Not every role may run it.
	 */
	const char *lock_signs;
	int nbusy;
	/*
	 * The same without signs of life. A beat that arrives with the commit is one that came too
	 * late; a state that is overwritten is lost. So a role must be able to run this. NULL: no state
	 * is in another table.
	 */
	const char *lock_states;
	int nbusy_states;
	/* An option that reads a state in a way that no lock can name; NULL: none. */
	const char *unlockable;
	/* The same with leases only: our own tables, which can always be locked. NULL: no leases. */
	const char *lock_leases;
	const char *reread;      /* relation of keys */
	const char *free_leases; /* relation of keys; NULL: no leases */
	const char *blockers;    /* relation of keys; PostgreSQL only: key, pid, seconds */
	/* By enum remedy and enum act: the statement itself, then the `also` statements of a remedy. */
	int nwrites[ACT_COUNT];
	struct write_sql *writes[ACT_COUNT];
	/*
	 * The same for bulk writes (compile_whole.c), PostgreSQL only: one UPDATE of the rows that are
	 * not locked and still as judged, which returns what the ledger keeps. NULL: only the single
	 * statements can be used.
	 */
	struct write_sql *whole[ACT_COUNT];
	int nbefore;
	const char **before; /* columns that remedies write */
	int nnamed;
	const char **named; /* other columns that show whether a job was claimed, by names_claim() */
};

/* Counting stops here: beyond this, the exact number is of no use. */
#define ROWS_COUNT_MAX 100000
#define UNREADABLE_MAX 100 /* reported per pass */

MUST_CHECK defib_err watch_compile(const struct binding *b, struct arena *a, struct watch_sql *out,
                                   struct failure *f);
/* A relation with the key columns only. */
void keys_relation(const struct binding *b, struct relation *r);
/* A value for one column of a write: a number, or a text (NULL is SQL NULL). */
struct write_value {
	const char *text;
	bool number;
	int64_t value;
};
/*
 * The index that lets look read only what it needs. PostgreSQL can build it `concurrently`, without
 * blocking writers, except on a partitioned table. False: it would contain every row in the order
 * of the key, because neither sign nor running can be indexed.
 */
bool watch_index(const struct binding *b, bool concurrently, struct buf *out);

/* An expression that is about the state of a job, as against its life: it must not be overwritten.
 */
struct state_sql {
	const char *option, *text; /* text NULL: not given */
};
#define STATES_MAX (7 + WATCH_RULES_MAX)
int watch_states(const struct watch *w, struct state_sql out[STATES_MAX]);

/* ---- the parts that statements are made of ---- */

/* t.key = relation.defib_k1 AND … */
void join_keys(const struct binding *b, const char *relation, struct buf *out);
/* t.key::text, … */
void key_list(const struct binding *b, const char *alias, struct buf *out);

/*
 * All facts, in the order of struct fact_columns; `reread`: also the columns that remedies write.
 */
void fact_list(const struct binding *b, const struct watch_sql *q, bool reread, struct buf *out);
void from_table(const struct binding *b, struct buf *out);
/* The same, joined with a relation of keys from parameter 1 on. */
void from_keys(const struct binding *b, struct buf *out);
/* WHERE the key is that of the parameters from 1 on. */
void where_key(const struct binding *b, struct buf *out);
/* A key column as it is compared and ordered. */
void key_column(const struct binding *b, int k, struct buf *out);
void parameter(const struct binding *b, int number, const char *type, struct buf *out);
/* Running, and past a limit: the rows that look returns for judge to decide. */
void stuck_condition(const struct binding *b, struct buf *out);
/* The expression as a column of text; NULL: of null. */
void text_column(const struct binding *b, const struct sql_text *sql, struct buf *out);

#endif
