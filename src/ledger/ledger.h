/*
 * ledger.h: the append-only record of what was decided and done, and the
 * holds, in the user's own database.
 *
 * Entries are written in the transaction of the change they record, as its
 * last statement. Where the role may not create the tables, defib works
 * without them and says what is off.
 */
#ifndef LEDGER_LEDGER_H
#define LEDGER_LEDGER_H

#include "store/store.h"

struct ledger {
	bool ready;
	bool made;             /* this open created it */
	char off_because[256]; /* why it is not ready */
};

/*
 * Look for the ledger; create it when it is missing and `create` is set. A
 * missing privilege is not a failure: then `ready` is false and says why.
 */
MUST_CHECK defib_err ledger_open(struct store *s, bool create, struct ledger *out,
                                 struct failure *f);

struct ledger_entry {
	const char *job, *event, *verdict, *rule, *reason;
	const char *evidence, *before, *after; /* JSON or NULL */
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
MUST_CHECK defib_err ledger_has_batch(struct store *s, const char *batch, struct arena *a,
                                      bool *found, struct failure *f);

/* What the ledger knows about a job. */
struct history {
	int64_t recoveries;     /* within the time asked for */
	bool held;              /* there is a hold … */
	const char *hold_owner; /* … for this owner */
	bool hold_has_sign;
	int64_t hold_sign_us; /* … and this sign of life */
};

/* Fill history[i] for jobs[i]; jobs without any are zeroed. */
MUST_CHECK defib_err ledger_history(struct store *s, const char *watch, const char *const *jobs,
                                    int n, int64_t within_us, struct arena *a,
                                    struct history *history, struct failure *f);

struct hold {
	const char *job, *cause, *reason, *owner;
	bool has_sign;
	int64_t sign_us;
};

/* Put jobs on hold inside the caller's transaction. */
MUST_CHECK defib_err ledger_hold(struct store *s, const struct ledger_context *ctx,
                                 const struct hold *holds, int n, struct arena *a,
                                 struct failure *f);

#endif
