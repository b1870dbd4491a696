/* SPDX-License-Identifier: Apache-2.0
 * judge_sql.h: judge, decide and evidence as SQL, for the function of `defib install`.
 */
#ifndef SETUP_JUDGE_SQL_H
#define SETUP_JUDGE_SQL_H

#include "watch/compile.h"

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

/* As reason_text(). */
void sql_reason(const struct watch *w, struct buf *out);
/* As evidence_json(). */
void sql_evidence(const struct binding *b, struct buf *out);
/* Whether a text repeats one of the masked values, which are a JSON array. */
void sql_repeats(const char *text, const char *secrets, struct buf *out);
/* When a retry is due, in microseconds; null for other remedies. As backoff_us(). */
void sql_retry_us(const struct backoff *b, struct buf *out);

#endif
