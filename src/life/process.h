/* SPDX-License-Identifier: Apache-2.0
 * process.h: does this process still exist? The only place that answers it.
 *
 * A live process that is taken for ended loses its jobs to another one, so an end needs a proof:
 *
 * - the kernel says that there is no such pid, or its pidfd says that it has exited;
 * - the pid now belongs to a process with another start time.
 *
 * What /proc does not show proves nothing: hidepid= and ProtectProc= hide the processes of other
 * users, and /proc may be that of another namespace. Start times are compared only within one time
 * namespace, which shifts them. A pid that exists, but whose start time is not known, is
 * PROCESS_UNKNOWN: the process, or another one that has its pid now. Then age decides.
 */
#ifndef LIFE_PROCESS_H
#define LIFE_PROCESS_H

#include "life/incarnation.h"

enum process_life {
	PROCESS_UNKNOWN, /* also: of another host */
	PROCESS_LIVES,
	PROCESS_GONE,
};

/*
 * Start time of a process, in clock ticks after boot; 0: not known, because there is no such
 * process or /proc does not show it. Makes only system calls, so that a forked process may call it.
 */
uint64_t process_start(pid_t pid);
/*
 * Seen from `self`, this process. *pidfd (NULL: not wanted) becomes readable when the process ends,
 * or the one that has its pid now; the caller closes it. -1: gone, or none is available.
 */
enum process_life process_life(const struct incarnation *who, const struct incarnation *self,
                               int *pidfd);
/* The process group that `leader` leads: it may outlive its leader. */
enum process_life process_group_life(const struct incarnation *leader,
                                     const struct incarnation *self);

#endif
