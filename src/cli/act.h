/* SPDX-License-Identifier: Apache-2.0
 * act.h: one act on selected jobs: checked against the configuration, asked
 * for, carried out watch by watch through by_hand(), and reported.
 *
 * Nothing is changed unseen: on a terminal a person is asked, with the number
 * of jobs and the database's name; anywhere else --yes must stand on the
 * command line, or the command ends at once.
 */
#ifndef CLI_ACT_H
#define CLI_ACT_H

#include "cli/select.h"
#include "recover/by_hand.h"
#include "view/scan.h"

/* Rows for the option tables. */
/* clang-format off */
#define ACT_OPTIONS \
	{"dry-run", NULL, "show what would be done; change nothing"}, \
	{"yes", NULL, "do not ask; required without a terminal"}, \
	{"reason", "TEXT", "the reason, for the row and the ledger"}
#define ACT_OVERRIDE \
	{"override-guard", NULL, "also jobs whose worker is alive; recorded in the ledger"}
/* clang-format on */

/* Check, ask, and do it. */
int act_selected(struct cli *c, const struct act_kind *kind, const struct selection *s);

/* Whether ids come from stdin: the word "-". */
bool act_reads_stdin(const struct cli *c);

#define ACT_ROWS_MAX 20

/* What is printed: a line a job, then counts by outcome; with --json one document. */
struct act_report {
	struct cli *cli;
	struct act_words words;
	int ngroups;
	int64_t njobs;                   /* of this group */
	int64_t shown[2];                /* lines of this group: of those done, and of the others */
	int64_t outcomes[OUTCOME_COUNT]; /* over all groups */
	int64_t kept;                    /* put back by an undo, and held */
	int failed;
	defib_err first_failure;
};

void act_report_begin(struct act_report *r);
void act_group_begin(struct act_report *r, const struct watch *w, const struct database *d);
/* For by_hand() and undo(). */
void act_job(void *report, const struct watch *w, const struct candidate *c);
void act_group_end(struct act_report *r, const struct watch *w, const struct database *d,
                   const struct by_hand_result *result);
/* The exit code: all done, refused, or partly done. */
int act_report_end(struct act_report *r);

#endif
