/* SPDX-License-Identifier: Apache-2.0
 * ledger_cursor.h: a place in the ledgers of several databases at once, as the id of
 * an event: "main=123,other=45". Ids of a ledger are committed in their order, so
 * whoever has a cursor has everything up to it and needs nothing else to go on.
 *
 * A database that is not named has not been seen yet. Names are percent-encoded where
 * they are not plain, so that any text of a client is either a cursor or is refused.
 */
#ifndef HTTP_LEDGER_CURSOR_H
#define HTTP_LEDGER_CURSOR_H

#include "base/buf.h"

#define LEDGER_CURSOR_MAX 64 /* databases */

struct ledger_place {
	char *database;
	int64_t id; /* the last entry that is behind us; -1: not seen yet */
};

struct ledger_cursor {
	struct ledger_place places[LEDGER_CURSOR_MAX];
	int n;
};

/* False: it is no cursor; *c is then empty. */
bool ledger_cursor_parse(struct ledger_cursor *c, const char *text);
/* The place in a database, made where there is none; NULL: there is no room for another. */
struct ledger_place *ledger_cursor_at(struct ledger_cursor *c, const char *database);
/* Those that were seen, in the order in which they came. */
void ledger_cursor_text(const struct ledger_cursor *c, struct buf *out);
void ledger_cursor_release(struct ledger_cursor *c);

#endif
