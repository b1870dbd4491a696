/*
 * json_job.h: a job as lists say it.
 */
#ifndef VIEW_JSON_JOB_H
#define VIEW_JSON_JOB_H

#include "recover/attach.h"
#include "recover/browse.h"
#include "watch/settings.h"

/* "pages/17": how a job is written on the command line and by --ids. */
void job_qualified(const struct watch *w, const char *job, struct buf *out);
/* ,"key":…: a text, or the array of a composite one. */
void key_json(const struct watch *w, const char *job, struct buf *out);
/* All of a row, as an object that is still open. */
void browsed_json(const struct watch *w, const struct database *d, const struct browsed *row,
                  struct buf *out);
/* ,"claim":…: the session that took the job; null where its table does not tell. */
void claim_json(const struct claim *c, bool there, struct buf *out);

#endif
