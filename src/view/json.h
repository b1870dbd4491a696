/*
 * json.h: members of JSON objects, for everything that is said both by a command's
 * --json and by the API: one renderer for both, which appends to a buffer.
 *
 * json_job.h       a job of a list
 * json_story.h     all that is known of one job
 * json_explain.h   one job, judged
 * json_ledger.h    an entry of the ledger
 * json_tally.h     the numbers of a watch
 * json_learned.h   what was learnt of a watch
 * json_watch_status.h  how a watch stands, and what persons said of it
 * json_finding.h   what the doctor found
 * json_config.h    the effective configuration
 * json_worker.h    a worker of the registry
 * json_alerts.h    how a rule of alerts stands, and messages
 *
 * What is masked is masked by the watch that is handed in: for a viewer it is a copy
 * that masks more (viewer.h).
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
