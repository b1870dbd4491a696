/* SPDX-License-Identifier: Apache-2.0
 * explain.h: reads one job and judges it as a scan would: its facts, the rule that fires or why
 * none does, what holds it back, and what would be done.
 */
#ifndef RECOVER_EXPLAIN_H
#define RECOVER_EXPLAIN_H

#include "ledger/retries.h"
#include "recover/attach.h"
#include "recover/look.h"
#include "recover/scan.h"

/* One job with related information. */
struct explained {
	struct candidate cand;
	bool has_hold, has_retry, has_claim;
	struct claim claim; /* the session that claimed it, if its table records that */
	struct held_job hold;
	struct pending_retry retry;
	const char
		*guard;    /* of a stuck one: what the daemon that leads the watch holds back, and why */
	double factor; /* by which that daemon raises thresholds; 0: no daemon leads */
};

/*
 * `w` is the watch as it is to be shown. *found is false if there is no such row. `will_have`: a
 * ledger will be created before the first fix, and the explanation assumes it.
 */
MUST_CHECK defib_err explain_read(const struct look *l, const struct watch *w, const char *job,
                                  bool will_have, struct explained *out, bool *found,
                                  struct failure *f);

#endif
