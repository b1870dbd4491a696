/* SPDX-License-Identifier: Apache-2.0
 * propose.h: proposes a watch for an unknown table from its facts, and finds the queues of a
 * database.
 *
 * Pure: it takes facts and returns the lines of a watch, each with its evidence, alternatives, and
 * a CHECK if it is a guess. No guess is silent: while one line must be checked, the watch only
 * reports, and if no sign of life, no key or no running rows can be found, `missing` says so and
 * there is no watch.
 *
 * proposal_try() asks the database what the watch would find, which becomes evidence too, and how
 * long runs take, which becomes the threshold.
 */
#ifndef SETUP_PROPOSE_H
#define SETUP_PROPOSE_H

#include "setup/table_facts.h"
#include "watch/compile.h"

#define PROPOSAL_LINES_MAX 24
#define PROPOSAL_OTHERS_MAX 4
#define PROPOSAL_MISSING_MAX 3

struct proposed_line {
	const char *key, *value;
	bool yaml;         /* the value is literal YAML, not a text to be quoted */
	const char *why;   /* the evidence; may be NULL */
	const char *check; /* what an operator must check; NULL: certain enough */
	int nothers;
	const char *others[PROPOSAL_OTHERS_MAX]; /* alternatives, whole lines */
};

struct proposal {
	const char *name, *table;
	int nlines, nchecks, nmissing;
	struct proposed_line lines[PROPOSAL_LINES_MAX];
	const char *missing[PROPOSAL_MISSING_MAX]; /* sentences */
	const char *limit;                         /* the key of the threshold … */
	bool age_judges;                           /* … which depends on how long runs take */
	bool queue; /* it looks like a queue even if the user did not ask for this table */
};

void propose(const struct table_facts *t, struct arena *a, struct proposal *out);
struct proposed_line *proposal_line(struct proposal *p, const char *key);

#endif
