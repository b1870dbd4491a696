/* SPDX-License-Identifier: Apache-2.0
 * http_spool.h: where new work waits that came over HTTP while its database was away: a side
 * queue a database below http.spool, which its database loop drains.
 */
#ifndef DAEMON_HTTP_SPOOL_H
#define DAEMON_HTTP_SPOOL_H

#include "watch/settings.h"
#include "worker/side_queue.h"

/* Its folder is NULL where nothing is kept. */
struct side_queue http_spool_queue(const struct settings *s, const struct database *d,
                                   struct arena *a);

#endif
