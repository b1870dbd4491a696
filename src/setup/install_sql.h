/* SPDX-License-Identifier: Apache-2.0
 * install_sql.h: recovery of a watch as a function inside PostgreSQL.
 *
 * The function runs the statements of compile.h in apply's order, each with a snapshot of its own:
 * look, judge and decide; lock; read again; write unchanged rows; ledger last. One call is one
 * batch and one transaction.
 */
#ifndef SETUP_INSTALL_SQL_H
#define SETUP_INSTALL_SQL_H

#include "watch/compile.h"

/* Why a function cannot recover a watch, with what to do; DEFIB_REFUSED then. */
MUST_CHECK defib_err install_refusal(const struct watch *w, struct failure *f);

/* defib."recover_NAME", without its arguments. */
void install_name(const struct watch *w, struct buf *out);

struct install_options {
	const char *search_path; /* resolves unqualified names in the watch */
	bool lock_signs;         /* the role may lock the rows that hold signs of life */
};

/* CREATE OR REPLACE FUNCTION …; the watch must not be refused. */
void install_function(const struct watch_sql *q, const struct install_options *o, struct buf *out);

/*
 * ---- judge, decide and evidence as SQL (judge_sql.c) ----
 *
 * The texts are those of judge.c and decide.c: laws, verdicts, rules and remedies have the same
 * names in both kinds of ledger entry. Only verdicts by age are supported here; install_refusal()
 * refuses everything else.
 */

/* ---- texts of evidence.c as SQL expressions, over the fact names of judge_sql.c ---- */

#endif
