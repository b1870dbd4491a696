/*
 * say_job.h: a job as lists say it.
 */
#ifndef SERVE_SAY_JOB_H
#define SERVE_SAY_JOB_H

#include "recover/browse.h"
#include "watch/settings.h"

/* "pages/17": how a job is written on the command line and by --ids. */
void job_qualified(const struct watch *w, const char *job, struct buf *out);
/* ,"key":…: a text, or the array of a composite one. */
void key_json(const struct watch *w, const char *job, struct buf *out);
/* All of a row, as an object that is still open. */
void browsed_json(const struct watch *w, const struct database *d, const struct browsed *row,
                  struct buf *out);

#endif
