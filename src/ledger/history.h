/* SPDX-License-Identifier: Apache-2.0
 * history.h: a job's earlier recoveries.
 */
#ifndef LEDGER_HISTORY_H
#define LEDGER_HISTORY_H

#include "ledger/ledger.h"

/*
 * Fill history[i] for jobs[i]; jobs without any are zeroed. `noted` is the `after` of the latest
 * ZOMBIE_DETECTED: {"owner": text, "sign_us": number}, either may be null; `released` likewise,
 * with "attempts" if known.
 */
MUST_CHECK defib_err ledger_history(struct store *s, const char *watch, const char *table_key,
                                    const char *const *jobs, int n, int64_t within_us,
                                    struct arena *a, struct history *history, struct failure *f);
/*
 * FROM … WHERE …: the entries `l` that count as recoveries of a job, not older than the
 * microseconds in parameter `within`. For statements of other rooms; needs translation
 * (store/dialect.h).
 */
void ledger_counted(struct buf *out, const char *watch, const char *job, int within);
/* The entries that ledger_history counts as one job's recoveries, oldest first. */
MUST_CHECK defib_err ledger_recoveries(struct store *s, const char *watch, const char *job,
                                       int64_t within_us, struct arena *a, struct ledger_row **out,
                                       int *n, struct failure *f);

#endif
