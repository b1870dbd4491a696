/* SPDX-License-Identifier: Apache-2.0
 * grants.h: the privileges that a watch needs.
 */
#ifndef WATCH_GRANTS_H
#define WATCH_GRANTS_H

#include "watch/watch.h"

/* How much of a watch the role does; each level includes the ones before it. */
enum watch_use { WATCH_READ, WATCH_RECOVER, WATCH_WORK };

/* A privilege that the role needs on a table, or (`column`) on one of its columns. */
typedef void watch_need(void *ctx, const char *table, const char *privilege, const char *column);
/* Tables are as SQL names them, quoted where they must be; columns are plain names. */
void watch_each_need(const struct watch *w, enum watch_use use, struct arena *a, watch_need *each,
                     void *ctx);
/* The same as GRANTs, one statement per line. `role` is quoted. */
void watch_grants(const struct watch *w, enum watch_use use, const char *role, struct arena *a,
                  struct buf *out);

#endif
