/*
 * prune.h: retention: the one way in which entries leave the ledger.
 *
 * What is removed is a prefix of the ledger in the order of its ids, so that
 * what is left has no holes. That it is being removed is itself an entry,
 * written with the first part: whatever happens then, the ledger says so.
 */
#ifndef LEDGER_PRUNE_H
#define LEDGER_PRUNE_H

#include "ledger/ledger.h"

struct prune_plan {
	int64_t count;      /* entries that are older */
	int64_t last_id;    /* the youngest of them */
	const char *cutoff; /* ISO, UTC, by the database's clock */
};

/* What is older than this; changes nothing. */
MUST_CHECK defib_err prune_plan(struct store *s, int64_t older_us, struct arena *a,
                                struct prune_plan *out, struct failure *f);
/*
 * Remove the next part, at most `limit` entries, in a transaction of its own.
 * The first part (*removed is 0) appends the PRUNED entry. Call it until
 * *removed reaches the plan's count; it may stop short when somebody else
 * prunes too, then *over is set.
 */
MUST_CHECK defib_err prune_part(struct store *s, const struct prune_plan *plan,
                                const struct ledger_context *ctx, int64_t limit, int64_t *removed,
                                bool *over, struct failure *f);

#endif
