/* SPDX-License-Identifier: Apache-2.0
 * late.h: was a recovery a mistake? A worker of ours that comes back is refused
 * by its epoch and stands in the ledger at once. Somebody else's worker cannot
 * be refused: what shows that it finished a recovered job after all is said by
 * the watch, `late_when`, and looked for here.
 */
#ifndef RECOVER_LATE_H
#define RECOVER_LATE_H

#include "ledger/counts.h"
#include "watch/compile.h"

#define LATE_WITHIN_US (INT64_C(86400) * 1000000) /* how long a recovery may turn out a mistake */
#define LATE_JOBS 1000                            /* that one check looks at, the newest */
#define LATE_EVERY_MS 60000                       /* between checks of one scanner */
#define LATE_RULE "late-when"

/*
 * Look at the jobs that were recovered lately and note a LATE_COMPLETION for
 * those for which late_when holds now; *noted is how many. Costs one statement
 * when nothing was recovered, and nothing where the watch has no late_when.
 */
MUST_CHECK defib_err late_check(struct store *s, const struct binding *b, const char *actor,
                                int64_t *noted, struct failure *f);

/* "2 of 140 (1.4 %)" */
void mistakes_text(int64_t mistakes, int64_t recoveries, struct buf *out);

#endif
