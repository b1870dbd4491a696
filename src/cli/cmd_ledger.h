/* SPDX-License-Identifier: Apache-2.0
 * cmd_ledger.h: the parts of `defib ledger`.
 */
#ifndef CLI_CMD_LEDGER_H
#define CLI_CMD_LEDGER_H

#include "cli/cli.h"
#include "ledger/ledger.h"
#include "store/session.h"

/* The ledger of one database. */
struct ledger_source {
	const struct database *database;
	struct session session;
	bool exists;
	int64_t cursor; /* everything up to this id was printed, or was not asked for */
	bool down;      /* it was said that it cannot be reached */
};

/*
 * Print what comes until a signal, or until nobody reads. `filter` gives the
 * conditions; the cursors say where to begin.
 */
int ledger_follow(struct cli *c, struct ledger_source *sources, int n,
                  const struct ledger_filter *filter);
/* `defib ledger prune` (cmd_prune.c) and `defib ledger verify`. */
int ledger_prune(struct cli *c);
int ledger_verify(struct cli *c);

#endif
