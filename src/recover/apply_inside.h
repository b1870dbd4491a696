/*
 * apply_inside.h: what the files of apply share.
 *
 * apply.c         the transaction: lock, read again, write the user's table
 * apply_ledger.c  what the batch leaves in defib's own tables
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
	struct facts *left; /* by candidate: what a hold in the table's words left; job NULL: nothing */
	int noted;          /* entries in the ledger that go with no write */
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

/* Before anything is written: what the ledger knows goes into the evidence of a poison hold. */
MUST_CHECK defib_err gather_evidence(struct batch *b, struct failure *f);
/* Holds, pending retries, and the ledger as the last statement. */
MUST_CHECK defib_err write_own_tables(struct batch *b, struct failure *f);

#endif
