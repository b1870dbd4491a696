/* SPDX-License-Identifier: Apache-2.0
 * spool_file.c: the SQLite file of a spool. A commit costs one sync of its write-ahead log.
 */
#include "store/spool_file.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "store/spool_folder.h"
#include "store/sqlite.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "spool.db"
#define LOG_NAME FILE_NAME "-wal"
/* One that is being mended: until it has another name, the new file is not complete. */
#define DAMAGED_NAME "damaged.db"
#define DAMAGED_LOG_NAME DAMAGED_NAME "-wal"
#define RESERVE_NAME "reserve"

#define TEXT_OF(n) #n
#define TEXT(n) TEXT_OF(n)
#define BUSY_MS 2000 /* while somebody looks at it with sqlite3 */

/* Small: a commit writes whole pages, and a record takes a tenth of one. */
#define PAGE 2048
#define LOG_PAGES 1024 /* then they are copied to the file */
/* Each brief open reads the log: a longer one is copied at the close. */
#define BRIEF_LOG_BYTES (1 << 17)
/* The file may have to grow by what is in the log, and the log by what is taken meanwhile. */
#define RESERVE_BYTES (INT64_C(2) * LOG_PAGES * PAGE)
#define ROW_LEAST 16     /* bytes */
#define SHRINK_PAGES 256 /* a smaller file is not worth it */

/* SQLite checks the types of STRICT tables: a value that is read has the type of its column. */
static const char schema[] =
	"CREATE TABLE lane (number INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT; "
	"CREATE TABLE record (number INTEGER PRIMARY KEY, id TEXT NOT NULL, database TEXT NOT NULL, "
	"why TEXT, hash INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT";

int64_t spool_hash(int64_t number, const char *lane, const char *id, const char *database,
                   const char *bytes, size_t n)
{
	uint64_t hash = fnv1a_words(FNV_START, &number, sizeof number);
	hash = fnv1a_words(hash, lane, strlen(lane) + 1);
	hash = fnv1a_words(hash, id, strlen(id) + 1);
	hash = fnv1a_words(hash, database, strlen(database) + 1);
	return (int64_t)fnv1a_words(hash, bytes, n);
}

/* ---- SQLite ---- */

defib_err spool_file_damaged(struct spool_file *d, const char *how, struct failure *f)
{
	utf8_copy(d->damage, sizeof d->damage, how);
	for (char *c = d->damage; *c; c++)
		*c = (unsigned char)*c < ' ' ? ' ' : *c;
	return fail(f, DEFIB_IO, "spool %s: " FILE_NAME " is damaged: %s", d->folder, d->damage);
}

defib_err spool_file_failed(struct spool_file *d, int rc, struct failure *f)
{
	defib_err class = sqlite_class(rc);
	bool known = class == DEFIB_FULL || class == DEFIB_LOCKED;
	const char *what = d->db ? sqlite3_errmsg(d->db) : sqlite3_errstr(rc);
	if ((rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB)
		return spool_file_damaged(d, what, f);
	return fail(f, known ? class : DEFIB_IO, "spool %s: %s", d->folder, what);
}

sqlite3_stmt *spool_file_statement(struct spool_file *d, enum spool_sql which)
{
	static const char *const sql[] = {
#define X(name, text) [SPOOL_SQL_##name] = (text),
		SPOOL_STATEMENTS(X)
#undef X
	};
	sqlite3_stmt **st = &d->prepared[which];
	int rc = SQLITE_OK;
	if (!*st)
		rc = sqlite3_prepare_v3(d->db, sql[which], -1, SQLITE_PREPARE_PERSISTENT, st, NULL);
	if (rc != SQLITE_OK)
		(void)!spool_file_failed(d, rc, NULL);
	return *st;
}

defib_err spool_file_run(struct spool_file *d, sqlite3_stmt *st, struct failure *f)
{
	int rc = sqlite3_step(st);
	defib_err err = rc == SQLITE_DONE || rc == SQLITE_ROW ? DEFIB_OK : spool_file_failed(d, rc, f);
	sqlite3_reset(st);
	if (st)
		sqlite3_clear_bindings(st);
	return err;
}

static defib_err execute(struct spool_file *d, const char *sql, struct failure *f)
{
	int rc = sqlite3_exec(d->db, sql, NULL, NULL, NULL);
	return rc == SQLITE_OK ? DEFIB_OK : spool_file_failed(d, rc, f);
}

/* The first cell of a query; "" if it is NULL. */
static defib_err spool_file_ask(struct spool_file *d, const char *sql, struct buf *out,
                                struct failure *f)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(d->db, sql, -1, &st, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && sqlite3_column_text(st, 0))
		buf_add(out, (const char *)sqlite3_column_text(st, 0));
	defib_err err = rc == SQLITE_ROW || rc == SQLITE_DONE ? DEFIB_OK : spool_file_failed(d, rc, f);
	sqlite3_finalize(st);
	return err;
}

