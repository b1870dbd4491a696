/*
 * read_rows.h: an entry's columns, selected and decoded in one order. For the
 * files of this room only.
 */
#ifndef LEDGER_READ_ROWS_H
#define LEDGER_READ_ROWS_H

#include "ledger/ledger.h"

/* The columns of a row of the ledger with the alias `l`. */
void add_row_columns(struct buf *out, enum store_engine engine);
struct ledger_row *rows_decode(const struct store_rows *rows, struct arena *a, int *n);

#endif
