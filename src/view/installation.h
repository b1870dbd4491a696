/* SPDX-License-Identifier: Apache-2.0
 * installation.h: what belongs to an installation and not to one watch: findings of doctor, the
 * effective configuration, what retention keeps, and the workers of the registry.
 */
#ifndef VIEW_INSTALLATION_H
#define VIEW_INSTALLATION_H

#include "ledger/retention.h"
#include "life/roster.h"
#include "setup/doctor.h"
#include "view/record.h"

#include <jansson.h>

/* A struct finding. */
extern const struct record finding_record;
/* A line, and a second one with the fix. */
void finding_text(const struct finding *f, bool color, struct buf *out);

/* A struct cfg_shown. Secrets were masked when they were read. */
extern const struct record setting_record;
/* A complete array. */
void config_json(const struct cfg_shown *shown, int n, struct buf *out);

/* A struct retention_state: what retention keeps and has removed in one database; and lines. */
extern const struct record retention_record;
void retention_text(const struct database *d, const struct retention_state *st, struct buf *out);

/* ---- workers ---- */

/* A worker, and what a daemon saw of it. */
struct worker_view {
	const struct roster_row *row;
	const char *beats; /* JSON: when it renewed its lease; NULL: not seen */
};
/* A struct worker_view. A viewer sees neither full names nor processes. */
extern const struct record worker_record;

/* Results that a worker keeps on disk because the database refuses them; and as a line. */
struct worker_spool {
	const char *worker, *spool; /* spool: JSON */
};
extern const struct record worker_spool_record;
void worker_spool_text(const struct database *d, const char *name, const json_t *spool,
                       struct buf *out);

#endif
