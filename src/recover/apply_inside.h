/* SPDX-License-Identifier: Apache-2.0
 * apply_inside.h: what the files of apply share.
 *
 * apply.c           the transaction: lock, read again, write the user's table, check what it left
 * apply_ledger.c    what the batch leaves in defib's own tables
 * apply_whole.c     all of it in one statement, where nothing surprises
 * apply_blockers.c  why rows could not be locked
 */
#ifndef RECOVER_APPLY_INSIDE_H
#define RECOVER_APPLY_INSIDE_H

#include "ledger/jobs.h"
#include "recover/apply.h"

/* A batch under way. */
struct batch {
	const struct apply *ap;
	struct candidate *all;
	int n;
	struct arena *arena;
	struct job_index index;
	/* By candidate: the row after the writes; job NULL: not written, not read again, or gone. */
	struct facts *written;
	int barred;     /* candidates that must not be written after all: all is taken back */
	int noted;      /* entries in the ledger that go with no write */
	bool surprised; /* the whole did not come out as decided: all is taken back, and done singly */
};

static inline const struct watch *batch_watch(const struct batch *b)
{
	return b->ap->sql->binding->watch;
}

/* Still to be written. */
static inline bool acts(const struct candidate *c)
{
	return c->decision.act && c->outcome == OUTCOME_LEFT;
}

/* Stuck, only reported, and not in the ledger yet as it is now. */
static inline bool to_be_noted(const struct batch *b, const struct candidate *c)
{
	return b->ap->ledger->ready && !c->decision.act && c->does == REMEDY_REPORT &&
	       c->judgement.verdict != VERDICT_NONE && !c->facts.noted;
}

/* Run a statement over the keys of all candidates that `want` holds for. */
MUST_CHECK defib_err over_keys(struct batch *b, const char *sql,
                               bool (*want)(const struct candidate *), struct store_rows *rows,
                               struct failure *f);
/* The candidate that a returned row is about, by its key in the first columns; NULL: none. */
struct candidate *by_row(struct batch *b, const struct store_rows *rows, int row);
/* The key of a candidate, and what its write takes of it, into the row in the making. */
void add_keys(const struct batch *b, const struct candidate *c, struct relation *r);
void add_values(const struct candidate *c, const struct write_sql *w, struct relation *r);
/*
 * Lock, write and record the batch at once. *done: it was tried; b->surprised says that it must be
 * taken back. Where not, nothing was written.
 */
MUST_CHECK defib_err apply_whole(struct batch *b, bool *done, struct failure *f);
/* Before anything is written: what the ledger knows goes into the evidence of a poison hold. */
MUST_CHECK defib_err gather_evidence(struct batch *b, struct failure *f);
/*
 * Behind the writes: rows that were put on hold since they were decided about count as barred. They
 * are locked by now, so whoever holds another comes before this look or after the commit.
 */
MUST_CHECK defib_err bar_held(struct batch *b, struct failure *f);
/* Holds, pending retries, and the ledger as the last statement. */
MUST_CHECK defib_err write_own_tables(struct batch *b, struct failure *f);

#endif
