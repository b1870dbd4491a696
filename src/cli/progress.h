/* SPDX-License-Identifier: Apache-2.0
 * progress.h: one line on stderr that shows how far a long command has come. It appears after a
 * second, only on a terminal, not with --quiet nor between values of --json, and is gone when the
 * command ends.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli/cli.h"

struct progress_of {
	const char *name; /* before it: a watch or a database … */
	const char *done; /* … and what the number counts: "requeued" */
	int64_t total;    /* 0: not known, so there is no bar */
};

/* "pages: [####------] 2,400 of 4,800 requeued, 1,200/s, 2s left" */
void progress_text(const struct progress_of *p, int64_t n, int64_t elapsed_ms, struct buf *out);

struct progress {
	struct progress_of of;
	bool on, shown;
	int64_t begun_ms, drawn_ms;
};

struct progress progress_begin(const struct cli *c, const char *name, const char *done,
                               int64_t total);
/* So many so far. Cheap: it draws at most ten times a second. */
void progress_at(struct progress *p, int64_t n);
/* The same for what reads page by page. */
struct on_count progress_on_count(struct progress *p);
/* Remove the line, before other output or at the end. */
void progress_clear(struct progress *p);

#endif
