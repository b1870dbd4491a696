/*
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
#include "recover/acts.h"
#include "recover/by_hand.h"

/* Rows for the option tables. */
/* clang-format off */
#define ACT_OPTIONS \
	{"dry-run", NULL, "say what would be done, and change nothing"}, \
	{"yes", NULL, "do not ask; needed where there is no terminal"}, \
	{"reason", "TEXT", "why, for the row and the ledger"}
#define ACT_OVERRIDE {"override-guard", NULL, "also jobs whose worker lives; the ledger says so"}
/* clang-format on */

/* Check, ask, and do it. */
int act_selected(struct cli *c, const struct act_kind *kind, const struct selection *s);

#endif
