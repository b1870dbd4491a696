/* SPDX-License-Identifier: Apache-2.0
 * help.h: what help, the manual page and the shells' completions take from the same tables.
 */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/cli.h"

extern const char *const group_titles[GROUP_COUNT];
extern const char help_exit_codes[], help_watch_options[];

/* The manual page, defib(1), to stdout. */
void print_manual(void);

#endif
