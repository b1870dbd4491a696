/* SPDX-License-Identifier: Apache-2.0
 * apply.h: the guarded write, one transaction per batch.
 *
 * Three steps, each with a new snapshot: lock the rows by key, and those of other tables that
 * decide about them, and skip the locked ones; read the judged facts again; write the rows that are
 * still as judged, and the ledger last. Rows that changed in between are left alone and counted.
 *
 * An UPDATE that waits for a row checks only that row again, never what a sub-select said, and
 * would overwrite what was committed meanwhile. So statements that may write rows which nobody
 * locked for them (sql:, call:, also:, triggers) run on one snapshot (TX_STABLE): a row that
 * changed after it is a failure, and a locked one is not waited for.
 */
#ifndef RECOVER_APPLY_H
#define RECOVER_APPLY_H

#include "recover/candidate.h"
#include "watch/compile.h"

/* Why a row is refused; the function of `defib install` uses the same text. */
#define REFUSED_SHARED_KEY "its key names more than one row"
#define REFUSED_KEY_WRITTEN "the write changes its key, so the ledger could not name the row"
#define REFUSED_RUNS_ON " leaves running true, so it would be found stuck again"

struct apply {
	struct store *store;
	const struct watch_sql *sql;
	const struct ledger *ledger;
	const char *actor, *batch;
	bool lock_signs;    /* the role may lock rows of other tables that hold signs of life */
	bool first;         /* of a run: the changes to its first rows are logged in words */
	bool entries_first; /* a stable batch takes the ledger's lock before its snapshot */
	/*
	 * Set by a failure with DEFIB_LOCKED: it was about a row that a stable batch wrote or locked,
	 * and not about defib's own tables. With SQLSTATE 40001 the row changed, else it is locked.
	 */
	bool unlocked_row;
};

/*
 * Apply the decisions of a batch in one transaction and set each outcome. Candidates whose decision
 * does not act keep OUTCOME_LEFT or become OUTCOME_HELD. On failure no outcome is final: the
 * transaction was rolled back. With DEFIB_UNKNOWN_OUTCOME it may have been committed; then the
 * outcomes are those of the commit.
 */
MUST_CHECK defib_err apply_batch(struct apply *ap, struct candidate *batch, int n, struct arena *a,
                                 struct failure *f);
/*
 * Whether every statement looks up its rows by key: the user's own may join in any way, and keys
 * without an index need a full scan.
 */
bool apply_is_by_key(const struct watch_sql *q);
/*
 * What would become of one candidate: does everything except writes to our own tables, then rolls
 * back. The outcome is OUTCOME_LEFT if it would be written, otherwise as apply_batch() sets it.
 */
MUST_CHECK defib_err apply_try(const struct apply *ap, struct candidate *c, struct arena *a,
                               struct failure *f);
/*
 * Which rows of other tables the role may lock. *signs: those with signs of life too; if not, a
 * beat can arrive unnoticed between the second reading and the commit. DEFIB_REFUSED if the state
 * of a job is in rows that cannot be locked: nothing may be written then.
 */
MUST_CHECK defib_err apply_may_lock(struct store *s, const struct watch_sql *q, bool *signs,
                                    struct failure *f);
/*
 * Find out, after the commit, who holds the locked rows. Best effort. Rows that no transaction
 * holds, and that a policy hides from writers, become OUTCOME_REFUSED.
 */
void apply_blockers(const struct apply *ap, struct candidate *batch, int n, struct arena *a);

#endif
