/* SPDX-License-Identifier: Apache-2.0
 * grants.h: what a role needs on the tables that a watch names, as GRANTs for a DBA.
 *
 * Made from the watch's own words, without a database: the table and its columns by the SET
 * lists, other tables by where the user's SQL names them.
 */
#ifndef WATCH_GRANTS_H
#define WATCH_GRANTS_H

#include "watch/watch.h"

/* How much of a watch the role does; each has all that the ones before it have. */
enum watch_use { WATCH_READ, WATCH_RECOVER, WATCH_WORK };

/* One statement a line. `role` is quoted. */
void watch_grants(const struct watch *w, enum watch_use use, const char *role, struct arena *a,
                  struct buf *out);

#endif
