/* SPDX-License-Identifier: Apache-2.0
 * child_inside.h: what the files of a child process share.
 *
 * run_child.c    its life from start to end, and its output, bounded
 * child_spawn.c  clone and exec of its program
 */
#ifndef WORKER_CHILD_INSIDE_H
#define WORKER_CHILD_INSIDE_H

#include "worker/run_child.h"

/* Pipes from the child; the first is its descriptor 2. */
enum spawn_pipe { SPAWN_STDERR, SPAWN_RESULT, SPAWN_PROGRESS, SPAWN_PIPES };

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

/* ---- a child's output ---- */

/*
 * The output of a child, bounded: the whole result up to a limit, the tail of stderr, the latest
 * line of progress. Bytes are added as they are read, in pieces of any size; no I/O here.
 *
 * Stderr and progress are stored in text columns of databases, so they are returned as well-formed
 * UTF-8 without NUL. The result is passed on unchanged.
 */

#define CHILD_PROGRESS_MAX 1024 /* bytes of a line; the rest of a longer one is dropped */

struct child_output {
	struct buf result;
	bool result_too_long; /* more than CHILD_RESULT_MAX arrived; the rest is dropped */
	struct buf tail;      /* of stderr; up to twice the bound, so that it is seldom moved */
	struct buf partial;   /* a progress line that is not complete yet */
	struct buf line;      /* the latest complete one */
	bool line_is_new;     /* not fetched yet */
};

void output_result(struct child_output *o, const char *bytes, size_t n);
void output_stderr(struct child_output *o, const char *bytes, size_t n);
void output_progress(struct child_output *o, const char *bytes, size_t n);
/* End of output: a last progress line without a newline counts. */
void output_close(struct child_output *o);
/* The latest line since the last call, or NULL; valid until more bytes are added. */
const char *output_fetch_progress(struct child_output *o);
/* Append at most CHILD_STDERR_TAIL bytes, without trailing blanks, as clean text. */
void output_add_tail(const struct child_output *o, struct buf *out);
/* Append the last line of the tail that is not blank; nothing if there is none. */
void output_add_last_line(const struct child_output *o, struct buf *out);
void output_release(struct child_output *o);

#endif
