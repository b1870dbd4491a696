/* SPDX-License-Identifier: Apache-2.0
 * detect.h: the queues of a database.
 */
#ifndef SETUP_DETECT_H
#define SETUP_DETECT_H

#include "setup/propose_try.h"

struct detected {
	const char *preset; /* NULL: not a known queue, but `proposal` has a watch for it */
	const char *name, *table;
	bool own_table; /* the preset's table has another name: the watch must name this one */
	struct proposal_seen seen;
	int nstates;
	struct column_value *states; /* of a known queue: at most TABLE_ROWS_EXACT rows are counted */
	struct proposal proposal;
};

struct detection {
	int ntables;   /* that were examined */
	int nleft_out; /* because their owners' code would run with our rights (trust.h), and why */
	const char *left_out;
	int n; /* known queues first */
	struct detected *items;
};

/* The name of the preset in this file; NULL: it is not a preset. */
struct embedded_file;
const char *preset_name(const struct embedded_file *file, struct arena *a);
/* Only the known ones. */
MUST_CHECK defib_err detect_known(struct store *s, struct arena *a, struct detection *out,
                                  struct failure *f);
/* Changes nothing. A table that takes too long is left out. */
MUST_CHECK defib_err detect_queues(struct store *s, struct arena *a, struct detection *out,
                                   struct failure *f);
/* The entry of `watches:` for it; `database` as in proposal_yaml(). */
void detected_yaml(const struct detected *d, const char *database, struct buf *out);
/* It only reports until an operator confirms lines of it. */
bool detected_only_reports(const struct detected *d);
/* "3 running, 1 stuck; available 10, running 3" */
void detected_numbers(const struct detected *d, struct buf *out);

#endif
