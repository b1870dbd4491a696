/* SPDX-License-Identifier: Apache-2.0
 * ledger.h: the append-only record of decisions and changes, and the holds, in the user's own
 * database.
 *
 * The room keeps what defib must remember: entries, holds, pending retries (retries.h), steps,
 * overrides by operators, and how long to keep them (retention.h). Its tables are in
 * sql/postgres_ledger.sql; schema.h creates them. Entries are written in the transaction of the
 * change they record, as its last statement, and chained by seals (seal.h). If the role may not
 * create the tables, defib works without them and says which features are off. Begin with
 * ledger_append() here and with events.h: what an entry can record, and what counts as a recovery.
 */
#ifndef LEDGER_LEDGER_H
#define LEDGER_LEDGER_H

#include "store/store.h"
#include "watch/facts.h"

struct ledger {
	bool ready;
	bool made;             /* this call created it */
	char off_because[256]; /* why it is not ready */
	enum failure_advice off_advice;
};

/*
 * Look for the ledger; with `create`, create it if it does not exist. A missing privilege is not a
 * failure: `ready` is then false, and `off_because` says why.
 */
MUST_CHECK defib_err ledger_open(struct store *s, bool create, struct ledger *out,
                                 struct failure *f);

struct ledger_entry {
	const char *job, *event, *verdict, *rule, *reason;
	const char *evidence, *before, *after; /* JSON or NULL */
	bool has_epoch;
	int64_t epoch;
};

/* The actor, the watch and the batch: the same for all entries of one append. */
struct ledger_context {
	const char *watch, *batch, *actor;
};

/* Append inside the caller's transaction; must be its last statement before commit. */
MUST_CHECK defib_err ledger_append(struct store *s, const struct ledger_context *ctx,
                                   const struct ledger_entry *entries, int n, struct arena *a,
                                   struct failure *f);
/*
 * Take the lock under which entries are added, without waiting; *got is false if another
 * transaction has it. First in a transaction that sees one snapshot: nobody adds entries after that
 * snapshot, which would keep this transaction from adding its own.
 */
MUST_CHECK defib_err ledger_try_lock(struct store *s, bool *got, struct arena *a,
                                     struct failure *f);
/* Whether a batch was committed. Resolves an unknown outcome. */
MUST_CHECK defib_err ledger_has_batch(struct store *s, const char *batch, bool *found,
                                      struct failure *f);

/* ---- reading ---- */

struct ledger_row {
	int64_t id;
	const char *at; /* ISO, UTC */
	const char *batch, *watch, *job, *event, *actor, *verdict, *rule, *reason;
	const char *evidence, *before, *after; /* JSON or NULL */
	bool has_epoch;
	int64_t epoch;
};

/*
 * PostgreSQL: the end of a statement that begins "WITH defib_w AS (a write that returns defib_at,
 * defib_job, defib_verdict, defib_rule, defib_reason, defib_evidence, defib_before, defib_after,
 * defib_epoch and defib_running)". It adds an entry for each of those rows, if they have the
 * expected number and none is running. It returns at least one row: how many were written, how many
 * are running, and the number, before and after of one of the first. Its own parameters start at
 * `first`.
 */
#define LEDGER_WITH_PARAMS 6
void ledger_with(struct buf *sql, int first);
void ledger_with_params(const struct ledger_context *ctx, const char *event, int64_t expected,
                        int64_t returned, struct store_param *params);

/* What to select; NULL and 0 select any. */
struct ledger_filter {
	const char *watch, *job, *event, *actor;
	const char *batch; /* this one, or all parts of a scan: "X" is also "X.1", "X.2", … */
	int64_t since_us;  /* not older than this, by the database's clock */
	int64_t after_id;  /* only ids above */
	int64_t up_to_id;  /* only ids up to this one */
	int64_t limit;     /* at most this many; 0: LEDGER_READ_MAX */
	bool newest_first;
};
#define LEDGER_READ_MAX 10000

/* Whether there is a ledger to read, even for a role that may not write to it. */
MUST_CHECK defib_err ledger_exists(struct store *s, bool *exists, struct failure *f);
MUST_CHECK defib_err ledger_read(struct store *s, const struct ledger_filter *filter,
                                 struct arena *a, struct ledger_row **out, int *n,
                                 struct failure *f);
/* The roles that added these entries, as their seals say; all NULL where the engine has no roles.
 */
MUST_CHECK defib_err ledger_roles(struct store *s, const struct ledger_row *entries, int n,
                                  struct arena *a, const char ***out, struct failure *f);
/*
 * ledger_read() by one statement if that is fast enough, else in windows of ids (window.h), until
 * there are enough entries, the ledger ends or the time is over. Not inside a transaction.
 */
struct ledger_bound {
	int64_t within_ms; /* time limit of the one statement; 0: the session's */
	int64_t for_ms;    /* how long to read in windows after it; 0: to the end of the ledger */
	/* Set: */
	bool cut;       /* the time was over first; the search continues … */
	int64_t end_id; /* … after this id, or before it with newest_first */
};
MUST_CHECK defib_err ledger_search(struct store *s, const struct ledger_filter *filter,
                                   struct ledger_bound *bound, struct arena *a,
                                   struct ledger_row **out, int *n, struct failure *f);
