/* SPDX-License-Identifier: Apache-2.0
 * keeper.h: a small process beside a worker that kills the process groups of
 * its children when the worker dies, however it dies. Which groups exist is a
 * list in memory that both share: the keeper sleeps until the worker is dead.
 */
#ifndef WORKER_KEEPER_H
#define WORKER_KEEPER_H

#include "base/fail.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* ---- process groups ---- */

/*
 * A process group of a job, named so that a recycled number is not
 * taken for it. A number stays reserved while its group has a member, and while
 * the leader waits to be reaped; after that, a leader that started at another
 * time is the sign that the number belongs to strangers.
 */

struct group {
	pid_t id;       /* also the pid of its leader */
	uint64_t start; /* of the leader; 0: not known */
};

/* The group that `leader` leads, or is about to lead. */
struct group group_of(pid_t leader);
/*
 * The same for a leader that was made between `before` (CLOCK_BOOTTIME) and now: when no clock
 * tick lies between the two, its start is known without a look at /proc.
 */
struct group group_since(pid_t leader, const struct timespec *before);
/* Signal all of it while its leader was not reaped: the number cannot be another's. */
bool group_signal_held(const struct group *g, int signal);
/*
 * Signal all of it; false when nothing is left of it, or the number is
 * another's now. Allocates nothing, so that a forked process may call it.
 */
bool group_signal(const struct group *g, int signal);

/* ---- the keeper ---- */

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
