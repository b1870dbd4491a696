/* SPDX-License-Identifier: Apache-2.0
 * incident.h: one incident.
 */
#ifndef VIEW_INCIDENT_H
#define VIEW_INCIDENT_H

#include "insight/incidents.h"
#include "view/output.h"
#include "view/viewer.h"

/* A complete object; hosts and workers are masked for viewers. */
void incident_json(const struct incident *i, const char *database, enum role role, struct arena *a,
                   struct buf *out);

#endif
