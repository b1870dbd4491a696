/* SPDX-License-Identifier: Apache-2.0
 * background.h: an act on all matching jobs, which a daemon carries out.
 */
#ifndef VIEW_BACKGROUND_H
#define VIEW_BACKGROUND_H

#include "ledger/background.h"
#include "view/output.h"
#include "watch/settings.h"

/* A complete object. */
void background_json(const struct background_act *act, const struct database *d, struct buf *out);
/* Jobs that were handled, whatever the outcome. */
int64_t background_handled(const struct background_act *act);
/* "1,204 of 4,800 requeued, 3 refused" */
void background_sentence(const struct background_act *act, struct buf *out);

/* For a terminal: titles, and one row each. */
void background_head(struct table *t);
void background_row(struct table *t, const struct background_act *act, const struct database *d,
                    int64_t now_us);
/* One of them with everything that is known. */
void background_text(const struct background_act *act, const struct database *d, int64_t now_us,
                     bool color, struct buf *out);

#endif
