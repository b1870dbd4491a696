/* SPDX-License-Identifier: Apache-2.0
 * program_env.h: the environment of a program that defib starts for somebody.
 *
 * It begins nearly empty. Variables of defib itself (URLs with passwords, tokens) are passed only
 * if the configuration names them: an entry is NAME, which passes our variable on, or NAME=value.
 * Of two entries of a name the later one counts.
 */
#ifndef BASE_PROGRAM_ENV_H
#define BASE_PROGRAM_ENV_H

#include "base/mem.h"

struct program_env {
	char **entries; /* ends with NULL */
	int n, cap;
	struct arena *arena;
};

/* PATH, HOME, USER, LOGNAME, SHELL, TMPDIR, TZ, LANG, LANGUAGE and LC_*, as far as we have them. */
void program_env_init(struct program_env *e, struct arena *a);
/* "NAME=value"; the text stays its owner's. */
void program_env_put(struct program_env *e, char *entry);
/* Entries as a configuration has them, up to NULL; a NAME that we do not have is left out. */
void program_env_pass(struct program_env *e, const char *const *entries);
/* Whether an entry begins with a name: letters, digits and _, no digit first. */
bool program_env_entry_ok(const char *entry);

#endif
