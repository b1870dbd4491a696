/* SPDX-License-Identifier: Apache-2.0
 * heartbeats.h: the last renewals of each worker, as this daemon saw them. The page draws a
 * worker's pulse from them. The registry itself only has the newest.
 *
 * Every BEATS_MS a database loop reads which workers are alive and when each last renewed its
 * lease. Renewals during a long pass or an outage of the database are not seen: such a gap is
 * marked, or it would look like silence. Everything is bounded, and nothing but the page depends on
 * it.
 */
#ifndef DAEMON_HEARTBEATS_H
#define DAEMON_HEARTBEATS_H

#include "life/roster.h"

#define BEATS_MS 2000
#define BEATS_KEPT 60          /* per worker */
#define BEATS_WORKERS_MAX 500  /* per database; further ones have no pulse */
#define BEATS_MEMORY_MS 900000 /* a worker that is not seen for this long is forgotten */
#define BEATS_BLIND_MS 6000    /* a longer time between two looks is a gap */

struct heartbeats;
struct heartbeats *heartbeats_new(void);
void heartbeats_free(struct heartbeats *b);

/* Look if it is time; *due_ms (CLOCK_BOOTTIME) is the next time. Fails only with the database. */
MUST_CHECK defib_err heartbeats_look(struct heartbeats *b, struct store *s, const char *database,
                                     int64_t *due_ms, struct failure *f);
/* The live workers of a look, at `now_ms` (CLOCK_BOOTTIME) and `now_us` (the database's clock). */
void heartbeats_note(struct heartbeats *b, const char *database, const struct roster_beat *rows,
                     int n, int64_t now_ms, int64_t now_us);
void heartbeats_forget(struct heartbeats *b, const char *database);

/* [12.5,null,2.5]: seconds since each, the oldest first; null: a gap. */
void heartbeats_json(struct heartbeats *b, const char *database, int64_t worker, int64_t now_ms,
                     struct buf *out);

#endif
