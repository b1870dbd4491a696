/* SPDX-License-Identifier: Apache-2.0
 * child_spawn.h: clone and exec of a job's program. What becomes of it
 * afterwards is run_child.c's.
 */
#ifndef WORKER_CHILD_SPAWN_H
#define WORKER_CHILD_SPAWN_H

#include "worker/group.h"
#include "worker/run_child.h"

/* Descriptors of the child that we read; the first is its descriptor 2. */
enum spawn_pipe { SPAWN_STDERR, SPAWN_RESULT, SPAWN_PROGRESS, SPAWN_PIPES };

struct spawned {
	struct group group; /* its id is the child's pid */
	int pidfd;
	int pipes[SPAWN_PIPES]; /* our ends, non-blocking */
};

/*
 * When it returns, the program runs and the keeper knows its group.
 * DEFIB_CONFIG: this program cannot be run; DEFIB_IO: not now, for want of a
 * resource; DEFIB_USAGE: the process ignores SIGCHLD, so no exit could be seen.
 */
MUST_CHECK defib_err child_spawn(const struct child_options *o, struct spawned *out,
                                 struct failure *f);
/* Close what is open; the process is the caller's to end. */
void spawned_close(struct spawned *s);

#endif
