/* SPDX-License-Identifier: Apache-2.0
 * pools.h: workers as children of the daemon (`daemon --work`): one process `defib work WATCH` for
 * every watch that configures work on its table, and one for the workflows of the built-in queue.
 * They share no memory with the daemon: whatever kills one of them, scans go on.
 *
 * A child that ends is started again (pool_step()). If its watch changed in a way that it cannot
 * apply on HUP, it is asked to end and replaced. When the daemon is killed, the kernel stops its
 * children (a parent-death signal), and they release their jobs as at any stop.
 *
 * All calls must come from one thread, the one that lives longest: the death signal is bound to it.
 */
#ifndef DAEMON_POOLS_H
#define DAEMON_POOLS_H

#include "daemon/settings.h"

struct pools_options {
	struct live_settings_box *setups;
	const char *program;       /* "/proc/self/exe"; tests pass their own */
	const char *const *common; /* arguments of every worker; ends with NULL */
	const char *db;            /* --db; passed in the environment, because it may hold a password */
};

struct pools;
struct pools *pools_new(const struct pools_options *o);
/* Another configuration is in force: workers are added, removed, replaced or resized. */
void pools_reload(struct pools *p);
/* Start, signal and reap what is due; returns how many milliseconds until there is more to do. */
int64_t pools_tick(struct pools *p);
/* Ask all to stop; a second call: to release jobs at once. Ticks continue until pools_over(). */
void pools_stop(struct pools *p);
bool pools_over(const struct pools *p);
void pools_free(struct pools *p);

/* ---- when a worker process is started, asked to stop, and killed ---- */

/*
 * A step function: takes the time, returns what to do.
 *
 *   waits --start--> runs --ended--> waits (1 s, 2 s … 60 s; after a life of 60 s 1 s again)
 *                    runs --stop---> stops: TERM, its grace, KILL --ended--> waits, or over
 */
#define POOL_PAUSE_MS 1000
#define POOL_PAUSE_MAX_MS 60000
#define POOL_LIVED_MS 60000 /* after a run this long the pause is short again */
#define POOL_HURRY_MS 5000  /* from a second request to KILL */

enum pool_state { POOL_WAITS, POOL_RUNS, POOL_STOPS, POOL_OVER };
enum pool_act { POOL_NOTHING, POOL_START, POOL_TERM, POOL_KILL };

struct pool_life {
	enum pool_state state;
	int64_t due_ms;   /* waits: its start; stops: the KILL */
	int64_t began_ms; /* its last start */
	int64_t pause_ms; /* before the next start, if it ends soon */
	int64_t restarts; /* after an unexpected end */
	bool again;       /* stops: start it again */
	bool term;        /* stops: a signal must still be sent */
};

/* It waits, and may start at once. */
void pool_life_init(struct pool_life *l, int64_t now_ms);
/* What to do now. POOL_START: then call pool_began() or, if that failed, pool_ended(). */
enum pool_act pool_step(struct pool_life *l, int64_t now_ms);
void pool_began(struct pool_life *l, int64_t now_ms);
/* It has ended, for whatever reason. */
void pool_ended(struct pool_life *l, int64_t now_ms);
/* Let it end within its grace; `again`: start another one. */
void pool_stop(struct pool_life *l, int64_t grace_ms, bool again, int64_t now_ms);
/* A second stop request: its jobs are released at once. */
void pool_hurry(struct pool_life *l, int64_t now_ms);
/* When a step may have something to do; INT64_MAX: only after an event. */
int64_t pool_due_ms(const struct pool_life *l);

#endif
