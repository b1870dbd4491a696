/* SPDX-License-Identifier: Apache-2.0
 * guard_told.h: what a guard holds back is logged and recorded in the ledger (GUARD_HELD), once
 * when it begins to hold and once when it lets go: the same for passes of a daemon and for sweeps
 * of a worker.
 */
#ifndef RECOVER_GUARD_TOLD_H
#define RECOVER_GUARD_TOLD_H

#include "recover/scan.h"

struct guard_told {
	bool braking;
	bool doubting; /* it held somebody */
};

/* After a pass with this result. */
void guard_tell(struct guard_told *told, const struct guard *g, struct session *session,
                const struct watch *w, const struct scan_result *last, const char *actor);

#endif
