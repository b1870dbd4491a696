/* SPDX-License-Identifier: Apache-2.0
 * pools.h: workers as children of the daemon (`daemon --work`): one process `defib work
 * WATCH` for every watch that says how to work on its table, and one for the workflows of
 * the built-in queue. The daemon's memory and theirs are apart: whatever kills one of
 * them, scans go on.
 *
 * A child that ends is started again (pool_life.h). One whose watch was changed in a way
 * that it cannot take by HUP is asked to end and followed by another. When the daemon is
 * killed, the kernel tells its children to stop (a parent-death signal), and they hand
 * back what they have as at any stop.
 *
 * All calls come from one thread, which must be the one that lives longest: the death
 * signal is bound to it.
 */
#ifndef DAEMON_POOLS_H
#define DAEMON_POOLS_H

#include "daemon/live_settings.h"

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

#endif
