/*
 * json_scan.h: what a pass over a watch found and did, as `defib scan --json` says it.
 *
 * {"watches":[ watch … ],"running":…,"found":…}: a watch begins, its jobs follow as
 * they become known, and it ends with its numbers.
 */
#ifndef VIEW_JSON_SCAN_H
#define VIEW_JSON_SCAN_H

#include "base/buf.h"
#include "recover/scan.h"

/* {"watch":…,"database":…,"jobs":[ */
void scan_begin_json(const struct watch *w, const struct database *d, struct buf *out);
void scan_job_json(const struct watch *w, const struct candidate *c, struct buf *out);
/* ],"running":…} */
void scan_end_json(const struct scan_result *r, struct buf *out);
/* "running":…,"found":…, and each outcome */
void scan_counts_json(int64_t running, int64_t found, const int64_t *outcomes, struct buf *out);
/* Shown columns, owner, attempt, who has it locked, and "status: running -> queued". */
void candidate_words(const struct watch *w, const struct candidate *c, struct buf *out);

#endif
