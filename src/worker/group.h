/* SPDX-License-Identifier: Apache-2.0
 * group.h: a process group of a job, named so that a recycled number is not
 * taken for it. A number stays reserved while its group has a member, and while
 * the leader waits to be reaped; after that, a leader that started at another
 * time is the sign that the number belongs to strangers.
 */
#ifndef WORKER_GROUP_H
#define WORKER_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

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

#endif
