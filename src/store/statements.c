/* SPDX-License-Identifier: Apache-2.0
 * statements.c: the least-recently-used list of prepared statements.
 *
 * 64 slots are searched linearly: a hash of the text is compared first, so a miss costs 64 integer
 * comparisons, far less than the round trip that it saves.
 */
#include "store/statements.h"
#include "base/mem.h"

#include <assert.h>

/* FNV-1a */
static uint64_t hash_of(const char *text)
{
	uint64_t h = UINT64_C(14695981039346656037);
	for (; *text != '\0'; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
	return h;
}

struct statement *statements_find(struct statements *all, const char *sql)
{
	uint64_t hash = hash_of(sql);
	for (int i = 0; i < STATEMENTS_MAX; i++) {
		struct statement *slot = &all->slots[i];
		if (slot->sql && slot->hash == hash && strcmp(slot->sql, sql) == 0) {
			slot->used = ++all->finds;
			return slot;
		}
	}
	return NULL;
}

struct statement *statements_victim(struct statements *all)
{
	struct statement *oldest = &all->slots[0];
	for (int i = 0; i < STATEMENTS_MAX; i++) {
		struct statement *slot = &all->slots[i];
		if (!slot->sql)
			return slot;
		if (slot->used < oldest->used)
			oldest = slot;
	}
	return oldest;
}

uint64_t statements_next_id(const struct statements *all)
{
	return all->puts + 1;
}

void statements_put(struct statements *all, struct statement *slot, const char *sql, void *handle)
{
	assert(!slot->sql);
	slot->sql = mem_strdup(sql);
	slot->hash = hash_of(sql);
	slot->used = ++all->finds;
	slot->id = ++all->puts;
	slot->handle = handle;
}

void statements_forget(struct statement *slot)
{
	free(slot->sql);
	*slot = (struct statement){0};
}
