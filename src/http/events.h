/* SPDX-License-Identifier: Apache-2.0
 * events.h: GET /api/v1/events: what happens, as it happens (server-sent events).
 *
 *   ledger    an entry, once it is committed: what `defib ledger --json` prints
 *   watch     how a watch is: all of them at first, then each that changed, at most
 *             once a second
 *   database  its ledger can be read (up, back) or not (away)
 *   gap       entries that are not sent, because there are too many
 *
 * The id of an event is a cursor over all ledgers (event_stream.h). Who comes again
 * with it gets what was committed since, from the ledger itself: nothing has to be
 * kept for him, and any daemon can go on where another ended.
 *
 * Ledgers are read while somebody listens, by one thread per database (ledger_tail.c), and
 * each entry once for all who are up to date. Those who are not (they came back, or
 * are slow) are served from their own place, page by page.
 */
#ifndef HTTP_EVENTS_H
#define HTTP_EVENTS_H

#include "daemon/live_settings.h"
#include "daemon/overview.h"

#define EVENT_STREAMS_MAX 200 /* and never more than half of http: max_connections */

struct events;

/* Starts no thread and asks no database before somebody listens. */
struct events *events_new(struct live_settings_box *setups, struct overview *overview);
/* After the HTTP server stopped: nobody listens any more. */
void events_free(struct events *e);
int events_listeners(struct events *e);

#endif
