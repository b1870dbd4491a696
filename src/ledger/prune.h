/* SPDX-License-Identifier: Apache-2.0
 * prune.h: removes old entries of the ledger, and keeps the chain of seals.
 */
#ifndef LEDGER_PRUNE_H
#define LEDGER_PRUNE_H

#include "ledger/ledger.h"

struct prune_plan {
	int64_t count;      /* entries that are older */
	int64_t last_id;    /* the newest of them */
	const char *cutoff; /* ISO, UTC, by the database's clock */
};

/* Only the cutoff of a plan, for callers that remove without counting first. */
MUST_CHECK defib_err prune_cutoff(struct store *s, int64_t older_us, struct arena *a,
                                  struct prune_plan *out, struct failure *f);
/* Count the entries older than this; changes nothing. */
MUST_CHECK defib_err prune_plan(struct store *s, int64_t older_us, struct arena *a,
                                struct prune_plan *out, struct failure *f);
/*
 * Remove the next part, at most `limit` entries (but a whole statement), in a transaction of its
 * own, and record a PRUNED entry. *over is set if there was nothing to remove: another process
 * prunes too, or the rest was written by one statement together with entries that must stay.
 */
MUST_CHECK defib_err prune_part(struct store *s, const struct prune_plan *plan,
                                const struct ledger_context *ctx, int64_t limit, int64_t *removed,
                                bool *over, struct failure *f);

#endif
