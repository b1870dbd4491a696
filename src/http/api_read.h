/* SPDX-License-Identifier: Apache-2.0
 * api_read.h: handlers that look at jobs, the ledger and workers, and what they share.
 *
 * api_read.c    the routes; lists and stories of jobs
 * api_ledger.c  the ledger, a page at a time or as a file
 * api_workers_list.c  workers
 */
#ifndef HTTP_API_READ_H
#define HTTP_API_READ_H

#include "http/api.h"

void read_ledger(struct api_call *c);
void read_workers(struct api_call *c);
void read_worker(struct api_call *c);

/*
 * A failure of what the caller asked for: a word that a key's type cannot take is his slip
 * (400), not the database's trouble.
 */
bool read_failed(struct api_call *c, struct failure *f);
/* A parameter that is true or false; false after a problem. */
bool read_flag(struct api_call *c, const char *name, bool *out);

#endif
