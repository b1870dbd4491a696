/* SPDX-License-Identifier: Apache-2.0
 * acts.h: what a person may do to a job, as a table: its verb, what it writes, and how a
 * watch says how. Command line and HTTP offer the same acts under the same names.
 */
#ifndef RECOVER_ACTS_H
#define RECOVER_ACTS_H

#include "recover/candidate.h"

struct act_kind {
	const char *verb, *done; /* "requeue", "requeued" */
	int act;                 /* of by_hand_options */
	enum outcome good;       /* the outcome of a job to which it was done */
	const char *example;     /* of a SET list; NULL: needs none of the user's words */
};

/* By its verb; NULL: there is no such act. */
const struct act_kind *act_kind_named(const char *verb);
/*
 * Whether the watch says how, asked before anything else is: hold and release need no
 * words of the user's, and a retry can be a requeue. DEFIB_CONFIG with the line to add.
 */
MUST_CHECK defib_err act_configured(const struct act_kind *kind, const struct watch *w,
                                    struct failure *f);

#endif
