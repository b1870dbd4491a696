/* SPDX-License-Identifier: Apache-2.0
 * learned.h: what was learnt of run times, kept between observations: a document
 * a kind, and the row of the kind "" that all writers of a watch agree on.
 *
 * Who writes says what the row of "" was when he read it: if another wrote in
 * between, nothing is written and the same runs are not counted twice.
 * The tables are those of overrides.h.
 */
#ifndef LEDGER_LEARNED_H
#define LEDGER_LEARNED_H

#include "store/store.h"

struct learned_row {
	const char *kind, *document; /* JSON; when written, NULL takes the row away */
};

/* All rows of a watch, "" first. */
MUST_CHECK defib_err learned_read(struct store *s, const char *watch, struct arena *a,
                                  struct learned_row **out, int *n, struct failure *f);
/*
 * Write these, in a transaction of its own, if the row of "" is still `was`
 * (NULL: there was none). *taken is false when it was not.
 */
MUST_CHECK defib_err learned_write(struct store *s, const char *watch, const char *was,
                                   const struct learned_row *rows, int n, struct arena *a,
                                   bool *taken, struct failure *f);

#endif
