/* SPDX-License-Identifier: Apache-2.0
 * keeper.h: a small process beside a worker that kills the process groups of
 * its children when the worker dies, however it dies. It holds one end of a
 * pipe; the worker tells it which groups exist; end of file is the worker's
 * death.
 */
#ifndef WORKER_KEEPER_H
#define WORKER_KEEPER_H

#include "base/fail.h"
#include "worker/group.h"

#include <sys/types.h>

struct keeper;

/* Fork it. It ignores terminal signals, holds no other descriptor of ours, and exits after its
 * work. */
MUST_CHECK defib_err keeper_start(struct keeper **out, struct failure *f);
/* Tell it about a group, or that the group is over. Never blocks for long; failures are logged. */
void keeper_add(struct keeper *k, pid_t group);
void keeper_drop(struct keeper *k, pid_t group);
/*
 * keeper_add() in two parts: what the child itself can do between clone and exec, for it is only
 * a system call, and what its parent does afterwards: `unheard` is the errno of a tell that failed.
 */
MUST_CHECK bool keeper_tell(const struct keeper *k, struct group group);
void keeper_told(struct keeper *k, pid_t group, int unheard);
/* End it in good order (groups that are still listed are left alone) and reap it. NULL is allowed.
 */
void keeper_stop(struct keeper *k);
pid_t keeper_pid(const struct keeper *k);

#endif
