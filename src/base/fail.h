/* SPDX-License-Identifier: Apache-2.0
 * fail.h: the one error convention.
 *
 * What can fail returns a defib_err and fills a caller-owned `struct failure`
 * with one sentence of what and why, and one of what to do next. The message
 * is made where it happened and logged or printed once, at the top.
 */
#ifndef BASE_FAIL_H
#define BASE_FAIL_H

#include "defib.h"

#include <stdbool.h>

#define MUST_CHECK DEFIB_MUST_CHECK
/* A local that is released by `release(&it)` wherever its scope is left. */
#define AUTO(release) __attribute__((cleanup(release)))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

struct failure {
	defib_err code;
	char what[768];
	char next[384];
	char sqlstate[6]; /* five characters where the database gave one, else "" */
};

/* Fill `f` (which may be NULL) and return `code`, so that callers can write `return fail(…)`. */
defib_err fail(struct failure *f, defib_err code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Add what to do next. */
void fail_next(struct failure *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "did you mean …?" as what to do next, if one of the names (ends with NULL) is near. */
bool fail_nearest(struct failure *f, const char *word, const char *const *names);
/* Put a context such as "watch pages" before the message. */
void fail_prefix(struct failure *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
void fail_clear(struct failure *f);

#endif
