/* SPDX-License-Identifier: Apache-2.0 */
/* http_spool.c: see http_spool.h. */
#include "daemon/http_spool.h"

struct side_queue http_spool_queue(const struct settings *s, const struct database *d,
                                   struct arena *a)
{
	struct side_queue q = {.url = d->url, .wait_ms = s->http.database_timeout_us / 1000};
	q.base = s->http.spool;
	if (s->http.spool)
		q.folder = arena_printf(a, "%s/%s/" SIDE_QUEUE_FOLDER, s->http.spool, d->name);
	return q;
}
