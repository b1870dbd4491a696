/*
 * init_write.h: watches that were proposed, as a configuration: on stdout, in a
 * new file, or behind what a file has.
 */
#ifndef CLI_INIT_WRITE_H
#define CLI_INIT_WRITE_H

#include "cli/cli.h"

/*
 * `entries` are list entries of `watches:`; `about` says in one line what was
 * looked at. With --write FILE nothing is ever overwritten: a new file gets a
 * whole configuration, one that is there is added to after a person said yes, and
 * only if what comes out can be read. Returns the exit code; has said what failed.
 */
int init_write(struct cli *c, const char *entries, const char *about);

#endif
