/* SPDX-License-Identifier: Apache-2.0
 * keeper.h: a small process beside a worker that kills the process groups of its children when the
 * worker dies, for whatever reason. The list of groups is in memory that both share; the keeper
 * sleeps until the worker is dead.
 */
#ifndef WORKER_KEEPER_H
#define WORKER_KEEPER_H

#include "base/fail.h"

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* ---- process groups ---- */

/*
 * A process group of a job, identified so that a reused number is not mistaken for it. A number
 * stays reserved while its group has a member, and while the leader waits to be reaped. After that,
 * a leader with another start time shows that the number belongs to another group.
 */

struct group {
	pid_t id;       /* also the pid of its leader */
	uint64_t start; /* of the leader; 0: not known */
};

/* The group that `leader` leads, or is about to lead. */
struct group group_of(pid_t leader);
/*
 * The same for a leader that was created between `before` (CLOCK_BOOTTIME) and now: if no clock
 * tick lies between the two, its start time is known without reading /proc.
 */
struct group group_since(pid_t leader, const struct timespec *before);
/* Signal the whole group while its leader is not reaped: the number cannot have been reused. */
bool group_signal_held(const struct group *g, int signal);
/*
 * Signal the whole group; false if nothing is left of it, or the number was reused. Allocates
 * nothing, so that a forked process may call it.
 */
bool group_signal(const struct group *g, int signal);

/* ---- the keeper ---- */

struct keeper;

/* Fork it. It ignores terminal signals, holds no other descriptor of ours, and exits when done. */
MUST_CHECK defib_err keeper_start(struct keeper **out, struct failure *f);
/*
 * Add a group to the list. Only writes memory, so a child can do it between clone and exec. False:
 * the list is full. The parent then logs once that this, or the keeper, failed.
 */
MUST_CHECK bool keeper_list(struct keeper *k, struct group group);
void keeper_listed(struct keeper *k, pid_t group, bool listed);
/* The group has ended. */
void keeper_drop(struct keeper *k, pid_t group);
/*
 * Stop the keeper cleanly (groups that are still listed are left alone) and reap it. NULL is
 * allowed.
 */
void keeper_stop(struct keeper *k);
pid_t keeper_pid(const struct keeper *k);

#endif
