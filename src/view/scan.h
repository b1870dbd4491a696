/* SPDX-License-Identifier: Apache-2.0
 * scan.h: what a pass over a watch found and did.
 */
#ifndef VIEW_SCAN_H
#define VIEW_SCAN_H

#include "base/buf.h"
#include "recover/scan.h"
#include "view/terminal.h"

/* {"watch":…,"database":…,"jobs":[ */
void scan_begin_json(const struct watch *w, const struct database *d, struct buf *out);
void scan_job_json(const struct watch *w, const struct candidate *c, struct buf *out);
/* ],"running":…} */
void scan_end_json(const struct scan_result *r, struct buf *out);
/* "running":…,"found":…, and each outcome */
void scan_counts_json(int64_t running, int64_t found, const int64_t *outcomes, struct buf *out);
/* Shown columns, owner, attempt, who has it locked, and "status: running -> queued". */
void candidate_words(const struct watch *w, const struct candidate *c, struct buf *out);

/* The first rows of a watch, as text; the rest is counted. */
#define SCAN_ROWS_MAX 20
struct scan_row {
	const char *job, *verdict, *because, *action, *detail;
	enum outcome outcome;
};
struct scan_rows {
	struct arena arena;
	bool fix;
	struct scan_row items[SCAN_ROWS_MAX];
	int n;
	int64_t seen;
};
void scan_job_row(struct scan_rows *r, const struct watch *w, const struct candidate *c);
void scan_rows_text(const struct scan_rows *r, bool color, struct buf *out);
/* "main/pages: 3 stuck of 12 running, 3 recovered (1.2 ms)" */
void scan_head_text(const struct watch *w, const struct database *d, const struct scan_result *s,
                    bool fix, bool color, struct buf *out);

#endif
