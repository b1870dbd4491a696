/* SPDX-License-Identifier: Apache-2.0
 * keeper.h: a small process beside a worker that kills the process groups of
 * its children when the worker dies, however it dies. Which groups exist is a
 * list in memory that both share: the keeper sleeps until the worker is dead.
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
/*
 * List a group: only memory is written, so a child can do it between clone and exec. False: the
 * list is full. Its parent then logs, once, when that or the keeper failed.
 */
MUST_CHECK bool keeper_list(struct keeper *k, struct group group);
void keeper_listed(struct keeper *k, pid_t group, bool listed);
/* The group is over. */
void keeper_drop(struct keeper *k, pid_t group);
/* End it in good order (groups that are still listed are left alone) and reap it. NULL is allowed.
 */
void keeper_stop(struct keeper *k);
pid_t keeper_pid(const struct keeper *k);

#endif
