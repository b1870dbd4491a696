/*
 * ledger_lines.h: entries of the ledger as lines, for people and as JSON, with
 * the columns that a watch masks masked.
 */
#ifndef CLI_LEDGER_LINES_H
#define CLI_LEDGER_LINES_H

#include "cli/cli.h"
#include "ledger/ledger.h"

/* An entry and the database it stands in. */
struct ledger_line {
	const struct ledger_row *row;
	const struct database *database;
};

#define LEDGER_COLUMNS 7

/* Columns become wider as entries come, and never narrower. */
struct ledger_lines {
	const struct cli *cli;
	int widths[LEDGER_COLUMNS];
};

/* Print these to stdout, in this order. */
void ledger_lines_print(struct ledger_lines *l, const struct ledger_line *lines, int n);

#endif
