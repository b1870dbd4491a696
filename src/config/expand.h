/* SPDX-License-Identifier: Apache-2.0
 * expand.h: ${NAME} and ${NAME:-default} in a value, from the environment.
 *
 * `$${` stands for a literal `${`. A default ends at the first `}` and is
 * taken when the variable is unset or empty, as in a shell.
 */
#ifndef CONFIG_EXPAND_H
#define CONFIG_EXPAND_H

#include "base/buf.h"

typedef const char *(*env_fn)(const char *name);

/*
 * Append `text` with its variables replaced to `out`, and to `origin` what
 * supplied them: " (from NAME)", " (default of NAME)". False with a sentence
 * in `why` when a variable is unset or the syntax is wrong.
 */
MUST_CHECK bool env_expand(const char *text, env_fn env, struct buf *out, struct buf *origin,
                           struct buf *why);
/* Does SQL hold a ${…} that its writer may believe to be replaced? */
bool env_in_sql(const char *sql);

#endif
