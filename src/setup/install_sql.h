/* SPDX-License-Identifier: Apache-2.0
 * install_sql.h: recovery of a watch as a function inside PostgreSQL.
 *
 * The function runs the statements of compile.h in apply's order, each with a
 * snapshot of its own: look, judge and decide; lock; read again; write what
 * is unchanged; ledger last. One call is one batch and one transaction.
 */
#ifndef SETUP_INSTALL_SQL_H
#define SETUP_INSTALL_SQL_H

#include "watch/compile.h"

/* Why a watch cannot be recovered by a function, with what to do; DEFIB_REFUSED then. */
MUST_CHECK defib_err install_refusal(const struct watch *w, struct failure *f);

/* defib."recover_NAME", without its arguments. */
void install_name(const struct watch *w, struct buf *out);

struct install_options {
	const char *search_path; /* what unqualified names in the watch mean */
	bool lock_signs;         /* the role may lock the rows that signs of life stand in */
};

/* CREATE OR REPLACE FUNCTION …; the watch must not be refused. */
void install_function(const struct watch_sql *q, const struct install_options *o, struct buf *out);

#endif
