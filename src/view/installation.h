/* SPDX-License-Identifier: Apache-2.0
 * installation.h: what belongs to an installation and not to one watch: findings of doctor, the
 * effective configuration, what retention keeps, and the workers of the registry.
 */
#ifndef VIEW_INSTALLATION_H
#define VIEW_INSTALLATION_H

#include "ledger/retention.h"
#include "life/roster.h"
#include "setup/doctor.h"
#include "view/viewer.h"

#include <jansson.h>

/* A complete object. */
void finding_json(const struct finding *f, struct buf *out);
/* A line, and a second one with the fix. */
void finding_text(const struct finding *f, bool color, struct buf *out);

/* A complete array. Secrets were masked when they were read. */
void config_json(const struct cfg_shown *shown, int n, struct buf *out);

/* What retention keeps and has removed in one database: an object, and lines. */
void retention_json(const struct database *d, const struct retention_state *st, struct buf *out);
void retention_text(const struct database *d, const struct retention_state *st, struct buf *out);

/* ---- workers ---- */

/* An object that is still open. A viewer sees neither full names nor processes. */
void worker_json(const struct roster_row *w, enum role role, struct arena *a, struct buf *out);

/* Results that a worker keeps on disk because the database refuses them: an object, and a line. */
void worker_spool_json(const struct database *d, const char *name, const json_t *spool,
                       struct buf *out);
void worker_spool_text(const struct database *d, const char *name, const json_t *spool,
                       struct buf *out);

#endif
