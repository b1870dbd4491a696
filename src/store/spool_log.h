/* SPDX-License-Identifier: Apache-2.0
 * spool_log.h: the write-ahead log of a spool, so that a commit costs one sync of a file that has
 * its size and its name already. As SQLite leaves it, a commit makes the log longer, so that its
 * sync writes metadata too, and the first commit after each open syncs the directory as well.
 */
#ifndef STORE_SPOOL_LOG_H
#define STORE_SPOOL_LOG_H

#include <sqlite3.h>
#include <stdint.h>

struct spool_log {
	int page;     /* bytes of a page */
	int most;     /* pages; then they are copied to the file */
	int64_t end;  /* bytes of the log that are in use; 0: not known, nothing was committed */
	int64_t size; /* and that it has */
};

/* The name of the VFS to open a spool with: "unix", but only a new log's name is synced. */
const char *spool_log_vfs(void);
/* From now on `log`, which stays where it is, follows the commits to a file that has a log. */
void spool_log_follow(struct spool_log *log, sqlite3 *db);

#endif
