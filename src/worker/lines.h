/* SPDX-License-Identifier: Apache-2.0
 * lines.h: the language of `defib work --lines` (docs/lines.md): one JSON object per line, in both
 * directions, between a worker and the program beside it that runs its jobs. Text only; run_lines.c
 * has the descriptors and the jobs.
 */
#ifndef WORKER_LINES_H
#define WORKER_LINES_H

#include "base/text.h"
#include "worker/job.h"

#define LINE_RESULT_MAX (1024 * 1024)          /* of a result, in bytes, as for programs */
#define LINE_MAX_LEN (LINE_RESULT_MAX + 65536) /* of a line that the client writes */
#define LINE_ERROR_MAX 4096                    /* of an error text; the rest is cut */

/* X(enum, word, outcome): what a client can say in "do" */
#define LINE_DO_LIST(X)                                                                            \
	X(DONE, "done", SETTLE_DONE)                                                                   \
	X(FAILED, "failed", SETTLE_FAILED)                                                             \
	X(RETRY, "retry", SETTLE_RETRY)                                                                \
	X(PERMANENT, "permanent", SETTLE_PERMANENT)                                                    \
	X(STOPPED, "stopped", SETTLE_STOPPED)                                                          \
	X(RELEASED, "released", SETTLE_RELEASED)                                                       \
	X(PROGRESS, "progress", SETTLE_COUNT)                                                          \
	X(EXTEND, "extend", SETTLE_COUNT)                                                              \
	X(STOP, "stop", SETTLE_COUNT)                                                                  \
	X(PONG, "pong", SETTLE_COUNT)

enum line_do {
#define X(id, word, as) LINE_##id,
	LINE_DO_LIST(X)
#undef X
		LINE_DO_COUNT
};
extern const char *const line_do_words[]; /* ends with NULL */
/* The outcome of a run that this word ends; SETTLE_COUNT: it ends none. */
enum settle_as line_outcome(enum line_do what);

/* A line of the client. Texts live in the arena; NULL: not given. */
struct line_fields {
	enum line_do what;
	int64_t run;        /* of all but "stop" and "pong" */
	const char *result; /* JSON, as the client wrote it */
	const char *error, *step, *text;
	int64_t ms; /* "delay_ms" of an end, "ms" of "extend"; -1: not given */
};

/*
 * Read a line of n bytes without its newline; a NUL follows. DEFIB_USAGE: one clear line for the
 * client that wrote it.
 */
MUST_CHECK defib_err line_read(const char *line, size_t n, struct arena *a, struct line_fields *out,
                               struct failure *f);

/* Lines for the client, each with its newline. */
void line_add_ready(struct buf *out, const char *worker, int64_t concurrency);
void line_add_job(struct buf *out, int64_t run, const struct claimed *c, int64_t worker,
                  int64_t timeout_ms);
/* `because`: "cancelled", "lost", "timeout", "shutdown". */
void line_add_stop(struct buf *out, int64_t run, const char *because);
void line_add_stuck(struct buf *out, int64_t run);
/* The end of this job was refused: it no longer belonged to this worker. */
void line_add_refused(struct buf *out, const struct claimed *c);
void line_add_error(struct buf *out, int64_t line, const char *message);
void line_add_word(struct buf *out, const char *is); /* "ping", "stopping" */
void line_add_end(struct buf *out, int64_t settled, int64_t refused, int64_t spooled,
                  int64_t abandoned);

#endif
