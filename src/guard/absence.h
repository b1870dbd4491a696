/* SPDX-License-Identifier: Apache-2.0
 * absence.h: whether we were away from a database: our session was replaced, we were stopped or
 * suspended, or the database's clock does not agree with ours. Pure: readings are handed in.
 *
 * Daemons and the sweeps of workers keep a struct absence; what it finds excuses silence by
 * doubt.h. A worker's life (life/life.h) asks the two questions by itself.
 */
#ifndef GUARD_ABSENCE_H
#define GUARD_ABSENCE_H

#include "guard/doubt.h"

/* Both clocks, as they were read together. */
struct clocks {
	int64_t own_us; /* one that goes on through a suspend */
	int64_t database_us;
};
/* By how much the database's clock was set forward, or back (below 0), between two readings. */
int64_t absence_jump_us(const struct clocks *last, const struct clocks *now);
/* Whether a loop that was to go on at `due_us` was stopped or suspended, by its own clock. */
bool absence_stopped(int64_t due_us, int64_t now_us);

struct absence {
	struct doubt doubt;
	int64_t opened;       /* which session was read last; 0: none yet */
	struct clocks clocks; /* at the last reading */
	int64_t tick_us;      /* our own clock at the last sign of the loop itself */
	const char *cause;    /* why the next reading ends an outage; NULL: it does not */
};

/*
 * Before the first reading: the server was started then. A worker that could not beat before it
 * gets its quiet time, however late we come to look.
 */
void absence_server_started(struct absence *v, int64_t start_us);
/* The loop goes round: to be called at least every second or two. */
void absence_tick(struct absence *v, int64_t boot_us);
/* We know that we cannot see anything now: a call failed, the server is read-only. */
void absence_begins(struct absence *v, const char *cause);
/* Something was read: in which session (a number that rises), and both clocks then. */
void absence_read(struct absence *v, int64_t opened, int64_t now_us, int64_t boot_us);

#endif
