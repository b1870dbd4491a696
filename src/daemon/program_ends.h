/* SPDX-License-Identifier: Apache-2.0
 * program_ends.h: what programs under `defib run` had whose watcher is gone
 * with them. The watcher frees it by itself; this is for the one that was
 * killed, or could not reach the database in time.
 */
#ifndef DAEMON_PROGRAM_ENDS_H
#define DAEMON_PROGRAM_ENDS_H

#include "daemon/watch_loop.h"

/*
 * Look once a second, for the watches that are led and not paused. *due_ms is the caller's;
 * `f` tells what failed, which is only the database's absence.
 */
MUST_CHECK defib_err program_ends_look(struct session *session, struct watch_loop *const *posts,
                                       int n, int64_t *due_ms, struct failure *f);

#endif
