/* SPDX-License-Identifier: Apache-2.0
 * pass_environment.h: the option of that name, of everything that starts a program: what its
 * otherwise clean environment has besides (base/program_env.h).
 */
#ifndef WATCH_PASS_ENVIRONMENT_H
#define WATCH_PASS_ENVIRONMENT_H

#include "config/options.h"

#define PASS_ENVIRONMENT_HELP                                                                      \
	"variables passed to the program besides PATH, HOME and the like: a list of NAME or "          \
	"NAME=value"

/* A custom reader; the target is a struct text_list. Values are not shown. */
void read_pass_environment(struct cfg_reader *r, const struct cfg_node *node, void *target);
/* All entries of both, the second's last; ends with NULL. */
const char *const *pass_environment_both(const struct text_list *a, const struct text_list *b,
                                         struct arena *arena);

#endif
