/* SPDX-License-Identifier: Apache-2.0
 * digest_store.h: digests of past days, stored and read.
 */
#ifndef LEDGER_DIGEST_STORE_H
#define LEDGER_DIGEST_STORE_H

#include "ledger/digest.h"

MUST_CHECK defib_err ledger_digest(struct store *s, const char *watch, const struct period *p,
                                   int limit, struct arena *a, struct digest *out,
                                   struct failure *f);
/* Only the times. */
MUST_CHECK defib_err digest_times(struct store *s, const char *watch, const struct period *p,
                                  struct digest_times *out, struct failure *f);

/*
 * Sum up what the ledger has beyond the last digest, at most `most` digests, and remove digests of
 * entries that were pruned. `top` is ledger_top(). Does nothing until DIGEST_IDS are there.
 */
MUST_CHECK defib_err digest_write(struct store *s, int64_t top, int most, struct failure *f);

#endif
