/*
 * source_table_sql.h: the statements of a table's source, for source_table.c
 * and source_table_settle.c.
 */
#ifndef WORKER_SOURCE_TABLE_SQL_H
#define WORKER_SOURCE_TABLE_SQL_H

#include "watch/compile.h"
#include "worker/source.h"

/* X(enum, member of struct work, option): the SET lists */
#define WORK_LISTS(X)                                                                              \
	X(CLAIM, claim, "work.claim")                                                                  \
	X(DONE, done, "work.done")                                                                     \
	X(FAILED, failed, "work.failed")                                                               \
	X(TIMED_OUT, timed_out, "work.timed_out")                                                      \
	X(RELEASE, release, "work.release")

enum work_list {
#define X(id, member, option) LIST_##id,
	WORK_LISTS(X)
#undef X
		LIST_NONE
};

/* Columns of `claimed` and `facts` behind the key. */
enum work_column {
	WORK_KIND,
	WORK_ATTEMPTS,
	WORK_MAX,
	WORK_RUNNING,
	WORK_CANCEL,
	WORK_NOW,
	WORK_PAYLOAD
};

struct table_sql {
	struct binding binding;
	const char *live;    /* $1 worker: its name and the database's clock, if it is alive */
	const char *peek;    /* a row if there is anything to claim */
	const char *pick;    /* $1 limit: keys, first to be worked on first */
	const char *take;    /* $1 worker, relation of job: job, epoch, attempts of each lease taken */
	const char *claimed; /* relation of keys: enum work_column */
	const char *lock_leases; /* $1 worker, relation of given: pos, attempts, worker's name */
	const char *repeated;    /* $1 worker, relation of given: pos */
	const char *lock_rows;   /* relation of keys; PostgreSQL only */
	const char *facts;       /* relation of keys: enum work_column without the payload */
	const char *end_leases;  /* $1 worker, relation of ended */
	const char *now_held;    /* relation of given: pos, epoch, owner */
	const char *owned;       /* $1 worker: job, epoch */
	const char *cancelling;  /* $1 worker: job, epoch; NULL: the watch has no cancel */
	const char *holds;       /* $1 worker, $2 job, $3 epoch */
	struct write_sql lists[LIST_NONE]; /* sql is NULL where the watch has none */
};

MUST_CHECK defib_err table_sql_compile(const struct watch *w, const char *kind, struct store *s,
                                       struct arena *a, struct table_sql *out, struct failure *f);

/* pos, job, epoch of settlements */
void given_relation(enum store_engine engine, struct relation *r);
/* job, settled (its epoch, or null where it was refused), attempts, pause_ms */
void ended_relation(enum store_engine engine, struct relation *r);

struct table_source {
	struct source base;
	const struct watch *watch;
	struct arena arena;
	struct table_sql sql;
	unsigned short chance[3]; /* state of erand48 */
};

/* A job that a SET list is written to, and what its parameters are. */
struct work_row {
	const char *key[WATCH_KEYS_MAX];
	const char *job, *kind, *worker, *error, *result, *reason;
	int64_t attempt, epoch, now_us, retry_us; /* retry_us 0: none */
	bool written;                             /* out */
};

/* Write one list to rows; a list that is not given writes nothing and says it did. */
MUST_CHECK defib_err work_write(const struct table_sql *q, struct store *s, enum work_list list,
                                struct work_row *const *rows, int n, struct arena *a,
                                struct failure *f);
/* Run a statement over a relation, which is released; `worker` 0: it takes none. */
MUST_CHECK defib_err work_over(struct store *s, const char *sql, int64_t worker, struct relation *r,
                               struct arena *a, struct store_rows *rows, struct failure *f);
/* A relation with the keys of rows. */
void work_keys(const struct table_sql *q, struct work_row *const *rows, int n, struct relation *r);
/* The rows by their job, and the one that a returned row is about; NULL: none. */
struct work_index;
struct work_index *work_index(const struct table_sql *q, struct work_row *const *rows, int n,
                              struct arena *a);
struct work_row *work_find(const struct work_index *x, const struct store_rows *rows, int row,
                           struct arena *a);

/* source_table_settle.c */
defib_err table_settle(struct source *src, struct store *s, int64_t worker, struct settlement *all,
                       int n, struct arena *a, struct failure *f);

#endif
