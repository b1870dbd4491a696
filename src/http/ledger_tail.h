/* SPDX-License-Identifier: Apache-2.0
 * ledger_tail.h: the ledger of one database, read once for all clients of the event stream.
 */
#ifndef HTTP_LEDGER_TAIL_H
#define HTTP_LEDGER_TAIL_H

#include "http/events.h"

struct tailer;

/* The ledger of one database, read for all clients (ledger_tail.c). */
struct tailer *tailer_start(struct events *e, const char *database);
const char *tailer_database(const struct tailer *t);
/* After `stop` was set. */
void tailer_end(struct tailer *t);

#endif
