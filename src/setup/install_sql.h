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

/*
 * A reading (look or reread) with a name and a type for every fact: keys as defib_k1…, `job`, and
 * `facts`, one value with everything that must be unchanged in the second reading.
 */
void sql_facts(const struct watch_sql *q, const char *reading, struct buf *out);
/* The same with `law`: the rule by which the job is stuck, or null. */
void sql_judged(const struct watch_sql *q, const char *reading, struct buf *out);
/* The fact that, with the owner, identifies the run that a hold was made for. */
const char *sql_sign_name(const struct watch *w);
/*
 * The stuck jobs to act on or to record, oldest first, as one JSON array. $1 is look's own limit
 * and stays null, $2 is the maximum number, $3 is the crash budget's time in microseconds.
 */
void sql_decided(const struct watch_sql *q, struct buf *out);

/* ---- texts of evidence.c as SQL expressions, over the fact names of judge_sql.c ---- */

/* As reason_text(). */
void sql_reason(const struct watch *w, struct buf *out);
/* As evidence_json(). */
void sql_evidence(const struct watch *w, struct buf *out);
/* When a retry is due, in microseconds; null for other remedies. As backoff_us(). */
void sql_retry_us(const struct backoff *b, struct buf *out);

#endif
