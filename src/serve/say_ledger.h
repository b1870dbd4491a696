/*
 * say_ledger.h: an entry of the ledger.
 */
#ifndef SERVE_SAY_LEDGER_H
#define SERVE_SAY_LEDGER_H

#include "ledger/ledger.h"
#include "watch/watch.h"

/* An object, whole. `w` NULL: nothing is masked. */
void entry_json(const struct watch *w, const char *database, const struct ledger_row *r,
                struct buf *out);

#endif
