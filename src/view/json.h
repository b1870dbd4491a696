/* SPDX-License-Identifier: Apache-2.0
 * json.h: members of JSON objects, appended to a buffer.
 *
 * The room `view` renders each thing once as JSON (X_json) and once as text (X_text, or a row
 * of a table), for the command line and for HTTP alike. Begin with job.h; story.h, scan.h,
 * ledger.h, watch.h and report.h are built the same way. What is masked is masked by the watch
 * that is handed in: for a viewer it is a copy that masks more (viewer.h).
 */
#ifndef VIEW_JSON_H
#define VIEW_JSON_H

#include "base/buf.h"

/* ,"name":value; NULL and what is not there are null. */
void json_text(struct buf *out, const char *name, const char *value);
void json_number(struct buf *out, const char *name, bool has, int64_t value);
void json_seconds(struct buf *out, const char *name, bool has, int64_t us);
void json_bool(struct buf *out, const char *name, bool value);
/* As ISO text. */
void json_time(struct buf *out, const char *name, bool has, int64_t us);

#endif
