/* SPDX-License-Identifier: Apache-2.0
 * child_spawn.h: clone and exec of a child's program; run_child.c is its life from there.
 */
#ifndef WORKER_CHILD_SPAWN_H
#define WORKER_CHILD_SPAWN_H

#include "worker/run_child.h"

/* Pipes from the child; the first is its descriptor 1. */
enum spawn_pipe { SPAWN_STDOUT, SPAWN_STDERR, SPAWN_RESULT, SPAWN_PROGRESS, SPAWN_PIPES };

struct spawned {
	struct group group; /* its id is the child's pid */
	int pidfd;
	int pipes[SPAWN_PIPES]; /* our ends, non-blocking */
};

/*
 * When it returns, the program runs and the keeper knows its group. DEFIB_CONFIG: this program
 * cannot be run; DEFIB_IO: not now, a resource is missing; DEFIB_USAGE: the process ignores
 * SIGCHLD, so no exit could be seen.
 */
MUST_CHECK defib_err child_spawn(const struct child_options *o, struct spawned *out,
                                 struct failure *f);
/* Close the open descriptors; the caller ends the process. */
void spawned_close(struct spawned *s);

#endif
