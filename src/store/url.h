/* SPDX-License-Identifier: Apache-2.0
 * url.h: database URLs as other tools write them, read as ours.
 *
 * An application's DATABASE_URL is written for its driver: postgresql+asyncpg://,
 * ?pgbouncer=true, sqlite:///jobs.db. What means the same is taken; what means nothing
 * here is left out, and said.
 */
#ifndef STORE_URL_H
#define STORE_URL_H

#include "store/store.h"

/*
 * Our own form of a URL, and in `notes` what was read otherwise than it is written, as one
 * sentence without any value of it (it may be secret); "" where there is nothing to say.
 * Reading the answer again changes nothing. False with a message that says what to write.
 */
bool store_url_read(const char *url, struct buf *out, struct buf *notes, struct failure *f);

#endif