const char *spool_file_text(sqlite3_stmt *st, int column)
{
	const char *text = (const char *)sqlite3_column_text(st, column);
	bool whole = text && sqlite3_column_type(st, column) == SQLITE_TEXT &&
	             strlen(text) == (size_t)sqlite3_column_bytes(st, column);
	return whole ? text : NULL;
}

/* ---- space ---- */

static void spool_file_reserve(struct spool_file *d)
{
	struct stat st;
	if (fstat(d->reserve_fd, &st) == 0 && st.st_size >= RESERVE_BYTES)
		return;
	if (posix_fallocate(d->reserve_fd, 0, RESERVE_BYTES) != 0 && !d->full_logged) {
		d->full_logged = true;
		log_event(LOG_WARN, "spool: no space can be reserved on its disk",
		          LOG_STR("folder", d->folder));
	}
}

bool spool_file_give_up_reserve(struct spool_file *d)
{
	struct stat st;
	return fstat(d->reserve_fd, &st) == 0 && st.st_size > 0 && ftruncate(d->reserve_fd, 0) == 0;
}

void spool_file_emptied(struct spool_file *d)
{
	spool_file_reserve(d);
	sqlite3_stmt *pages = spool_file_statement(d, SPOOL_SQL_PAGES);
	bool large = sqlite3_step(pages) == SQLITE_ROW && sqlite3_column_int64(pages, 0) > SHRINK_PAGES;
	sqlite3_reset(pages);
	/* If it cannot be done now, its free pages are used again. */
	if (large && sqlite3_exec(d->db, "VACUUM", NULL, NULL, NULL) == SQLITE_OK)
		(void)sqlite3_wal_checkpoint_v2(d->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

/* ---- opening ---- */

static defib_err spool_file_failure(const struct spool_file *d, const char *what, struct failure *f)
{
	int reason = errno;
	bool full = reason == ENOSPC || reason == EDQUOT;
	return fail(f, full ? DEFIB_FULL : DEFIB_IO, "spool %s: cannot %s: %s", d->folder, what,
	            strerror(reason));
}

static bool exists(const struct spool_file *d, const char *name)
{
	struct stat st;
	return fstatat(d->folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int64_t bytes_of(const struct spool_file *d, const char *name)
{
	struct stat st;
	return fstatat(d->folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_size : 0;
}

static defib_err sync_names(struct spool_file *d, struct failure *f)
{
	return fdatasync(d->folder_fd) == 0 ? DEFIB_OK : spool_file_failure(d, "sync the directory", f);
}

/* SQLite follows no link, also not above the folder, which was checked. */
static defib_err spool_file_path_of(struct spool_file *d, const char *name, struct buf *out,
                                    struct failure *f)
{
	char *real = realpath(d->folder, NULL);
	if (!real)
		return spool_file_failure(d, "find the directory", f);
	buf_addf(out, "%s/%s", real, name);
	free(real);
	return DEFIB_OK;
}

/* Ours, and for nobody else: SQLite gives the log the mode of the file. */
static defib_err spool_file_make_private(struct spool_file *d, const char *name, struct failure *f)
{
	int fd;
	struct stat st;
	defib_err err = folder_file(d->folder_fd, name, &fd, f);
	if (err) {
		fail_prefix(f, "spool %s", d->folder);
		return err;
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		err = fail(f, DEFIB_CONFIG, "spool %s: %s is no file of this user", d->folder, name);
	else if ((st.st_mode & 0777) != 0600 && fchmod(fd, 0600) != 0)
		err = spool_file_failure(d, "make its file private", f);
	close(fd); /* before SQLite has locks on it, which would go with it */
	return err;
}

/*
 * A file of ours, for us alone; nothing that somebody wrote into it is run. Of a damaged one (as
 * the shell's .recover does) also what the checks at the start of each statement would refuse is
 * read.
 */
static defib_err spool_file_open_file(struct spool_file *d, const char *name, bool damaged,
                                      struct failure *f)
{
	AUTO_BUF path = BUF_INIT;
	const int flags =
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
	defib_err err = spool_file_make_private(d, name, f);
	if (!err)
		err = spool_file_path_of(d, name, &path, f);
	if (err)
		return err;
	int rc = sqlite3_open_v2(buf_text(&path), &d->db, flags, spool_log_vfs());
	if (rc != SQLITE_OK)
		return spool_file_failed(d, rc, f);
	(void)sqlite3_busy_timeout(d->db, BUSY_MS);
	(void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_DEFENSIVE, !damaged, NULL);
	(void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_WRITABLE_SCHEMA, damaged, NULL);
	(void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, damaged, NULL);
	(void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	d->log = (struct spool_log){.page = PAGE, .most = LOG_PAGES};
	spool_log_follow(&d->log, d->db);
	/* One process and no index in shared memory. */
	return execute(d,
	               "PRAGMA cell_size_check = ON; PRAGMA locking_mode = EXCLUSIVE; "
	               "PRAGMA temp_store = MEMORY; PRAGMA secure_delete = FAST; "
	               "PRAGMA page_size = " TEXT(PAGE),
	               f);
}

/* In a new file. */
static defib_err make_tables(struct spool_file *d, struct failure *f)
{
	defib_err err = execute(d, "BEGIN IMMEDIATE", f);
	if (!err)
		err = execute(d, schema, f);
	return err ? err : execute(d, "COMMIT", f);
}

/* Sound, and exactly our tables: no trigger and no view of another user. */
static defib_err spool_file_check(struct spool_file *d, struct failure *f)
{
	AUTO_BUF says = BUF_INIT, has = BUF_INIT;
	defib_err err = spool_file_ask(
		d, "SELECT iif(count(*), group_concat(sql, '; '), 'no tables') FROM sqlite_master", &has,
		f);
	if (!err && text_eq(buf_text(&has), "no tables"))
		err = make_tables(d, f);
	else if (!err && !text_eq(buf_text(&has), schema))
		err = spool_file_damaged(d, "its tables are not those of a spool", f);
	if (!err)
		err = spool_file_ask(d, "PRAGMA quick_check(1)", &says, f);
	if (!err && !text_eq(buf_text(&says), "ok"))
		err = spool_file_damaged(d, buf_text(&says), f);
	return err;
}

static defib_err open_spool(struct spool_file *d, struct failure *f)
{
	AUTO_BUF mode = BUF_INIT;
	bool has_file = exists(d, FILE_NAME), made = !has_file || !exists(d, LOG_NAME);
	if (!has_file)
		(void)unlinkat(d->folder_fd, LOG_NAME, 0); /* of one that was removed */
	defib_err err = spool_file_open_file(d, FILE_NAME, false, f);
	if (!err)
		err = spool_file_ask(d, "PRAGMA journal_mode = WAL", &mode, f);
	if (!err && !text_eq(buf_text(&mode), "wal"))
		err = fail(f, DEFIB_IO, "spool %s: its disk has no write-ahead log", d->folder);
	if (!err)
		err = execute(d, "PRAGMA synchronous = FULL", f);
	if (!err)
		err = spool_file_check(d, f);
	/* A log that is made by a later call would need a descriptor then, to sync its name. */
	if (!err && made)
		err = sync_names(d, f);
	return err;
}

static void close_db(struct spool_file *d)
{
	for (int i = 0; i < SPOOL_SQL_N; i++) {
		sqlite3_finalize(d->prepared[i]);
		d->prepared[i] = NULL;
	}
	sqlite3_close(d->db);
	d->db = NULL;
}

void spool_file_close(struct spool_file *d, bool empty)
{
	static const char *const all[] = {FILE_NAME, LOG_NAME, RESERVE_NAME};
	bool keep_log = empty || (d->brief && d->log.end < BRIEF_LOG_BYTES);
	if (d->db)
		(void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep_log, NULL);
	close_db(d);
	for (int i = 0; empty && i < 3; i++)
		(void)unlinkat(d->folder_fd, all[i], 0);
}

/* ---- mending ---- */

/* Rows of a damaged file, and the statement that has them in the new one. */
struct spool_copy {
	sqlite3_stmt *from, *to;
	int columns; /* of `to` */
	bool (*is_good)(sqlite3_stmt *from);
	int64_t most; /* rows that there can be: a tree that goes round in a circle has more */
	int64_t n;    /* that were copied */
};

static bool lane_is_good(sqlite3_stmt *st)
{
	int64_t number = sqlite3_column_int64(st, 0);
	return number >= 1 && number <= SPOOL_LANES_MOST && spool_file_text(st, 1);
}

/* It has the types of its columns, a place, and what was appended. */
static bool record_is_good(sqlite3_stmt *st)
{
	int64_t number = sqlite3_column_int64(st, 0);
	const char *id = spool_file_text(st, 1), *database = spool_file_text(st, 2),
			   *bytes = sqlite3_column_blob(st, 5), *lane = spool_file_text(st, 6);
	bool why = sqlite3_column_type(st, 3) == SQLITE_NULL || spool_file_text(st, 3);
	if (!id || !database || !why || !lane || sqlite3_column_type(st, 4) != SQLITE_INTEGER ||
	    sqlite3_column_type(st, 5) != SQLITE_BLOB || (number & SPOOL_PLACES) > SPOOL_PLACE_MOST)
		return false;
	return sqlite3_column_int64(st, 4) == spool_hash(number, lane, id, database, bytes ? bytes : "",
	                                                 (size_t)sqlite3_column_bytes(st, 5));
}

/* As far as the rows can be read; true in *all: there are no more. */
static defib_err copy_rows(struct spool_file *d, struct spool_copy *c, bool *all, struct failure *f)
{
	defib_err err = DEFIB_OK;
	int rc = SQLITE_ROW;
	for (int64_t row = 0; !err && row < c->most && (rc = sqlite3_step(c->from)) == SQLITE_ROW;
	     row++) {
		if (!c->is_good(c->from))
			continue;
		for (int i = 0; i < c->columns; i++)
			(void)sqlite3_bind_value(c->to, i + 1, sqlite3_column_value(c->from, i));
		err = spool_file_run(d, c->to, f);
		c->n += sqlite3_changes(d->db);
	}
	*all = rc == SQLITE_DONE;
	return err;
}

/* From both ends: what cannot be read may be in the middle. */
static defib_err copy_both_ways(struct spool_file *d, struct spool_file *from, struct spool_copy *c,
                                const char *const both[2], const char *to, struct failure *f)
{
	bool all = false;
	int rc = sqlite3_prepare_v2(d->db, to, -1, &c->to, NULL);
	defib_err err = rc == SQLITE_OK ? DEFIB_OK : spool_file_failed(d, rc, f);
	c->columns = sqlite3_bind_parameter_count(c->to);
	for (int i = 0; !err && i < 2 && !all; i++) {
		if (from->db && sqlite3_prepare_v2(from->db, both[i], -1, &c->from, NULL) == SQLITE_OK)
			err = copy_rows(d, c, &all, f);
		sqlite3_finalize(c->from);
		c->from = NULL;
	}
	sqlite3_finalize(c->to);
	return err;
}

/* In one transaction. */
static defib_err copy_all(struct spool_file *d, struct spool_file *from, int64_t *n,
                          struct failure *f)
{
#define LANES "SELECT number, name FROM lane ORDER BY number"
#define RECORDS                                                                                    \
	"SELECT r.number, id, database, why, hash, bytes, name FROM record AS r "                      \
	"LEFT JOIN lane AS l ON l.number = r.number >> 48 ORDER BY r.number"
	static const char *const lanes[] = {LANES, LANES " DESC"};
	static const char *const records[] = {RECORDS, RECORDS " DESC"};
	int64_t most = (bytes_of(d, DAMAGED_NAME) + bytes_of(d, DAMAGED_LOG_NAME)) / ROW_LEAST;
	struct spool_copy lane = {.is_good = lane_is_good, .most = most};
	struct spool_copy record = {.is_good = record_is_good, .most = most};
	defib_err err = spool_file_run(d, spool_file_statement(d, SPOOL_SQL_BEGIN), f);
	if (!err)
		err = copy_both_ways(d, from, &lane, lanes, "INSERT OR IGNORE INTO lane VALUES (?, ?)", f);
	if (!err)
		err = copy_both_ways(d, from, &record, records,
		                     "INSERT OR IGNORE INTO record VALUES (?, ?, ?, ?, ?, ?)", f);
	if (!err)
		err = spool_file_run(d, spool_file_statement(d, SPOOL_SQL_COMMIT), f);
	*n = record.n;
	return err;
}

static defib_err rename_file(struct spool_file *d, const char *from, const char *to,
                             struct failure *f)
{
	if (renameat(d->folder_fd, from, d->folder_fd, to) == 0 || errno == ENOENT)
		return DEFIB_OK;
	return spool_file_failure(d, "rename its file", f);
}

/* The damaged file gets a name of its own first; then its log, if it is not a new file's. */
static defib_err begin_mending(struct spool_file *d, struct failure *f)
{
	defib_err err = exists(d, DAMAGED_NAME) ? DEFIB_OK : rename_file(d, FILE_NAME, DAMAGED_NAME, f);
	if (!err && !exists(d, FILE_NAME))
		err = rename_file(d, LOG_NAME, DAMAGED_LOG_NAME, f);
	if (!err) {
		(void)unlinkat(d->folder_fd, LOG_NAME, 0);
		(void)unlinkat(d->folder_fd, FILE_NAME, 0);
		err = sync_names(d, f);
	}
	return err;
}

static defib_err end_mending(struct spool_file *d, struct buf *name, struct failure *f)
{
	AUTO_BUF log = BUF_INIT;
	buf_addf(name, "damaged-%lld.db", (long long)(clock_wall_us() / 1000));
	buf_addf(&log, "%s-wal", buf_text(name));
	defib_err err = rename_file(d, DAMAGED_NAME, buf_text(name), f);
	if (!err)
		err = rename_file(d, DAMAGED_LOG_NAME, buf_text(&log), f);
	return err ? err : sync_names(d, f);
}

/*
 * It is kept under another name for an operator, and what can be read of it goes on in a new file.
 * If that cannot be done, for instance because the disk is full, the next open begins it again.
 */
static defib_err mend(struct spool_file *d, struct failure *f)
{
	AUTO_BUF name = BUF_INIT;
	struct spool_file from = {.folder = d->folder, .folder_fd = d->folder_fd};
	int64_t n = 0;
	defib_err err = begin_mending(d, f);
	if (!err)
		err = open_spool(d, f);
	if (!err) {
		(void)!spool_file_open_file(&from, DAMAGED_NAME, true, NULL);
		err = copy_all(d, &from, &n, f);
		sqlite3_close(from.db);
	}
	if (!err)
		err = end_mending(d, &name, f);
	if (err)
		return err;
	log_event(LOG_CRITICAL, "SPOOL DAMAGED: a new file has what could be read of it",
	          LOG_STR("folder", d->folder), LOG_STR("because", d->damage),
	          LOG_INT("records_read", n), LOG_STR("damaged_file", buf_text(&name)),
	          LOG_STR("next", "`sqlite3 FILE .recover` shows what else can be read"));
	d->damage[0] = '\0';
	return DEFIB_OK;
}

defib_err spool_file_open(struct spool_file *d, struct failure *f)
{
	defib_err err = DEFIB_OK;
	close_db(d);
	if (exists(d, DAMAGED_NAME) && d->damage[0] == '\0')
		(void)spool_file_damaged(d, "an earlier repair was interrupted", NULL);
	if (d->damage[0] == '\0')
		err = open_spool(d, f);
	if (d->damage[0]) {
		fail_clear(f);
		close_db(d);
		err = mend(d, f);
	}
	if (err == DEFIB_FULL && d->damage[0] && spool_file_give_up_reserve(d)) {
		fail_clear(f);
		close_db(d);
		err = mend(d, f);
	}
	if (err)
		close_db(d);
	else
		spool_file_reserve(d);
	return err;
}

bool spool_file_exists(const char *folder)
{
	static const char *const names[] = {FILE_NAME, DAMAGED_NAME};
	bool found = false;
	for (int i = 0; i < 2 && !found; i++) {
		AUTO_BUF path = BUF_INIT;
		struct stat st;
		buf_addf(&path, "%s/%s", folder, names[i]);
		found = stat(buf_text(&path), &st) == 0;
	}
	return found;
}
