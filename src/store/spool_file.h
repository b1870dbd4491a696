/* SPDX-License-Identifier: Apache-2.0
 * spool_file.h: the SQLite file of a spool: opened, checked, mended if it is damaged, with space
 * for what is taken out of it. For spool.c.
 */
#ifndef STORE_SPOOL_FILE_H
#define STORE_SPOOL_FILE_H

#include "base/text.h"
#include "store/spool_log.h"

/* X(name, SQL): everything that is run while it is open, prepared when it is first run. */
#define SPOOL_STATEMENTS(X)                                                                        \
	X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
	X(COMMIT, "COMMIT")                                                                            \
	X(ROLLBACK, "ROLLBACK")                                                                        \
	X(LANES, "SELECT number, name FROM lane")                                                      \
	X(RECORDS, "SELECT number, id, length(bytes) FROM record ORDER BY number")                     \
	X(ADD_LANE, "INSERT INTO lane VALUES (?1, ?2)")                                                \
	X(APPEND, "INSERT INTO record VALUES (?1, ?2, ?3, ?4, ?5, ?6)")                                \
	X(IS, "SELECT 1 FROM record WHERE number = ?1 AND id = ?2")                                    \
	X(PEEK,                                                                                        \
	  "SELECT number, id, database, why, hash, bytes FROM record WHERE number BETWEEN ?1 AND ?2 "  \
	  "ORDER BY number LIMIT ?3")                                                                  \
	X(REMOVE, "DELETE FROM record WHERE number BETWEEN ?1 AND ?2")                                 \
	X(SET_ASIDE, "UPDATE record SET number = ?2, why = ?3, hash = ?4 WHERE number = ?1")           \
	X(PAGES, "PRAGMA page_count")

enum spool_sql {
#define X(name, sql) SPOOL_SQL_##name,
	SPOOL_STATEMENTS(X)
#undef X
		SPOOL_SQL_N
};

struct spool_file {
	char *folder;
	int folder_fd, reserve_fd;
	bool brief; /* as in struct spool_options */
	sqlite3 *db;
	struct spool_log log;
	sqlite3_stmt *prepared[SPOOL_SQL_N];
	char damage[128]; /* why it must be mended; "": it need not */
	bool full_logged; /* that nothing can be reserved */
};

/*
 * A record's number: the lane, whether it is set aside, and its place in that list. So one tree
 * keeps each list together and in order, without an index, which would be written with each record.
 */
#define SPOOL_LANE_SHIFT 48
#define SPOOL_LANES_MOST 0x7fff
#define SPOOL_ASIDE 0x800000000000
#define SPOOL_PLACES 0x7fffffffffff
#define SPOOL_PLACE_MOST 0x400000000000 /* when it is opened: behind it there is room for more */

/* Of a record. SQLite does not notice a bit that the disk changed in a value. */
int64_t spool_hash(int64_t number, const char *lane, const char *id, const char *database,
                   const char *bytes, size_t n);

/*
 * With folder, folder_fd, reserve_fd and brief set. If it is open, it is closed first. A damaged
 * file gets another name, and a new one has what could be read of it. Nothing else may have the
 * folder.
 */
MUST_CHECK defib_err spool_file_open(struct spool_file *d, struct failure *f);
/* Its files are removed if it is `empty`. */
void spool_file_close(struct spool_file *d, bool empty);
/* NULL, which every call of SQLite refuses: it cannot be prepared. */
sqlite3_stmt *spool_file_statement(struct spool_file *d, enum spool_sql which);
/* Run a statement that returns nothing, and unbind it. */
MUST_CHECK defib_err spool_file_run(struct spool_file *d, sqlite3_stmt *st, struct failure *f);
/* The failure of a call to SQLite. */
defib_err spool_file_failed(struct spool_file *d, int rc, struct failure *f);
/* What it has is not what we wrote: the next open mends it. */
defib_err spool_file_damaged(struct spool_file *d, const char *how, struct failure *f);
/* A text, if it is one that a C string can have; else NULL. */
const char *spool_file_text(sqlite3_stmt *st, int column);

/* Without the reserve, a full disk may refuse what would make room. */
bool spool_file_give_up_reserve(struct spool_file *d); /* false: it was already */
/* Everything was taken out of it: there is space again, for the reserve and for others. */
void spool_file_emptied(struct spool_file *d);

bool spool_file_exists(const char *folder);

#endif
