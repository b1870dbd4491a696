/* SPDX-License-Identifier: Apache-2.0
 * install_sql.h: recovery of a watch as a function inside PostgreSQL.
 *
 * The function runs the statements of compile.h in apply's order, each with a
 * snapshot of its own: look, judge and decide; lock; read again; write what
 * is unchanged; ledger last. One call is one batch and one transaction.
 */
#ifndef SETUP_INSTALL_SQL_H
#define SETUP_INSTALL_SQL_H

#include "base/text.h"
#include "watch/compile.h"
#include "watch/watch.h"

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

/*
 * ---- judge, decide and evidence as SQL (judge_sql.c) ----
 *
 * The words are those of judge.c and decide.c: laws, verdicts, rules and remedies have the same
 * names in either ledger entry. Only what age can judge is said here; install_refusal() refuses
 * everything else.
 */

/*
 * A reading (look or reread) with a name and a type for every fact: keys as
 * defib_k1…, `job`, and in `facts` all that must still be so when it is read
 * again, as one value.
 */
void sql_facts(const struct watch_sql *q, const char *reading, struct buf *out);
/* The same with `law`: what speaks against the job, or null. */
void sql_judged(const struct watch_sql *q, const char *reading, struct buf *out);
/* The fact by which, beside the owner, a hold knows its job. */
const char *sql_sign_name(const struct watch *w);
/*
 * The jobs that are stuck and to be acted upon or noted, oldest first, as one
 * JSON array. $1 is look's own limit and stays null, $2 says how many at most,
 * $3 is the crash budget's time in microseconds.
 */
void sql_decided(const struct watch_sql *q, struct buf *out);

/* ---- texts of evidence.c as SQL expressions, over the names that judge_sql.c gives to facts ----
 */

/* As reason_text(). */
void sql_reason(const struct watch *w, struct buf *out);
/* As evidence_json(). */
void sql_evidence(const struct watch *w, struct buf *out);
/* When a retry is due, in microseconds; null for other remedies. As backoff_us(). */
void sql_retry_us(const struct backoff *b, struct buf *out);

#endif
