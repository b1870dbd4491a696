/* SPDX-License-Identifier: Apache-2.0
 * evidence_sql.h: the texts of evidence.c as SQL expressions, over the names
 * that judge_sql.c gives to what is known of a job. For the same job both say
 * the same.
 */
#ifndef SETUP_EVIDENCE_SQL_H
#define SETUP_EVIDENCE_SQL_H

#include "base/buf.h"
#include "watch/watch.h"

/* As reason_text(). */
void sql_reason(const struct watch *w, struct buf *out);
/* As evidence_json(). */
void sql_evidence(const struct watch *w, struct buf *out);
/* When a retry is due, in microseconds; null for other remedies. As backoff_us(). */
void sql_retry_us(const struct backoff *b, struct buf *out);

#endif
