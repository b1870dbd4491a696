/*
 * kept.h: where new work waits that came over HTTP while its database was away: a side
 * queue a database below http.spool, which its station drains.
 */
#ifndef SERVE_KEPT_H
#define SERVE_KEPT_H

#include "watch/settings.h"
#include "worker/side_queue.h"

/* Its folder is NULL where nothing is kept. */
struct side_queue kept_queue(const struct settings *s, const struct database *d, struct arena *a);

#endif
