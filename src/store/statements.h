/* SPDX-License-Identifier: Apache-2.0
 * statements.h: which prepared statements a session has, by their SQL text.
 *
 * There is a fixed number of slots; the least recently used one is replaced. The engine decides
 * what a slot holds and how to drop it.
 */
#ifndef STORE_STATEMENTS_H
#define STORE_STATEMENTS_H

#include <stdint.h>

#define STATEMENTS_MAX 64

struct statement {
	char *sql; /* NULL: the slot is free */
	uint64_t hash;
	uint64_t used; /* number of the find that last returned it */
	uint64_t id;   /* never reused within a session; part of the statement's name */
	void *handle;  /* SQLite: sqlite3_stmt */
};

struct statements {
	struct statement slots[STATEMENTS_MAX];
	uint64_t finds, puts;
};

/* The slot that holds `sql`, now the most recently used, or NULL. */
struct statement *statements_find(struct statements *all, const char *sql);
/* A free slot, or the least recently used one, which the caller must drop first. */
struct statement *statements_victim(struct statements *all);
/* The id that the next put will assign. */
uint64_t statements_next_id(const struct statements *all);
/* Fill a free slot. */
void statements_put(struct statements *all, struct statement *slot, const char *sql, void *handle);
/* Make a slot free. The caller releases what `handle` points to. */
void statements_forget(struct statement *slot);

#endif
