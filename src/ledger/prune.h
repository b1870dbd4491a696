/* SPDX-License-Identifier: Apache-2.0
 * prune.h: retention: the one way in which entries leave the ledger.
 *
 * What is removed is a prefix of the ledger in the order of its ids, so that
 * what is left has no holes, and ends with a whole statement, so that the chain
 * of seals stays (seal.h). That it was removed is itself an entry, one a part. On
 * PostgreSQL a function of the ledger's owner does it, defib.ledger_prune():
 * nobody else can, whatever may be granted on the table.
 */
#ifndef LEDGER_PRUNE_H
#define LEDGER_PRUNE_H

#include "ledger/ledger.h"

struct prune_plan {
	int64_t count;      /* entries that are older */
	int64_t last_id;    /* the youngest of them */
	const char *cutoff; /* ISO, UTC, by the database's clock */
};

/* Only the cutoff of a plan, for who removes without counting first. */
MUST_CHECK defib_err prune_cutoff(struct store *s, int64_t older_us, struct arena *a,
                                  struct prune_plan *out, struct failure *f);
/* What is older than this; changes nothing. */
MUST_CHECK defib_err prune_plan(struct store *s, int64_t older_us, struct arena *a,
                                struct prune_plan *out, struct failure *f);
/*
 * Remove the next part, at most `limit` entries (but a whole statement), in a transaction of its
 * own, and leave its PRUNED entry. *over is set when there was nothing: somebody else prunes too,
 * or what is left was written by one statement with what must stay.
 */
MUST_CHECK defib_err prune_part(struct store *s, const struct prune_plan *plan,
                                const struct ledger_context *ctx, int64_t limit, int64_t *removed,
                                bool *over, struct failure *f);

#endif
