/*
 * init_print.h: `defib init --print`: what a DBA runs for a role that may not create.
 */
#ifndef CLI_INIT_PRINT_H
#define CLI_INIT_PRINT_H

#include "cli/cli.h"

/* The SQL of defib's tables, then the grants of a role for this configuration; the exit code. */
int init_print(struct cli *c, const struct database *d);

#endif
