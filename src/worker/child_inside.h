/* SPDX-License-Identifier: Apache-2.0
 * child_inside.h: what the files of a child process share.
 *
 * run_child.c     its life from its start to its end
 * child_spawn.c   clone and exec of its program
 * child_output.c  what it says, within bounds
 */
#ifndef WORKER_CHILD_INSIDE_H
#define WORKER_CHILD_INSIDE_H

#include "base/text.h"
#include "worker/keeper.h"
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

/* ---- what a child says ---- */

/*
 * What a child says, within bounds: the whole result up to a
 * limit, the tail of stderr, the latest line of progress. Bytes go in as they
 * are read, in any portions; no I/O here.
 *
 * Stderr and progress end up in text columns of databases, so what comes out
 * of them is well-formed UTF-8 without NUL. The result is handed on as it is.
 */

#define CHILD_PROGRESS_MAX 1024 /* bytes of a line; the rest of a longer one is dropped */

struct child_output {
	struct buf result;
	bool result_too_long; /* more than CHILD_RESULT_MAX came; the rest is dropped */
	struct buf tail;      /* of stderr; up to twice the bound, so that it moves seldom */
	struct buf partial;   /* of a progress line whose end has not come yet */
	struct buf line;      /* the latest whole one */
	bool line_is_new;     /* not fetched yet */
};

void output_result(struct child_output *o, const char *bytes, size_t n);
void output_stderr(struct child_output *o, const char *bytes, size_t n);
void output_progress(struct child_output *o, const char *bytes, size_t n);
/* No more will come: a last line of progress without its newline counts. */
void output_close(struct child_output *o);
/* The latest line since the last call, or NULL; valid until more is fed in. */
const char *output_fetch_progress(struct child_output *o);
/* At most CHILD_STDERR_TAIL bytes, less trailing blanks, appended as clean text. */
void output_add_tail(const struct child_output *o, struct buf *out);
/* The last line of the tail that is not blank, appended; nothing when there is none. */
void output_add_last_line(const struct child_output *o, struct buf *out);
void output_release(struct child_output *o);

#endif
