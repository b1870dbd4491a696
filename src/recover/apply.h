/* SPDX-License-Identifier: Apache-2.0
 * apply.h: the guarded write, one transaction a batch.
 *
 * Three statements, each new after the one before: lock the rows by key and
 * skip what others hold; read the judged facts again; write what is still as
 * it was judged, and the ledger last. Whatever changed in between is left
 * alone and counted.
 */
#ifndef RECOVER_APPLY_H
#define RECOVER_APPLY_H

#include "ledger/ledger.h"
#include "recover/candidate.h"
#include "watch/compile.h"

/* Why a row is refused; the function of `defib install` says the same. */
#define REFUSED_SHARED_KEY "its key names more than one row"
#define REFUSED_KEY_WRITTEN "the write changes its key, so the ledger could not name the row"
#define REFUSED_RUNS_ON " leaves running true, so it would be found stuck again"

struct apply {
	struct store *store;
	const struct watch_sql *sql;
	const struct ledger *ledger;
	const char *actor, *batch;
	bool lock_signs; /* the role may lock rows of other tables that signs of life stand in */
	bool first;      /* of a run: the changes of its first rows are told in words */
};

/*
 * Apply the decisions of a batch in one transaction and set each outcome.
 * Candidates whose decision does not act keep OUTCOME_LEFT or become
 * OUTCOME_HELD. On failure no outcome is final: the transaction was rolled
 * back, or, with DEFIB_UNKNOWN_OUTCOME, may have been committed: then the
 * outcomes are what they are if it was.
 */
MUST_CHECK defib_err apply_batch(const struct apply *ap, struct candidate *batch, int n,
                                 struct arena *a, struct failure *f);
/*
 * What would come of one candidate: everything up to our own tables is done and rolled back. Its
 * outcome is OUTCOME_LEFT where it would be written, else as apply_batch() tells it.
 */
MUST_CHECK defib_err apply_try(const struct apply *ap, struct candidate *c, struct arena *a,
                               struct failure *f);
/*
 * Whether the role may also lock the rows of other tables that the signs of life
 * stand in (watch_sql.lock_signs). Where it may not, a beat can slip in between
 * the second reading and the commit.
 */
bool apply_may_lock_signs(struct store *s, const struct watch_sql *q);
/*
 * Find out, after commit, who holds the rows that were locked. Best effort. Those that nobody
 * holds, and that a policy hides from writers, become OUTCOME_REFUSED.
 */
void apply_blockers(const struct apply *ap, struct candidate *batch, int n, struct arena *a);

#endif
