/*
 * json_worker.h: a worker of the registry.
 */
#ifndef VIEW_JSON_WORKER_H
#define VIEW_JSON_WORKER_H

#include "life/roster.h"
#include "watch/service.h"

/* An object that is still open. A viewer sees neither whole names nor processes. */
void worker_json(const struct roster_row *w, enum role role, struct arena *a, struct buf *out);

#endif
