/*
 * act_report.h: what commands that change jobs by hand say: the question before,
 * and the report after.
 */
#ifndef CLI_ACT_REPORT_H
#define CLI_ACT_REPORT_H

#include "cli/cli.h"
#include "recover/by_hand.h"

/* "requeue 12 jobs of watch pages in database main (postgres://…)"; several are joined by "; ". */
void act_question(struct buf *out, const char *verb, int64_t n, const struct watch *w,
                  const struct database *d);
/* Whether ids come from stdin: the word "-". */
bool act_reads_stdin(const struct cli *c);

#define ACT_ROWS_MAX 20

/* What is printed: a line a job, then counts by outcome; with --json one document. */
struct act_report {
	struct cli *cli;
	const char *verb;  /* "requeue" */
	const char *done;  /* "requeued" */
	bool dry_run;      /* then OUTCOME_LEFT is what would be done … */
	enum outcome good; /* … else this is what was */
	int ngroups;
	int64_t njobs;                   /* of this group */
	int64_t shown[2];                /* lines of this group: of those done, and of the others */
	int64_t outcomes[OUTCOME_COUNT]; /* over all groups */
	int64_t kept;                    /* put back by an undo, and held */
	int failed;
	defib_err first_failure;
};

/* "  pages/17  requeued": one job, and what became of it. */
void act_job_text(const struct act_report *r, const struct watch *w, const struct candidate *c,
                  bool color, struct buf *out);
/* "main/pages: 12 requeued, 1 refused", as a line; nothing where there was nothing. */
void act_counts_text(const struct act_report *r, const struct watch *w, const struct database *d,
                     const struct by_hand_result *result, struct buf *out);

void act_report_begin(struct act_report *r);
void act_group_begin(struct act_report *r, const struct watch *w, const struct database *d);
/* For by_hand() and undo(). */
void act_job(void *report, const struct watch *w, const struct candidate *c);
void act_group_end(struct act_report *r, const struct watch *w, const struct database *d,
                   const struct by_hand_result *result);
/* The exit code: all done, refused, or partly done. */
int act_report_end(struct act_report *r);

#endif
