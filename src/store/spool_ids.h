/* SPDX-License-Identifier: Apache-2.0
 * spool_ids.h: which records of a spool may have an id, in memory: the file has no index of ids,
 * which would be written with each record. Several ids can have one hash, so the caller compares
 * the record's own.
 */
#ifndef STORE_SPOOL_IDS_H
#define STORE_SPOOL_IDS_H

#include <stddef.h>
#include <stdint.h>

struct spool_ids {
	struct spool_id *slots;
	size_t size, n;
};

void ids_add(struct spool_ids *ids, uint64_t hash, int64_t number); /* above 0 */
void ids_remove(struct spool_ids *ids, uint64_t hash, int64_t number);
/*
 * The number of a record with this hash; 0: no more. *at is 0 at first, and kept for the next call.
 */
int64_t ids_next(const struct spool_ids *ids, uint64_t hash, size_t *at);
void ids_release(struct spool_ids *ids); /* empty, and can be used again */

#endif
