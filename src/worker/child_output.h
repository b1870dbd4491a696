/* SPDX-License-Identifier: Apache-2.0
 * child_output.h: what a child says, within bounds: the whole result up to a
 * limit, the tail of stderr, the latest line of progress. Bytes go in as they
 * are read, in any portions; no I/O here.
 *
 * Stderr and progress end up in text columns of databases, so what comes out
 * of them is well-formed UTF-8 without NUL. The result is handed on as it is.
 */
#ifndef WORKER_CHILD_OUTPUT_H
#define WORKER_CHILD_OUTPUT_H

#include "base/buf.h"

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
