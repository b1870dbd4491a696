/*
 * scan_report.h: what `defib scan` prints: JSON as a stream, or text.
 *
 * JSON jobs are written as they come, so that a million of them need no
 * memory; totals therefore stand behind what they sum up.
 */
#ifndef CLI_SCAN_REPORT_H
#define CLI_SCAN_REPORT_H

#include "cli/cli.h"

#define REPORT_ROWS_MAX 20

struct report_row {
	const char *job, *verdict, *because, *action, *detail;
	enum outcome outcome;
};

struct scan_report {
	struct cli *cli;
	bool fix;
	int nwatches;       /* begun so far */
	int64_t njobs;      /* of this watch */
	struct arena arena; /* of this watch's rows */
	struct report_row rows[REPORT_ROWS_MAX];
	int nrows;
	int64_t found, running, held_before, outcomes[OUTCOME_COUNT]; /* over all watches */
	int64_t progress_ms; /* when the progress line was last drawn */
	int64_t begun_ms;
	bool progress_shown;
};

void report_begin(struct scan_report *r, struct cli *c, bool fix);
void report_watch_begin(struct scan_report *r, const struct watch *w, const struct database *d);
void report_job(void *ctx, const struct watch *w, const struct candidate *c);
void report_progress(void *ctx, const struct watch *w, const struct scan_result *s);
void report_watch_end(struct scan_report *r, const struct watch *w, const struct database *d,
                      const struct scan_result *s);
/* Closes the document or prints the last advice. */
void report_end(struct scan_report *r);

#endif
