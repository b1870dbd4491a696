/* SPDX-License-Identifier: Apache-2.0
 * progress.h: how far a long command has come, as one line.
 */
#ifndef VIEW_PROGRESS_H
#define VIEW_PROGRESS_H

#include "base/text.h"

struct progress_of {
	const char *name; /* before it: a watch or a database … */
	const char *done; /* … and what the number counts: "requeued" */
	int64_t total;    /* 0: not known, so there is no bar */
};

/* "pages: [####------] 2,400 of 4,800 requeued, 1,200/s, 2s left" */
void progress_text(const struct progress_of *p, int64_t n, int64_t elapsed_ms, struct buf *out);

#endif
