/* SPDX-License-Identifier: Apache-2.0
 * mem.h: allocation that cannot fail, and an arena for data that lives for one pass.
 *
 * When memory runs out, the program prints one line and ends. That is safe, because everything
 * durable is in a database transaction. The library must not end its host: it keeps a reserve and,
 * once that is used up, waits for memory. An arena is freed as a whole at the end of its pass.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/fail.h"

void *mem_alloc(size_t n);           /* zeroed */
void *mem_grow(void *old, size_t n); /* realloc */
char *mem_strdup(const char *text);
/* Called first when an allocation fails; non-zero: try again. NULL: no callback. */
void mem_on_refused(int (*refused)(void *ctx, size_t n), void *ctx);
/*
 * For the library: allocate the reserve, or refill it. False: there is no memory for it. After the
 * first call, a failed allocation uses the reserve, and when that is used up, it waits. The process
 * never ends.
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
/* Discard everything; keep one block for the next pass. */
void arena_clear(struct arena *a);
void arena_release(struct arena *a);
/* AUTO_ARENA a = ARENA_INIT; releases itself. */
#define AUTO_ARENA AUTO(arena_release) struct arena

#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))

/*
 * Returns free memory to the system, and also code that ran only once (reading a configuration,
 * setting up TLS). The code stays in the page cache and is mapped again if it runs again. For
 * processes that run for months.
 */
void resident_trim(void);

#endif
