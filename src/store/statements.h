/* SPDX-License-Identifier: Apache-2.0
 * statements.h: which prepared statements a session has, by their SQL text.
 *
 * A fixed number of slots; the one that was used longest ago makes room. The
 * engine decides what a slot holds and how it is dropped.
 */
#ifndef STORE_STATEMENTS_H
#define STORE_STATEMENTS_H

#include <stdint.h>

#define STATEMENTS_MAX 64

struct statement {
	char *sql; /* NULL: the slot is free */
	uint64_t hash;
	uint64_t used; /* when it was found last, in finds */
	uint64_t id;   /* never given twice in a session: makes a name */
	void *handle;  /* SQLite: sqlite3_stmt */
};

struct statements {
	struct statement slots[STATEMENTS_MAX];
	uint64_t finds, puts;
};

/* The slot that holds `sql`, now the most recently used; NULL when none does. */
struct statement *statements_find(struct statements *all, const char *sql);
/* A free slot, or the least recently used one, which the caller must drop first. */
struct statement *statements_victim(struct statements *all);
/* The id that the next put will give. */
uint64_t statements_next_id(const struct statements *all);
/* Fill a free slot. */
void statements_put(struct statements *all, struct statement *slot, const char *sql, void *handle);
/* Make a slot free; what `handle` points to is the caller's. */
void statements_forget(struct statement *slot);

#endif
