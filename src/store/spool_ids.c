/* SPDX-License-Identifier: Apache-2.0
 * spool_ids.c: a table with open addressing. No slot is marked as deleted: what stands behind a
 * removed one moves up.
 */
#include "store/spool_ids.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define SIZE_FIRST 64

struct spool_id {
	uint64_t hash;
	int64_t number; /* 0: the slot is free */
};

static size_t home_of(const struct spool_ids *ids, uint64_t hash)
{
	return (size_t)hash & (ids->size - 1);
}

static size_t after(const struct spool_ids *ids, size_t at)
{
	return (at + 1) & (ids->size - 1);
}

static void spool_ids_put(struct spool_ids *ids, struct spool_id id)
{
	size_t at = home_of(ids, id.hash);
	while (ids->slots[at].number)
		at = after(ids, at);
	ids->slots[at] = id;
}

static void spool_ids_grow(struct spool_ids *ids)
{
	const struct spool_ids old = *ids;
	ids->size = old.size ? old.size * 2 : SIZE_FIRST;
	ids->slots = mem_alloc(ids->size * sizeof *ids->slots);
	for (size_t i = 0; i < old.size; i++)
		if (old.slots[i].number)
			spool_ids_put(ids, old.slots[i]);
	free(old.slots);
}

void ids_add(struct spool_ids *ids, uint64_t hash, int64_t number)
{
	assert(number > 0);
	if (ids->n * 2 >= ids->size)
		spool_ids_grow(ids);
	spool_ids_put(ids, (struct spool_id){hash, number});
	ids->n++;
}

int64_t ids_next(const struct spool_ids *ids, uint64_t hash, size_t *at)
{
	/* *at counts the slots that were looked at. */
	while (ids->n > 0 && *at < ids->size) {
		const struct spool_id *id = &ids->slots[(home_of(ids, hash) + (*at)++) & (ids->size - 1)];
		if (!id->number)
			return 0;
		if (id->hash == hash)
			return id->number;
	}
	return 0;
}

void ids_remove(struct spool_ids *ids, uint64_t hash, int64_t number)
{
	if (ids->n == 0)
		return;
	size_t hole = home_of(ids, hash);
	while (ids->slots[hole].number && ids->slots[hole].number != number)
		hole = after(ids, hole);
	if (!ids->slots[hole].number)
		return;
	for (size_t at = after(ids, hole); ids->slots[at].number; at = after(ids, at)) {
		/* It stays if its home is behind the hole. */
		size_t home = home_of(ids, ids->slots[at].hash);
		if (((at - home) & (ids->size - 1)) < ((at - hole) & (ids->size - 1)))
			continue;
		ids->slots[hole] = ids->slots[at];
		hole = at;
	}
	ids->slots[hole].number = 0;
	ids->n--;
}

void ids_release(struct spool_ids *ids)
{
	free(ids->slots);
	*ids = (struct spool_ids){0};
}
