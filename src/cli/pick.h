/*
 * pick.h: what commands about a single watch start with.
 */
#ifndef CLI_PICK_H
#define CLI_PICK_H

#include "cli/cli.h"
#include "watch/compile.h"

struct picked {
	const struct watch *watch;
	const struct database *database;
	struct store *store; /* read-only; close with store_close */
	struct binding binding;
	struct watch_sql sql;
};

/*
 * The named watch (NULL: the only one), opened and compiled. Prints one line
 * and returns an exit code when that fails.
 */
int pick_watch(struct cli *c, const char *name, struct picked *out);

#endif
