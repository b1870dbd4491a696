/* SPDX-License-Identifier: Apache-2.0
 * sqlite.h: what the files of the SQLite engine share: rows of an SQLite statement as text in an
 * arena.
 */
#ifndef STORE_SQLITE_H
#define STORE_SQLITE_H

#include "base/fail.h"
#include "store/store.h"

#include <sqlite3.h>

struct cells {
	struct store_rows *rows;
	struct arena *arena;
	const char **grown; /* cells while their number is unknown */
	size_t room;        /* in rows */
	bool refused;       /* SQLite had no memory for one of them */
};

void cells_start(struct cells *c, sqlite3_stmt *stmt);
void cells_add_row(struct cells *c, sqlite3_stmt *stmt);
/* Hand the cells to `rows`; also after an error. */
void cells_finish(struct cells *c);

/* From SQLite's result codes to our error classes. */

/* The class of an extended result code. */
defib_err sqlite_class(int extended);

#endif
