/* SPDX-License-Identifier: Apache-2.0
 * database_file.h: which file an SQLite session has open. A database is restored by putting another
 * file in its place. SQLite then goes on with the old one, which has no name any more: what is
 * written there is lost, and nobody says so. So a session remembers which file it opened and
 * compares it with what the path names now, and store.h opens it again.
 *
 * The device and the inode name a file as long as it is open somewhere. Afterwards the inode may be
 * given to the next file, so the time of its creation belongs to it where the file system knows it.
 *
 * SQLite finds its log by the name of the database alone. If somebody replaces the database and
 * leaves FILE-wal, SQLite would apply the log of one file to the other. The process remembers which
 * log belongs to the file that it had open, and refuses the new file until the log is gone.
 */
#ifndef STORE_DATABASE_FILE_H
#define STORE_DATABASE_FILE_H

#include "store/store.h"

/*
 * The absolute path of the file that a path names, also after a change of the directory; NULL for a
 * database in memory. The caller frees it.
 */
char *database_file_path(const char *path);
/* What the path names now. False: it is not known. All zero: nothing has this name. */
bool database_file_state(const char *path, struct store_state *out);
/* Whether SQLite may open it: DEFIB_CONNECTION if the log beside it is that of another file. */
MUST_CHECK defib_err database_file_fits(const char *path, const struct store_state *now,
                                        const char *name, struct failure *f);
/* A session has opened it. That it is another file than before is logged once. */
void database_file_opened(const char *path, const struct store_state *now, const char *name);
/* Whether the path names another file by now, or none, which is logged once. */
bool database_file_is_another(const char *path, const struct store_state *opened, const char *name);
/* For tests. */
void database_file_forget(void);

#endif
