/*
 * say_tally.h: the numbers of a watch.
 */
#ifndef SERVE_SAY_TALLY_H
#define SERVE_SAY_TALLY_H

#include "recover/tally.h"
#include "watch/settings.h"

/* An object, whole. `ledger`: there is one to count in. */
void tally_json(const struct watch *w, const struct database *d, bool ledger, const struct tally *t,
                struct buf *out);

#endif
