/* SPDX-License-Identifier: Apache-2.0
 * stats.h: the numbers of a watch (defib status and stats), and its learned run times with what
 * they suggest for its thresholds (defib learn); and its numbers over time, for charts.
 */
#ifndef VIEW_STATS_H
#define VIEW_STATS_H
#include "insight/learn.h"
#include "insight/series.h"
#include "insight/tally.h"
#include "view/record.h"

/* A struct mistakes, and a struct tally. */
extern const struct record mistakes_record, tally_record;
/* A title, and its lines. */
void tally_text(const struct watch *w, const struct database *d, const struct tally *t, bool color,
                struct buf *out);

void tally_lines(const struct watch *w, const struct tally *t, struct buf *out);
/* In one line: "12 running, 3 stuck; 812 waiting; 1 on hold; 41 recovered in 24 hours" */
void tally_words(const struct tally *t, struct buf *out);
/* "not counted: …" */
void not_counted_words(const struct failure *f, struct buf *out);

/* Why nothing can be learnt of a watch; NULL: it can. */
const char *learn_why_not(const struct watch *w);
struct learned_view {
	const struct learned *learned; /* NULL: nothing can be learnt */
};
extern const struct record learned_record;

void learned_text(const struct watch *w, const struct database *d, const struct learned *l,
                  bool color, struct buf *out);

/* ---- numbers over time ---- */

/* One document; `watch` NULL: all watches of the database. */
void series_view(const char *database, const char *watch, const struct series *s, struct buf *out);

#endif
