/* SPDX-License-Identifier: Apache-2.0
 * source.h: the bytes of a configuration file: reads them, rejects what is not text, and finds
 * positions that the YAML parser does not report.
 */
#ifndef CONFIG_SOURCE_H
#define CONFIG_SOURCE_H

#include "base/text.h"

#define SOURCE_MAX (1024 * 1024)

/* The whole file, at most SOURCE_MAX bytes and without NUL. */
MUST_CHECK defib_err source_load(const char *path, struct buf *out, struct failure *f);
/*
 * Offset of the first byte that is not UTF-8 or is a control character that YAML does not allow,
 * with the reason in `why`; the text's length if there is none.
 */
size_t source_bad_byte(const char *text, const char **why);
/* Line and column, from 1, of a byte; columns count characters. */
void source_position(const char *text, size_t offset, int *line, int *col);
/* Whether white space and a # follow `end` on the same line. */
bool source_comment_follows(const char *text, size_t n, size_t end);
/*
 * The position of a block scalar's | or >, given the offset of its content and, in `line`, that
 * offset's line. Leaves both unchanged if it cannot be found.
 */
void source_block_start(const char *text, size_t content, int *line, int *col);

/* ---- variables ---- */

/*
 * ${NAME} and ${NAME:-default} in a value, from the environment.
 *
 * `$${` stands for a literal `${`. A default ends at the first `}` and is used if the variable is
 * unset or empty, as in a shell.
 */

typedef const char *(*env_fn)(const char *name);

/*
 * Append `text` with its variables replaced to `out`, and to `origin` what
 * supplied them: " (from NAME)", " (default of NAME)". False with a sentence
 * in `why` when a variable is unset or the syntax is wrong.
 */
MUST_CHECK bool env_expand(const char *text, env_fn env, struct buf *out, struct buf *origin,
                           struct buf *why);
/* Whether SQL contains ${…}, which is not replaced there. */
bool env_in_sql(const char *sql);

#endif
