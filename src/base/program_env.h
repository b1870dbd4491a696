/* SPDX-License-Identifier: Apache-2.0
 * program_env.h: the environment of a program that defib starts for a user.
 *
 * It begins nearly empty. Variables of defib itself (URLs with passwords, tokens) are passed only
 * if the configuration names them. An entry is NAME, which passes defib's own variable on, or
 * NAME=value. If a name has two entries, the later one counts.
 */
#ifndef BASE_PROGRAM_ENV_H
#define BASE_PROGRAM_ENV_H

#include "base/mem.h"
#include "base/text.h"

struct program_env {
	char **entries; /* ends with NULL */
	int n, cap;
	struct arena *arena;
};

/* PATH, HOME, USER, LOGNAME, SHELL, TMPDIR, TZ, LANG, LANGUAGE and LC_*, if they are set. */
void program_env_init(struct program_env *e, struct arena *a);
/* "NAME=value". The text is not copied. */
void program_env_put(struct program_env *e, char *entry);
/* Entries from a configuration, up to NULL. A NAME that is not set is left out. */
void program_env_pass(struct program_env *e, const char *const *entries);
/* Those of our own variables that begin so and are not passed on: "PGHOST, PGPORT". */
void program_env_withheld(const struct program_env *e, const char *begin, struct buf *out);
/* Whether an entry begins with a name: letters, digits and _, not a digit first. */
bool program_env_entry_ok(const char *entry);

#endif
