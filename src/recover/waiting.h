/* SPDX-License-Identifier: Apache-2.0
 * waiting.h: rows that wait and are not started. A look of its own beside the one at running rows:
 * bounded, in the order of due_at, and judged for the watch as a whole (guard/starts.h).
 */
#ifndef RECOVER_WAITING_H
#define RECOVER_WAITING_H

#include "recover/late.h"
#include "recover/look.h"

struct waiting_pass {
	struct starts_memory *memory; /* of a daemon; NULL: this look alone decides */
	const struct doubt *doubt;    /* of a daemon */
	bool barred;                  /* workers cannot write, or an operator has paused the watch */
	bool keep;                    /* remember when schedules were due */
	int64_t *ended_ms;            /* when ended runs may be read again; it may take too long */
	/* Out: */
	struct waiting_result result;
	struct facts *unstarted; /* the oldest of those rows, with their history */
	int n;
	struct starts_kind *kinds;
	int nkinds;
};
MUST_CHECK defib_err waiting_look(const struct look *l, struct waiting_pass *pass,
                                  struct failure *f);
/* For one row that was read, what a one-shot scan would find out about it. */
MUST_CHECK defib_err waiting_recall(const struct look *l, struct facts *facts, struct failure *f);

#endif
