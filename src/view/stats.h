/* SPDX-License-Identifier: Apache-2.0
 * stats.h: the numbers of a watch (defib stats), and its learned run times with what they suggest
 * for its thresholds (defib learn); and its numbers over time, for charts.
 */
#ifndef VIEW_STATS_H
#define VIEW_STATS_H

#include "insight/learn.h"
#include "insight/series.h"
#include "insight/tally.h"

/* ,"false_positives":{…} */
void mistakes_json(const struct mistakes *m, struct buf *out);
/* A complete object. `ledger`: there is one to count in. */
void tally_json(const struct watch *w, const struct database *d, bool ledger, const struct tally *t,
                struct buf *out);

void tally_text(const struct watch *w, const struct database *d, bool ledger, const struct tally *t,
                bool color, struct buf *out);

/* Why nothing can be learnt of a watch; NULL: it can. */
const char *learn_why_not(const struct watch *w);
/* A complete object. `l` NULL: nothing can be learnt. */
void learned_json(const struct watch *w, const struct database *d, const struct learned *l,
                  struct buf *out);

void learned_text(const struct watch *w, const struct database *d, const struct learned *l,
                  bool color, struct buf *out);

/* ---- numbers over time ---- */

/* One document; `watch` NULL: all watches of the database. */
void series_view(const char *database, const char *watch, const struct series *s, struct buf *out);

#endif
