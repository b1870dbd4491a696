/* SPDX-License-Identifier: Apache-2.0
 * mem.h: allocation that cannot fail, and an arena for what lives one pass.
 *
 * When memory runs out, the program prints one line and ends. That is safe, because everything
 * durable is in a database transaction. The library must not end its host: it keeps a reserve and,
 * once that is used up, waits for memory. An arena is freed as a whole at the end of its pass.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/fail.h"

#include <stddef.h>

void *mem_alloc(size_t n);           /* zeroed */
void *mem_grow(void *old, size_t n); /* realloc */
char *mem_strdup(const char *text);
/* Called first when an allocation fails; other than 0: try again. NULL: no callback. */
void mem_on_refused(int (*refused)(void *ctx, size_t n), void *ctx);
/*
 * For the library: allocate the reserve, or refill it; false: there is no memory for it. From the
 * first call on, a failed allocation uses the reserve up, and then waits: the process never ends.
 */
bool mem_reserve(void);
/* Whether the reserve has been used. */
bool mem_short(void);

struct arena {
	struct arena_block *head;
	size_t used; /* bytes handed out since the last clear */
};
/* clang-format off */
#define ARENA_INIT {NULL, 0}
/* clang-format on */

void *arena_alloc(struct arena *a, size_t n); /* zeroed, aligned for any type */
char *arena_strdup(struct arena *a, const char *text);
char *arena_strndup(struct arena *a, const char *text, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Forget everything, keep one block for the next pass. */
void arena_clear(struct arena *a);
void arena_release(struct arena *a);
/* AUTO_ARENA a = ARENA_INIT; releases itself. */
#define AUTO_ARENA AUTO(arena_release) struct arena

#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))

/* Memory that a process which runs for months needed only at its start. */

/*
 * Gives back what is free, and code that was run once (reading a configuration, setting
 * up TLS): it stays in the page cache and is mapped again where it is run again.
 */
void resident_trim(void);

#endif
