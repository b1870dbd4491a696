/* SPDX-License-Identifier: Apache-2.0
 * vigil.h: how the daemon knows that it was away from a database: its session was
 * replaced, it was stopped or suspended itself, or the database's clock does
 * not agree with its own. Pure: readings are handed in.
 */
#ifndef GUARD_VIGIL_H
#define GUARD_VIGIL_H

#include "guard/doubt.h"

#define VIGIL_GAP_US 5000000  /* a loop that was not heard of for longer was away */
#define VIGIL_JUMP_US 5000000 /* clocks that drift apart by more have jumped */

struct vigil {
	struct doubt doubt;
	int64_t opened;          /* which session was read last; 0: none yet */
	int64_t boot_us, now_us; /* both clocks at the last reading */
	int64_t tick_us;         /* our own clock at the last sign of the loop itself */
	const char *away;        /* why the next reading ends an outage; NULL: it does not */
};

/*
 * Before the first reading: the server was started then. Whoever could not beat
 * before it gets his quiet time, however late we come to look.
 */
void vigil_server_started(struct vigil *v, int64_t start_us);
/* The loop goes round: to be called at least every second or two. */
void vigil_tick(struct vigil *v, int64_t boot_us);
/* We know that we cannot see anything now: a call failed, the server is read-only. */
void vigil_lost(struct vigil *v, const char *cause);
/* Something was read: in which session (a number that rises), and both clocks then. */
void vigil_read(struct vigil *v, int64_t opened, int64_t now_us, int64_t boot_us);

#endif
