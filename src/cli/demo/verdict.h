/* SPDX-License-Identifier: Apache-2.0
 * verdict.h: what defib did about it, read from the ledger as it happens; and the effects of
 * all jobs compared with ledger and states.
 */
#ifndef CLI_DEMO_VERDICT_H
#define CLI_DEMO_VERDICT_H

#include "cli/demo/demo.h"

/* ledger */
MUST_CHECK defib_err demo_ledger_follow(struct demo *d, struct failure *f);

/* verdict */
MUST_CHECK defib_err demo_judge(struct demo *d, struct demo_verdict *v, struct failure *f);
bool demo_passed(const struct demo_verdict *v);
void demo_show_verdict(struct demo *d, const struct demo_verdict *v);

#endif
