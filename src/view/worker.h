/* SPDX-License-Identifier: Apache-2.0
 * worker.h: a worker of the registry.
 */
#ifndef VIEW_WORKER_H
#define VIEW_WORKER_H

#include "life/roster.h"
#include "view/viewer.h"
#include "watch/settings.h"

#include <jansson.h>

/* An object that is still open. A viewer sees neither whole names nor processes. */
void worker_json(const struct roster_row *w, enum role role, struct arena *a, struct buf *out);

/* Results that a worker keeps because the database refuses them: an object, and a line. */
void worker_spool_json(const struct database *d, const char *name, const json_t *spool,
                       struct buf *out);
void worker_spool_text(const struct database *d, const char *name, const json_t *spool,
                       struct buf *out);

#endif
