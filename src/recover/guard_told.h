/* SPDX-License-Identifier: Apache-2.0
 * guard_told.h: what a guard holds back is logged and recorded in the ledger (GUARD_HELD), once
 * when it begins to hold and once when it lets go. Daemon passes and worker sweeps use the same
 * code.
 */
#ifndef RECOVER_GUARD_TOLD_H
#define RECOVER_GUARD_TOLD_H

#include "recover/scan.h"

struct guard_told {
	bool braking;
	bool doubting; /* it held back a job */
};

/* Call after a pass with this result. */
void guard_tell(struct guard_told *told, const struct guard *g, struct session *session,
                const struct watch *w, const struct scan_result *last, const char *actor);

#endif
