/* SPDX-License-Identifier: Apache-2.0
 * near_misses.h: jobs that were seen silent once and were heard again before they were recovered.
 */
#ifndef RECOVER_NEAR_MISSES_H
#define RECOVER_NEAR_MISSES_H

#include "guard/guard.h"
#include "recover/look.h"

/* How many of the suspects that guard_end() returned. Reads at most NEAR_MISSES_MAX of them. */
#define NEAR_MISSES_MAX 1000
MUST_CHECK defib_err near_misses(struct store *s, const struct watch_sql *q, const struct ledger *l,
                                 const struct gone_suspect *gone, int ngone, struct arena *a,
                                 int64_t *n, struct failure *f);

#endif
