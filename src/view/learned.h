/* SPDX-License-Identifier: Apache-2.0
 * learned.h: the run times learned of a watch, and what they say about its thresholds.
 */
#ifndef VIEW_LEARNED_H
#define VIEW_LEARNED_H

#include "insight/learn.h"
#include "watch/settings.h"

/* Why nothing can be learnt of a watch; NULL: it can. */
const char *learn_why_not(const struct watch *w);
/* The kind, or the watch where it has none. */
const char *learned_name(const struct watch *w, const struct learned_kind *k);
/* An object, whole. `l` NULL: nothing can be learnt. */
void learned_json(const struct watch *w, const struct database *d, const struct learned *l,
                  struct buf *out);

void learned_text(const struct watch *w, const struct database *d, const struct learned *l,
                  bool color, struct buf *out);

#endif
