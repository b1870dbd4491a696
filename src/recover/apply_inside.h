/* SPDX-License-Identifier: Apache-2.0
 * apply_inside.h: what the files of apply share.
 *
 * apply.c           the transaction: lock, read again, write the user's table, check the result
 * apply_ledger.c    what the batch writes to defib's own tables
 * apply_whole.c     all of it in one statement, for the common case
 * apply_blockers.c  why rows could not be locked
 */
#ifndef RECOVER_APPLY_INSIDE_H
#define RECOVER_APPLY_INSIDE_H

#include "ledger/jobs.h"
#include "recover/apply.h"

/* A batch under way. */
struct batch {
	struct apply *ap;
	struct candidate *all;
	int n;
	struct arena *arena;
	struct job_index index;
	/*
	 * By candidate: the row after the writes; job is NULL if it was not written, not read again, or
	 * is gone.
	 */
	struct facts *written;
	int barred;     /* candidates that must not be written after all: roll back everything */
	int noted;      /* ledger entries without a write to the table */
	bool stable;    /* its statements see one snapshot */
	bool surprised; /* the whole statement had another result than decided: roll back, then use
	                   single statements */
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

/* Stuck, only reported, and not yet in the ledger in its current state. */
static inline bool to_be_noted(const struct batch *b, const struct candidate *c)
{
	return b->ap->ledger->ready && !c->decision.act && c->does == REMEDY_REPORT &&
	       c->judgement.verdict != VERDICT_NONE && !c->facts.noted;
}

/* Run a statement over the keys of all candidates for which `want` is true. */
MUST_CHECK defib_err over_keys(struct batch *b, const char *sql,
                               bool (*want)(const struct candidate *), struct store_rows *rows,
                               struct failure *f);
/* The candidate of a returned row, by its key in the first columns; NULL: none. */
struct candidate *by_row(struct batch *b, const struct store_rows *rows, int row);
/* Append the key of a candidate and the values that its write uses to the current row. */
void add_keys(const struct batch *b, const struct candidate *c, struct relation *r);
void add_values(const struct candidate *c, const struct write_sql *w, struct relation *r);
/*
 * Lock, write and record the batch in one statement. *done: it was tried; if b->surprised, it must
 * be rolled back. If not *done, nothing was written.
 */
MUST_CHECK defib_err apply_whole(struct batch *b, bool *done, struct failure *f);
/* Before anything is written: add what the ledger knows to the evidence of a poison hold. */
MUST_CHECK defib_err gather_evidence(struct batch *b, struct failure *f);
/*
 * After the writes: rows that were put on hold since the decision count as barred. The rows are
 * locked by now, so any other hold is made either before this read or after the commit.
 */
MUST_CHECK defib_err bar_held(struct batch *b, struct failure *f);
/* Holds, pending retries, and the ledger as the last statement. */
MUST_CHECK defib_err write_own_tables(struct batch *b, struct failure *f);

#endif
