/* SPDX-License-Identifier: Apache-2.0
 * child_output.h: the output of a child, bounded: each line of stdout up to a limit, for the log;
 * the whole result up to a limit, the tail of stderr, the latest line of progress. Bytes are added
 * as they are read, in pieces of any size; no I/O here.
 *
 * Stdout goes to the log, which people read in terminals; stderr and progress are stored in text
 * columns of databases, so they are returned as well-formed UTF-8 without NUL. The result is passed
 * on unchanged.
 */
#ifndef WORKER_CHILD_OUTPUT_H
#define WORKER_CHILD_OUTPUT_H

#include "base/text.h"

#define CHILD_RESULT_MAX (1024 * 1024)
#define CHILD_STDERR_TAIL 4096
#define CHILD_LINE_MAX 8192     /* bytes of a line on stdout; the rest is dropped */
#define CHILD_PROGRESS_MAX 1024 /* bytes of a line; the rest of a longer one is dropped */

struct child_output {
	void (*on_line)(void *ctx, const char *line); /* a line on stdout; may be NULL */
	void *on_line_ctx;
	struct buf stdout_line; /* one that is not complete yet */
	struct buf result;
	bool result_too_long; /* more than CHILD_RESULT_MAX arrived; the rest is dropped */
	struct buf tail;      /* of stderr; up to twice the bound, so that it is seldom moved */
	struct buf partial;   /* a progress line that is not complete yet */
	struct buf line;      /* the latest complete one */
	bool line_is_new;     /* not fetched yet */
};

void child_output_stdout(struct child_output *o, const char *bytes, size_t n);
void child_output_result(struct child_output *o, const char *bytes, size_t n);
void child_output_stderr(struct child_output *o, const char *bytes, size_t n);
void child_output_progress(struct child_output *o, const char *bytes, size_t n);
/* End of output: a last progress line without a newline counts. */
void child_output_close(struct child_output *o);
/* The latest line since the last call, or NULL; valid until more bytes are added. */
const char *child_output_fetch_progress(struct child_output *o);
/* Append at most CHILD_STDERR_TAIL bytes, without trailing blanks, as clean text. */
void child_output_add_tail(const struct child_output *o, struct buf *out);
/* Append the last line of the tail that is not blank; nothing if there is none. */
void child_output_add_last_line(const struct child_output *o, struct buf *out);
void child_output_release(struct child_output *o);

#endif