/*
 * The highest visible id; 0: no entries. Ids are committed in order, so no lower id appears later:
 * readers can use it as a cursor.
 */
MUST_CHECK defib_err ledger_top(struct store *s, int64_t *id, struct failure *f);
/*
 * ledger_top() for a reader that has read up to `place`. A ledger that ends before that is an older
 * one that was put in its place: reading continues at its end.
 */
MUST_CHECK defib_err ledger_top_after(struct store *s, int64_t *place, int64_t *id,
                                      struct failure *f);
/*
 * ledger_top(), and which ledger it is: the beginning of the database's id, which was drawn when
 * the tables were made; "" if this role may not read it. A cursor that is kept names it: in a
 * database that was made again, ids begin again.
 */
#define LEDGER_OF_SIZE 9
MUST_CHECK defib_err ledger_end(struct store *s, int64_t *top, char of[LEDGER_OF_SIZE],
                                struct failure *f);

/* ---- what is known about jobs (history.c) ---- */

/* The rule, and the actor, of the cleanup after dead instances when a worker or daemon starts. */
#define RULE_STARTUP "startup"

/*
 * An excuse is a hold's sister in the same table: a row with a verdict. What was judged is its
 * owner and sign_us, and these; recover/excuse.h compares.
 */
struct excuse {
	const char *verdict;          /* NULL: the row is a hold */
	const char *sign;             /* whose time sign_us is, by name; NULL: none */
	const char *state, *progress; /* NULL: not judged */
	bool has_attempts;
	int64_t attempts;
	const char *actor;
};

/* The owner, sign of life and attempts that an entry is about. */
struct noted {
	bool is;
	bool of_job; /* false: the entry does not describe the job's state */
	const char *owner;
	bool has_sign, has_attempts;
	int64_t sign_us, attempts;
};

struct history {
	/*
	 * Recoveries within the given time, since an operator last acted on the job. Recoveries from a
	 * mass event or a start do not count: they are not the job's fault.
	 */
	int64_t recoveries;
	bool held;              /* there is a hold … */
	const char *hold_owner; /* … for this owner */
	bool hold_has_sign;
	int64_t hold_sign_us; /* … and this sign of life */
	const char *hold_watch, *hold_cause, *hold_reason;
	int64_t hold_at_us;
	const char *hold_after; /* the columns that it wrote, as JSON; NULL: none, or not known */
	struct excuse excuse;   /* without verdict: it is a hold */
	struct noted noted;     /* when it was last reported stuck */
	struct noted released;  /* when an operator last released it without a write to its row */
};

/* ---- holds ---- */

struct hold {
	const char *job, *cause, *reason, *owner;
	bool has_sign;
	int64_t sign_us;
	struct excuse excuse; /* without verdict: none */
};

/*
 * A hold belongs to a row: to a table with its key (`table_key`, from the watch's binding) and a
 * job. The watch that made it is where it is listed and counted.
 */

/* Put jobs on hold inside the caller's transaction. */
MUST_CHECK defib_err ledger_hold(struct store *s, const struct ledger_context *ctx,
                                 const char *table_key, const struct hold *holds, int n,
                                 struct arena *a, struct failure *f);

struct held_job {
	const char *watch, *job, *cause, *reason, *owner, *batch;
	const char *at; /* ISO, UTC */
	bool has_sign;
	int64_t sign_us;
	const char *table_key;
	struct excuse excuse;
};

/* Holds and excuses, oldest first; `watch` and `job` NULL: all. */
MUST_CHECK defib_err ledger_holds_list(struct store *s, const char *watch, const char *job,
                                       int limit, struct arena *a, struct held_job **out, int *n,
                                       struct failure *f);
enum hold_rows {
	HOLDS_OWN,       /* the holds that a watch made */
	HOLDS_OF_OTHERS, /* those that other watches made for rows of its table */
	HOLDS_EXCUSES,   /* the excuses of rows of its table, whichever watch made them */
};
/* Of these rows, a page by job, after the job `after`; NULL: from the first. */
MUST_CHECK defib_err ledger_holds_page(struct store *s, enum hold_rows which, const char *watch,
                                       const char *table_key, const char *after, int limit,
                                       struct arena *a, struct held_job **out, int *n,
                                       struct failure *f);
/* The holds and excuses of these rows, in force or not, in no order. */
MUST_CHECK defib_err ledger_holds_of(struct store *s, const char *table_key,
                                     const char *const *jobs, int njobs, struct arena *a,
                                     struct held_job **out, int *n, struct failure *f);
/* Release jobs inside the caller's transaction. Jobs without a hold are not a failure. */
MUST_CHECK defib_err ledger_holds_drop(struct store *s, const char *table_key,
                                       const char *const *jobs, int n, struct arena *a,
                                       struct failure *f);
/* Delete one hold, if it is still the same one, in a transaction of its own. */
MUST_CHECK defib_err ledger_hold_forget(struct store *s, const struct held_job *h, struct arena *a,
                                        struct failure *f);

#endif
