/* SPDX-License-Identifier: Apache-2.0
 * read_rows.h: an entry's columns, selected and decoded in one order. For the
 * files of this room only.
 */
#ifndef LEDGER_READ_ROWS_H
#define LEDGER_READ_ROWS_H

#include "ledger/ledger.h"

/* The columns of a row of the ledger with the alias `l`. */
#define LEDGER_ROW_COLUMNS                                                                         \
	"l.id, {iso l.at}, l.batch, l.watch, l.job, l.event, l.actor, l.verdict, l.rule, l.reason, "   \
	"l.evidence, l.before, l.after, l.epoch"
struct ledger_row *rows_decode(const struct store_rows *rows, struct arena *a, int *n);

#endif
