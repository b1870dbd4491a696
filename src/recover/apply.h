/* SPDX-License-Identifier: Apache-2.0
 * apply.h: the guarded write, one transaction per batch.
 *
 * Three steps, each with a new snapshot: lock the rows by key and skip the locked ones; read the
 * judged facts again; write the rows that are still as judged, and the ledger last. Rows that
 * changed in between are left alone and counted.
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
	bool lock_signs; /* the role may lock rows of other tables that hold signs of life */
	bool first;      /* of a run: the changes to its first rows are logged in words */
};

/*
 * Apply the decisions of a batch in one transaction and set each outcome. Candidates whose decision
 * does not act keep OUTCOME_LEFT or become OUTCOME_HELD. On failure no outcome is final: the
 * transaction was rolled back. With DEFIB_UNKNOWN_OUTCOME it may have been committed; then the
 * outcomes are those of the commit.
 */
MUST_CHECK defib_err apply_batch(const struct apply *ap, struct candidate *batch, int n,
                                 struct arena *a, struct failure *f);
/*
 * What would become of one candidate: does everything except writes to our own tables, then rolls
 * back. The outcome is OUTCOME_LEFT if it would be written, otherwise as apply_batch() sets it.
 */
MUST_CHECK defib_err apply_try(const struct apply *ap, struct candidate *c, struct arena *a,
                               struct failure *f);
/*
 * Whether the role may also lock the rows of other tables that hold signs of life
 * (watch_sql.lock_signs). If not, a beat can arrive unnoticed between the second reading and the
 * commit.
 */
bool apply_may_lock_signs(struct store *s, const struct watch_sql *q);
/*
 * Find out, after the commit, who holds the locked rows. Best effort. Rows that no transaction
 * holds, and that a policy hides from writers, become OUTCOME_REFUSED.
 */
void apply_blockers(const struct apply *ap, struct candidate *batch, int n, struct arena *a);

#endif
