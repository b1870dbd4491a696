/* SPDX-License-Identifier: Apache-2.0
 * tally.h: the numbers of a watch.
 */
#ifndef VIEW_TALLY_H
#define VIEW_TALLY_H

#include "insight/tally.h"
#include "watch/settings.h"

/* An object, whole. `ledger`: there is one to count in. */
void tally_json(const struct watch *w, const struct database *d, bool ledger, const struct tally *t,
                struct buf *out);

void tally_text(const struct watch *w, const struct database *d, bool ledger, const struct tally *t,
                bool color, struct buf *out);

#endif
