/* SPDX-License-Identifier: Apache-2.0
 * readings_workers.h: what workers report about themselves, the newest first, as metrics.
 */
#ifndef DAEMON_READINGS_WORKERS_H
#define DAEMON_READINGS_WORKERS_H

#include "daemon/readings.h"

/* What workers report about themselves, the newest first, as metrics (readings_workers.c). */
struct roster_row;
void readings_workers(struct readings *r, const struct roster_row *rows, int n, struct metrics *m,
                      const char *database, struct watch_loop **loops, int nloops);

#endif
