/* SPDX-License-Identifier: Apache-2.0
 * pool_life.h: when a worker process of the daemon is started, asked to stop, and
 * killed. A step function: time is handed in, what is to be done comes out.
 *
 *   waits --start--> runs --ended--> waits (1 s, 2 s … 60 s; after a life of 60 s 1 s again)
 *                    runs --stop---> stops: TERM, its grace, KILL --ended--> waits, or over
 */
#ifndef DAEMON_POOL_LIFE_H
#define DAEMON_POOL_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_PAUSE_MS 1000
#define POOL_PAUSE_MAX_MS 60000
#define POOL_LIVED_MS 60000 /* who lived that long ended by accident: the pause is short again */
#define POOL_HURRY_MS 5000  /* from a second request to KILL */

enum pool_state { POOL_WAITS, POOL_RUNS, POOL_STOPS, POOL_OVER };
enum pool_act { POOL_NOTHING, POOL_START, POOL_TERM, POOL_KILL };

struct pool_life {
	enum pool_state state;
	int64_t due_ms;   /* waits: of its start; stops: of the KILL */
	int64_t began_ms; /* its last start */
	int64_t pause_ms; /* before the next start, should it end soon */
	int64_t restarts; /* after an end that nobody asked for */
	bool again;       /* stops: to be started anew */
	bool term;        /* stops: a signal is still to be sent */
};

/* It waits, and may start at once. */
void pool_life_init(struct pool_life *l, int64_t now_ms);
/* What is to be done now. POOL_START: then pool_began() or, where that failed, pool_ended(). */
enum pool_act pool_step(struct pool_life *l, int64_t now_ms);
void pool_began(struct pool_life *l, int64_t now_ms);
/* It is gone, however. */
void pool_ended(struct pool_life *l, int64_t now_ms);
/* Let it end within its grace; `again`: another one follows. */
void pool_stop(struct pool_life *l, int64_t grace_ms, bool again, int64_t now_ms);
/* Somebody is impatient: what it has in hand goes back at once. */
void pool_hurry(struct pool_life *l, int64_t now_ms);
/* When a step could have something to do; INT64_MAX: not before something happens. */
int64_t pool_due_ms(const struct pool_life *l);

#endif
