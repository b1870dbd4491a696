/* SPDX-License-Identifier: Apache-2.0
 * mem.c: allocation that cannot fail, and an arena.
 *
 * The arena is a list of blocks, newest first. A request that does not fit gets a new block of half
 * of all that was allocated, so that a pass over a million rows takes few blocks, `arena_clear`
 * keeps the largest, and a small permanent arena wastes little.
 */
#include "base/mem.h"

#include "base/text.h"

#include <assert.h>
#include <link.h>
#include <malloc.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

struct arena_block {
	struct arena_block *older;
	size_t used, size;
	_Alignas(max_align_t) unsigned char data[];
};

/* The reserve has room for the largest block of an arena, and more. */
enum { BLOCK_LEAST = 2048, BLOCK_MOST = 4 << 20, RESERVE = 8 << 20, WAIT_MS = 100 };

static int (*on_refused)(void *ctx, size_t n);
static void *on_refused_ctx;
static _Atomic(void *) reserve; /* never written to, so that it uses no pages */
static atomic_bool never_ends, waits;

void mem_on_refused(int (*refused)(void *ctx, size_t n), void *ctx)
{
	on_refused = refused;
	on_refused_ctx = ctx;
}

bool mem_reserve(void)
{
	void *none = NULL;
	atomic_store(&never_ends, true);
	if (atomic_load(&reserve))
		return true;
	void *fresh = malloc(RESERVE);
	if (fresh && !atomic_compare_exchange_strong(&reserve, &none, fresh))
		free(fresh); /* another thread was first */
	return fresh != NULL;
}

bool mem_short(void)
{
	return !atomic_load(&reserve);
}

/* Returns when it is worth trying again. */
static void out_of_memory(size_t n)
{
	if (on_refused && on_refused(on_refused_ctx, n))
		return;
	void *given = atomic_exchange(&reserve, NULL);
	free(given);
	if (given)
		return;
	bool ends = !atomic_load(&never_ends);
	if (ends || !atomic_exchange(&waits, true))
		fprintf(stderr, "defib: out of memory: cannot allocate %zu bytes%s\n", n,
		        ends ? "" : "; waiting");
	if (ends)
		abort();
	poll(NULL, 0, WAIT_MS);
}

/* More than memory can ever hold: waits, unless on_refused or abort() ends it. */
static _Noreturn void never_enough(size_t n)
{
	for (;;)
		out_of_memory(n);
}

void *mem_alloc(size_t n)
{
	void *p;
	while (!(p = calloc(1, n ? n : 1)))
		out_of_memory(n);
	return p;
}

void *mem_grow(void *old, size_t n)
{
	void *p;
	while (!(p = realloc(old, n ? n : 1)))
		out_of_memory(n);
	return p;
}

char *mem_strdup(const char *text)
{
	size_t n = strlen(text) + 1;
	return memcpy(mem_grow(NULL, n), text, n);
}

static struct arena_block *block_add(struct arena *a, size_t least)
{
	size_t size = a->used / 2;
	if (size < BLOCK_LEAST)
		size = BLOCK_LEAST;
	if (size > BLOCK_MOST)
		size = BLOCK_MOST;
	if (size < least)
		size = least;
	struct arena_block *block = mem_grow(NULL, sizeof(*block) + size);
	*block = (struct arena_block){.older = a->head, .used = 0, .size = size};
	a->head = block;
	return block;
}

void *arena_alloc(struct arena *a, size_t n)
{
	const size_t align = _Alignof(max_align_t);
	if (n > SIZE_MAX / 2)
		never_enough(n);
	/* Never zero bytes: two allocations have two addresses. */
	size_t need = (n + !n + align - 1) / align * align;
	struct arena_block *block = a->head;
	if (!block || block->size - block->used < need)
		block = block_add(a, need);
	void *p = block->data + block->used;
	block->used += need;
	a->used += need;
	assert(block->used <= block->size);
	return memset(p, 0, need);
}

char *arena_strdup(struct arena *a, const char *text)
{
	size_t n = strlen(text);
	return memcpy(arena_alloc(a, n + 1), text, n);
}

char *arena_strndup(struct arena *a, const char *text, size_t n)
{
	size_t len = strnlen(text, n);
	return memcpy(arena_alloc(a, len + 1), text, len);
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	char most[256]; /* most texts fit in it; printing one just to learn its length doubles the cost
	                 */
	va_list args;
	va_start(args, fmt);
	int len = vsnprintf(most, sizeof most, fmt, args);
	va_end(args);
	assert(len >= 0);
	char *text = arena_alloc(a, (size_t)len + 1);
	if ((size_t)len < sizeof most)
		return memcpy(text, most, (size_t)len);
	va_start(args, fmt);
	vsnprintf(text, (size_t)len + 1, fmt, args);
	va_end(args);
	return text;
}

static void blocks_free(struct arena_block *block)
{
	while (block) {
		struct arena_block *older = block->older;
		free(block);
		block = older;
	}
}

/* Under AddressSanitizer a block is freed at once, so that pointers into it are found. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
enum { GIVES_BACK = __has_feature(address_sanitizer) };

void arena_clear(struct arena *a)
{
	if (GIVES_BACK) {
		arena_release(a);
		return;
	}
	a->used = 0;
	if (!a->head)
		return;
	blocks_free(a->head->older);
	a->head->older = NULL;
	a->head->used = 0;
}

void arena_release(struct arena *a)
{
	blocks_free(a->head);
	*a = (struct arena)ARENA_INIT;
}

/* ---- memory of a long-running process ---- */

/* Code is never written to, so dropping its pages loses nothing. */
static int drop_code(struct dl_phdr_info *info, size_t size, void *ctx)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	(void)size;
	(void)ctx;
	if (text_starts(info->dlpi_name, "linux-vdso"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || (p->p_flags & PF_W))
			continue;
		uintptr_t from = (info->dlpi_addr + p->p_vaddr) & ~(page - 1);
		uintptr_t to = (info->dlpi_addr + p->p_vaddr + p->p_memsz) & ~(page - 1);
		if (to > from)
			(void)madvise((void *)from, to - from, MADV_DONTNEED);
	}
	return 0;
}

void resident_trim(void)
{
	(void)malloc_trim(0);
	(void)dl_iterate_phdr(drop_code, NULL);
}
