/* SPDX-License-Identifier: Apache-2.0
 * pools.h: workers as children of the daemon (`daemon --work`): one process `defib work
 * WATCH` for every watch that says how to work on its table, and one for the workflows of
 * the built-in queue. The daemon's memory and theirs are apart: whatever kills one of
 * them, scans go on.
 *
 * A child that ends is started again (pool_step()). One whose watch was changed in a way
 * that it cannot take by HUP is asked to end and followed by another. When the daemon is
 * killed, the kernel tells its children to stop (a parent-death signal), and they hand
 * back what they have as at any stop.
 *
 * All calls come from one thread, which must be the one that lives longest: the death
 * signal is bound to it.
 */
#ifndef DAEMON_POOLS_H
#define DAEMON_POOLS_H

#include "daemon/settings.h"

#include <stdbool.h>
#include <stdint.h>

struct pools_options {
	struct live_settings_box *setups;
	const char *program;       /* "/proc/self/exe"; tests hand in their own */
	const char *const *common; /* arguments of every worker; ends with NULL */
	const char *db;            /* --db; goes by the environment, as it may hold a password */
};

struct pools;
struct pools *pools_new(const struct pools_options *o);
/* Another configuration is in force: workers come, go, are replaced or take new numbers. */
void pools_reload(struct pools *p);
/* Start, signal and reap what is due; how long until there is more to do, in milliseconds. */
int64_t pools_tick(struct pools *p);
/* All are asked to stop; once more: to hand back at once. Ticks go on until pools_over(). */
void pools_stop(struct pools *p);
bool pools_over(const struct pools *p);
void pools_free(struct pools *p);

/* ---- when a worker process is started, asked to stop, and killed ---- */

/*
 * A step function: time is handed in, what is to be done comes out.
 *
 *   waits --start--> runs --ended--> waits (1 s, 2 s … 60 s; after a life of 60 s 1 s again)
 *                    runs --stop---> stops: TERM, its grace, KILL --ended--> waits, or over
 */
#define POOL_PAUSE_MS 1000
#define POOL_PAUSE_MAX_MS 60000
#define POOL_LIVED_MS 60000 /* after a life this long the pause is short again */
#define POOL_HURRY_MS 5000  /* from a second request to KILL */

enum pool_state { POOL_WAITS, POOL_RUNS, POOL_STOPS, POOL_OVER };
enum pool_act { POOL_NOTHING, POOL_START, POOL_TERM, POOL_KILL };

struct pool_life {
	enum pool_state state;
	int64_t due_ms;   /* waits: of its start; stops: of the KILL */
	int64_t began_ms; /* its last start */
	int64_t pause_ms; /* before the next start, should it end soon */
	int64_t restarts; /* after an unexpected end */
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
