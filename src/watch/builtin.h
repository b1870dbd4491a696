/* SPDX-License-Identifier: Apache-2.0
 * builtin.h: the watch that ships with defib: its own queue.
 */
#ifndef WATCH_BUILTIN_H
#define WATCH_BUILTIN_H

#include "watch/settings.h"

/* The name under which the built-in queue stands in the ledger and on the command line. */
#define BUILTIN_NAME "queue"

/* The built-in queue as a watch, for an engine; everything lives in the arena. */
struct watch *builtin_watch(enum store_engine engine, struct arena *a);

#endif
