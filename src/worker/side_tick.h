/* SPDX-License-Identifier: Apache-2.0
 * side_tick.h: draining a side queue from time to time, by somebody who has a
 * session and goes round anyway (worker_turns.c, a database loop of the daemon). How it
 * went is told in the log; what is wrong with it, once.
 */
#ifndef WORKER_SIDE_TICK_H
#define WORKER_SIDE_TICK_H

#include "store/session.h"
#include "worker/side_queue.h"

struct side_tick {
	struct side_queue queue; /* folder NULL: there is none */
	int64_t due_ms;          /* when to look again */
	bool complained;         /* until it goes well again */
};

/* It is time to look, and something waits. */
bool side_tick_due(struct side_tick *t);
/* One turn. Answers what went wrong. */
defib_err side_tick_drain(struct side_tick *t, struct session *s);

#endif
