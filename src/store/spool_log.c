/* SPDX-License-Identifier: Apache-2.0 */
#include "store/spool_log.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD 32       /* bytes of the log before its first frame … */
#define FRAME_HEAD 24 /* … and of a frame before its page */
#define AHEAD 16      /* frames that the next commit may have */
#define PIECE 65536   /* bytes that are written ahead of the end at once */

/* ---- its name ---- */

static struct {
	pthread_once_t once;
	sqlite3_vfs vfs;
	int (*open)(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out);
	pid_t owner; /* the process that registered it; 0: none */
} spool_vfs = {.once = PTHREAD_ONCE_INIT};

/*
 * SQLite always opens a log as one that it may create, and syncs the directory of such a file with
 * the file's first sync. The head of a log is synced before a frame is written behind it, so the
 * name of a log with a frame is on the disk.
 */
static int spool_log_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                          int *out)
{
	struct stat st;
	if ((flags & SQLITE_OPEN_WAL) && lstat(name, &st) == 0 && st.st_size > HEAD)
		flags &= ~SQLITE_OPEN_CREATE;
	return spool_vfs.open(vfs, name, file, flags, out);
}

static void spool_vfs_register(void)
{
	const sqlite3_vfs *unix_vfs = sqlite3_vfs_find("unix");
	if (!unix_vfs)
		return;
	spool_vfs.open = unix_vfs->xOpen;
	spool_vfs.vfs = *unix_vfs;
	spool_vfs.vfs.zName = "defib-spool";
	spool_vfs.vfs.pNext = NULL;
	spool_vfs.vfs.xOpen = spool_log_open;
	if (sqlite3_vfs_register(&spool_vfs.vfs, 0) == SQLITE_OK)
		spool_vfs.owner = getpid();
}

/* When the library is unloaded. A forked child may not have SQLite's lock. */
__attribute__((destructor)) static void spool_vfs_unregister(void)
{
	if (spool_vfs.owner && spool_vfs.owner == getpid())
		(void)sqlite3_vfs_unregister(&spool_vfs.vfs);
}

const char *spool_log_vfs(void)
{
	/* By name: a program that we are part of may have made another VFS the default. */
	pthread_once(&spool_vfs.once, spool_vfs_register);
	return spool_vfs.vfs.zName ? spool_vfs.vfs.zName : "unix";
}

/* ---- its size ---- */

/*
 * Zeros behind the end, which the next sync takes along: SQLite takes them for no frame. If the
 * disk is full, the next commit says so.
 */
static void spool_log_write_ahead(struct spool_log *log, sqlite3 *db)
{
	static const char zeros[PIECE];
	sqlite3_file *file = NULL;
	sqlite3_int64 size;
	int64_t frame = FRAME_HEAD + log->page, most = HEAD + log->most * frame;
	int64_t next = log->end + AHEAD * frame < most ? log->end + AHEAD * frame : most;
	/* The size is not asked for each time: a file that was asked about gets a new time with its
	   next write, and its sync has that to write as well. */
	if (log->size >= next ||
	    sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, (void *)&file) ||
	    !file->pMethods || file->pMethods->xFileSize(file, &size))
		return;
	if (size < next && file->pMethods->xWrite(file, zeros, PIECE, size) == SQLITE_OK)
		size += PIECE;
	log->size = size;
}

/* Of SQLite, after each commit; what it returns is the result of the commit's statement. */
static int spool_log_committed(void *ctx, sqlite3 *db, const char *name, int frames)
{
	struct spool_log *log = ctx;
	log->end = HEAD + frames * (int64_t)(FRAME_HEAD + log->page);
	if (frames >= log->most)
		(void)sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	else
		spool_log_write_ahead(log, db);
	return SQLITE_OK;
}

void spool_log_follow(struct spool_log *log, sqlite3 *db)
{
	log->end = log->size = 0;
	(void)sqlite3_wal_hook(db, spool_log_committed, log);
}
