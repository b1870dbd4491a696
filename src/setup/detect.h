/* SPDX-License-Identifier: Apache-2.0
 * detect.h: which queues live in a database: the known ones, by whether a
 * shipped preset fits, and tables that look like one to the proposer.
 */
#ifndef SETUP_DETECT_H
#define SETUP_DETECT_H

#include "setup/propose.h"

struct detected {
	const char *preset; /* NULL: no known queue, but `proposal` has a watch for it */
	const char *name, *table;
	bool own_table; /* the preset's table is another one: the watch must name it */
	struct proposal_seen seen;
	int nstates;
	struct column_value *states; /* of a known queue: TABLE_ROWS_EXACT rows at most are counted */
	struct proposal proposal;
};

struct detection {
	int ntables; /* that were looked at */
	int n;       /* known queues first */
	struct detected *items;
};

/* Only the known ones. */
MUST_CHECK defib_err detect_known(struct store *s, struct arena *a, struct detection *out,
                                  struct failure *f);
/* Nothing is changed. What takes too long of one table leaves that table out. */
MUST_CHECK defib_err detect_queues(struct store *s, struct arena *a, struct detection *out,
                                   struct failure *f);
/* The entry of `watches:` for it; `database` as in proposal_yaml(). */
void detected_yaml(const struct detected *d, const char *database, struct buf *out);
/* It waits for an operator to confirm lines of it. */
bool detected_only_reports(const struct detected *d);
/* "3 running, 1 stuck; available 10, running 3" */
void detected_numbers(const struct detected *d, struct buf *out);

#endif
