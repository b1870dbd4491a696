/* SPDX-License-Identifier: Apache-2.0
 * ledger.h: the append-only record of what was decided and done, and the holds, in the user's own
 * database.
 *
 * The room keeps what defib must remember: entries, holds, pending retries (retries.h), steps,
 * overrides by operators, and for how long (retention.h). Its tables are sql/postgres_ledger.sql,
 * made and brought up to date by schema.h. Entries are written in the transaction of the change
 * they record, as its last statement, and chained by seals (seal.h). Where the role may not create
 * the tables, defib works without them and says what is off. Begin with ledger_append() here and
 * with events.h: what an entry can record, and what counts as a recovery.
 */
#ifndef LEDGER_LEDGER_H
#define LEDGER_LEDGER_H

#include "store/store.h"
#include "watch/facts.h"

struct ledger {
	bool ready;
	bool made;             /* this open created it, or brought it up to date */
	char off_because[256]; /* why it is not ready */
};

/*
 * Look for the ledger; create it, or bring an older one up to date, when
 * `create` is set. A missing privilege is not a failure: then `ready` is false
 * and says why.
 */
MUST_CHECK defib_err ledger_open(struct store *s, bool create, struct ledger *out,
                                 struct failure *f);

struct ledger_entry {
	const char *job, *event, *verdict, *rule, *reason;
	const char *evidence, *before, *after; /* JSON or NULL */
	bool has_epoch;
	int64_t epoch;
};

/* Who acts, on what, in which batch: the same for all entries of one append. */
struct ledger_context {
	const char *watch, *batch, *actor;
};

/* Append inside the caller's transaction; must be its last statement before commit. */
MUST_CHECK defib_err ledger_append(struct store *s, const struct ledger_context *ctx,
                                   const struct ledger_entry *entries, int n, struct arena *a,
                                   struct failure *f);
/* Whether a batch was committed: how an unknown outcome is resolved. */
MUST_CHECK defib_err ledger_has_batch(struct store *s, const char *batch, bool *found,
                                      struct failure *f);

/* ---- reading */

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
 * defib_epoch and defib_running)" and adds an entry for each of its rows, if they are as many as
 * expected and none is running. It returns a row of how many were written, how many are running,
 * and the number, before and after of one of the first; at least one row. Its own parameters are
 * from `first` on.
 */
#define LEDGER_WITH_PARAMS 6
void ledger_with(struct buf *sql, int first);
void ledger_with_params(const struct ledger_context *ctx, const char *event, int64_t expected,
                        int64_t returned, struct store_param *params);

/* What is asked for; NULL and 0 ask for any. */
struct ledger_filter {
	const char *watch, *job, *event, *actor;
	const char *batch; /* this one, or all parts of a scan: "X" is also "X.1", "X.2", … */
	int64_t since_us;  /* not older than this, by the database's clock */
	int64_t after_id;  /* only ids above */
	int64_t up_to_id;  /* only ids up to this one */
	int64_t limit;     /* at most so many; 0: LEDGER_READ_MAX */
	bool newest_first;
};
#define LEDGER_READ_MAX 10000

/* Whether there is a ledger to read, of whatever version, also for who may not write to it. */
MUST_CHECK defib_err ledger_exists(struct store *s, bool *exists, struct failure *f);
MUST_CHECK defib_err ledger_read(struct store *s, const struct ledger_filter *filter,
                                 struct arena *a, struct ledger_row **out, int *n,
                                 struct failure *f);
/*
 * The highest id that can be seen; 0: no entries. Ids are committed in their
 * order, so that nothing below it comes later: a cursor for who reads on.
 */
MUST_CHECK defib_err ledger_top(struct store *s, int64_t *id, struct failure *f);

/* ---- what is known of jobs (history.c) */

/* The rule, and the actor, of what is done for gone instances at the start of a worker or daemon.
 */
#define RULE_STARTUP "startup"

/* Of which owner and sign of life something was said, and with how many attempts. */
struct noted {
	bool is;
	bool of_job; /* false: the entry says nothing of the job as it was */
	const char *owner;
	bool has_sign, has_attempts;
	int64_t sign_us, attempts;
};

struct history {
	/*
	 * Recoveries within the time asked for, since an operator last acted on the job. Those of a
	 * mass event or a start do not count: they are not the job's fault.
	 */
	int64_t recoveries;
	bool held;              /* there is a hold … */
	const char *hold_owner; /* … for this owner */
	bool hold_has_sign;
	int64_t hold_sign_us; /* … and this sign of life */
	const char *hold_cause, *hold_reason, *hold_at;
	const char *hold_after; /* the columns that it wrote, as JSON; NULL: none, or not known */
	struct noted noted;     /* as what it was reported stuck, last */
	struct noted let_go;    /* as what a person let it go, last, without a write to its row */
};

/*
 * Fill history[i] for jobs[i]; jobs without any are zeroed. What was noted is
 * the `after` of the latest ZOMBIE_DETECTED: {"owner": text, "sign_us": number},
 * either may be null; what was let go likewise, with "attempts" where they are known.
 */
MUST_CHECK defib_err ledger_history(struct store *s, const char *watch, const char *const *jobs,
                                    int n, int64_t within_us, struct arena *a,
                                    struct history *history, struct failure *f);
/*
 * FROM … WHERE …: the entries `l` that count as recoveries of a job, not older
 * than the microseconds in parameter `within`. For statements of other rooms; to be translated
 * (store/dialect.h).
 */
void ledger_counted(struct buf *out, const char *watch, const char *job, int within);
/* The entries that ledger_history counts as one job's recoveries, oldest first. */
MUST_CHECK defib_err ledger_recoveries(struct store *s, const char *watch, const char *job,
                                       int64_t within_us, struct arena *a, struct ledger_row **out,
                                       int *n, struct failure *f);

/* ---- holds */

struct hold {
	const char *job, *cause, *reason, *owner;
	bool has_sign;
	int64_t sign_us;
};

/* Put jobs on hold inside the caller's transaction. */
MUST_CHECK defib_err ledger_hold(struct store *s, const struct ledger_context *ctx,
                                 const struct hold *holds, int n, struct arena *a,
                                 struct failure *f);

struct held_job {
	const char *watch, *job, *cause, *reason, *owner, *batch;
	const char *at; /* ISO, UTC */
	bool has_sign;
	int64_t sign_us;
};

/* Holds, oldest first; `watch` and `job` NULL: of all. */
MUST_CHECK defib_err ledger_holds_list(struct store *s, const char *watch, const char *job,
                                       int limit, struct arena *a, struct held_job **out, int *n,
                                       struct failure *f);
/* The holds of a watch by job, behind the job `after`; NULL: the first. */
MUST_CHECK defib_err ledger_holds_page(struct store *s, const char *watch, const char *after,
                                       int limit, struct arena *a, struct held_job **out, int *n,
                                       struct failure *f);
/* Which of the jobs have a hold, in force or not: held[i] of jobs[i], false where `jobs[i]` has
 * none.
 */
MUST_CHECK defib_err ledger_holds_among(struct store *s, const char *watch, const char *const *jobs,
                                        int n, struct arena *a, bool *held, struct failure *f);
/* Let jobs go inside the caller's transaction; jobs without a hold are no failure. */
MUST_CHECK defib_err ledger_holds_drop(struct store *s, const char *watch, const char *const *jobs,
                                       int n, struct arena *a, struct failure *f);
/* Forget one hold, where it is still this one, in a transaction of its own. */
MUST_CHECK defib_err ledger_hold_forget(struct store *s, const struct held_job *h, struct arena *a,
                                        struct failure *f);

#endif
