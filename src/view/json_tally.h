/*
 * json_tally.h: the numbers of a watch.
 */
#ifndef VIEW_JSON_TALLY_H
#define VIEW_JSON_TALLY_H

#include "insight/tally.h"
#include "watch/settings.h"

/* An object, whole. `ledger`: there is one to count in. */
void tally_json(const struct watch *w, const struct database *d, bool ledger, const struct tally *t,
                struct buf *out);

#endif
