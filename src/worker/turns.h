/* SPDX-License-Identifier: Apache-2.0
 * turns.h: a turn, as calls to the database.
 */
#ifndef WORKER_TURNS_H
#define WORKER_TURNS_H

#include "worker/worker_state.h"

void turns_do(struct worker *w, struct turn *t);
MUST_CHECK defib_err turns_ready(struct worker *w, struct failure *f);
/* Record the ends of a part alone; p->why gives for each the failure that its row caused. */
MUST_CHECK defib_err turns_settle(struct worker *w, struct turn_part *p, struct arena *a,
                                  struct failure *f);

#endif
