/* SPDX-License-Identifier: Apache-2.0
 * mistakes.h: was a recovery a mistake, or nearly one? One of our own workers that comes back late
 * is rejected by its epoch, and the ledger records it at once. A foreign worker cannot be rejected.
 * The watch's `late_when` states what shows that such a worker finished a recovered job after all,
 * and this file looks for it.
 */
#ifndef RECOVER_MISTAKES_H
#define RECOVER_MISTAKES_H

#include "base/clock.h"
#include "guard/guard.h"
#include "ledger/counts.h"
#include "recover/look.h"

#define LATE_WITHIN_US DAY_US /* how long after a recovery a mistake is looked for */
#define LATE_JOBS 1000        /* checked at a time, the newest first */
#define LATE_EVERY_MS 60000   /* between checks of one scanner */
#define LATE_RULE "late-when"

/*
 * Check the recently recovered jobs and record a LATE_COMPLETION for each one for which late_when
 * is true now; *noted is how many. Costs one statement if nothing was recovered, and nothing if the
 * watch has no late_when.
 */
MUST_CHECK defib_err late_check(struct store *s, const struct binding *b, const char *actor,
                                int64_t *noted, struct failure *f);

/* "2 of 140 (1.4 %)" */
void mistakes_text(int64_t mistakes, int64_t recoveries, struct buf *out);

/*
 * Near misses: jobs that were seen silent once and were heard again before they were recovered. How
 * many of the suspects that guard_end() returned; reads at most NEAR_MISSES_MAX of them.
 */
#define NEAR_MISSES_MAX 1000
MUST_CHECK defib_err near_misses(const struct look *l, const struct gone_suspect *gone, int ngone,
                                 int64_t *n, struct failure *f);

#endif
