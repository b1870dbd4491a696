/* SPDX-License-Identifier: Apache-2.0
 * fault.h: a store that fails on purpose, at one chosen call.
 *
 * It stands in front of a real session and looks like one. `before`: the
 * database never sees the call. `after`: the database does it and the good
 * answer is hidden, as when the reply to a COMMIT is lost.
 */
#ifndef STORE_FAULT_H
#define STORE_FAULT_H

#include "store/store.h"

enum fault_call { FAULT_EXEC, FAULT_BEGIN, FAULT_COMMIT };
#define FAULT_CALLS (FAULT_COMMIT + 1)
enum fault_when { FAULT_BEFORE, FAULT_AFTER };

struct fault_plan {
	enum fault_call call;
	int nth; /* 1: the first call of that kind; 0: never */
	enum fault_when when;
	defib_err code;
	bool lose; /* also lose the session; CONNECTION and UNKNOWN_OUTCOME always do */

	int seen[FAULT_CALLS]; /* calls so far, by kind */
	bool fired;
};

/* The wrapper owns `inner` and closes it; `plan` is the caller's and outlives it. */
struct store *fault_wrap(struct store *inner, struct fault_plan *plan);

#endif
