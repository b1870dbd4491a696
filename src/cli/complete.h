/*
 * complete.h: what may come next on a command line, for the shells.
 */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "cli/cli.h"

/*
 * The words of `c` behind the first are a command line without its "defib"; the last one is
 * being typed. Prints each word that may stand in its place as "word<TAB>about"; ":files" or
 * ":directories" where the shell knows better. A word that ends with = or / goes on. Reads
 * the configuration for names, says nothing when there is none, and asks no database.
 */
int complete_words(struct cli *c);

#endif
