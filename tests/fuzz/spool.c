/* SPDX-License-Identifier: Apache-2.0
 * spool.c: a spool.db whose rows somebody else wrote, of any type and content, or whose pages were
 * changed. It opens, or reports why not; every record that it shows can be read and taken, and one
 * that is appended afterwards is there at the next open.
 */
#include "fuzz.h"

#include "worker/spools.h"

#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <unistd.h>

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

/* A value of the type that the first byte names; returns how many bytes were used. */
static size_t bind_value(sqlite3_stmt *st, int at, const uint8_t *bytes, size_t n)
{
	int64_t number = 0;
	size_t len = n > 1 ? bytes[1] : 0;
	if (n < 2)
		return n;
	len = len < n - 2 ? len : n - 2;
	for (size_t i = 0; i < len && i < 8; i++)
		number = (int64_t)((uint64_t)number << 8 | bytes[2 + i]);
	const char *text = (const char *)bytes + 2;
	switch (bytes[0] % 6) {
	case 0:
		break;
	case 1:
		(void)sqlite3_bind_int64(st, at, number);
		break;
	case 2:
		(void)sqlite3_bind_double(st, at, (double)number / 7);
		break;
	case 3:
		(void)sqlite3_bind_blob(st, at, text, (int)len, SQLITE_STATIC);
		break;
	case 4:
		(void)sqlite3_bind_text(st, at, "mail", -1, SQLITE_STATIC);
		break;
	default:
		(void)sqlite3_bind_text(st, at, text, (int)len, SQLITE_STATIC);
	}
	return len + 2;
}

/* Values for the columns of some rows, of any type: as if the table were not STRICT. */
static void write_rows(const char *path, const uint8_t *bytes, size_t n)
{
	static const char any_type[] =
		"PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, ' STRICT', ''); "
		"PRAGMA writable_schema = RESET";
	static const char strict[] =
		"PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = sql || ' STRICT'";
	static const char *const rows[] = {
		"INSERT OR IGNORE INTO record VALUES (?, ?, ?, ?, ?, ?)",
		"INSERT OR IGNORE INTO record VALUES ((1 << 48) + ?, ?, ?, ?, ?, ?)",
		"INSERT OR IGNORE INTO lane VALUES (?, ?)",
		"UPDATE record SET number = ?, database = ?, id = ?"};
	sqlite3 *db;
	MUST(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, "unix") == SQLITE_OK);
	MUST(sqlite3_exec(db, any_type, NULL, NULL, NULL) == SQLITE_OK);
	for (int row = 0; row < 20 && n > 0; row++) {
		sqlite3_stmt *st;
		MUST(sqlite3_prepare_v2(db, rows[bytes[0] % 4], -1, &st, NULL) == SQLITE_OK);
		bytes++;
		n--;
		for (int at = 1; at <= sqlite3_bind_parameter_count(st); at++) {
			size_t used = bind_value(st, at, bytes, n);
			bytes += used;
			n -= used;
		}
		(void)sqlite3_step(st);
		sqlite3_finalize(st);
	}
	MUST(sqlite3_exec(db, strict, NULL, NULL, NULL) == SQLITE_OK);
	MUST(sqlite3_close(db) == SQLITE_OK);
}

static void change_page(const char *path, const uint8_t *bytes, size_t n)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	MUST(fd >= 0 && pwrite(fd, bytes + 2, n - 2, (off_t)bytes[0] * 97) == (ssize_t)n - 2);
	close(fd);
}

/* As after a kill: its record is in the log. */
static void put_into_log(const char *folder)
{
	const struct spool_options o = {.folder = folder, .brief = true};
	const struct spool_record r = {.id = "log", .database = "", .bytes = "{}", .n = 2};
	struct spool *s;
	struct failure f = {0};
	MUST(spool_open(&o, &s, &f) == DEFIB_OK);
	MUST(spool_append(s, "mail", &r, 1, &f) == DEFIB_OK);
	spool_close(s);
}

static struct spool_result result(const char *key)
{
	return (struct spool_result){
		.source = "mail", .worker = 7, .end = {.key = key, .epoch = 1, .delay_ms = -1}};
}

static void take_all(struct spools *s, const char *source, enum spools_list list)
{
	struct spools_record all[8];
	struct arena a = ARENA_INIT;
	struct failure f = {0};
	int n;
	for (int i = 0; i < 10 && (n = spools_peek_many(s, source, list, all, 8, &a)) > 0; i++) {
		for (int k = 0; k < n; k++)
			MUST(all[k].result.source && all[k].result.end.key && all[k].result.database);
		(void)!spools_take_many(s, source, list, all, n, NULL, &f);
	}
	arena_release(&a);
}

static void use(const char *folder)
{
	struct spools *s = NULL;
	struct spools_totals t;
	struct failure f = {0};
	const char *source;
	if (spools_open(folder, 0, &s, &f)) {
		MUST(f.what[0] != '\0');
		return;
	}
	spools_totals(s, &t);
	for (int i = 0; i < 20 && (source = spools_source(s, i)); i++) {
		take_all(s, source, SPOOLS_WAITING);
		take_all(s, source, SPOOLS_ASIDE);
	}
	struct spool_result after = result("after");
	defib_err err = spools_append_many(s, "mail", &after, 1, NULL, &f);
	spools_close(s);
	MUST(spools_open(folder, 0, &s, &f) == DEFIB_OK);
	MUST(err || spools_holds(s, "mail", 7, "after", 1));
	spools_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	/* In memory if possible: waiting for a disk tests nothing. */
	char shm[] = "/dev/shm/defib-fuzz-XXXXXX", tmp[] = "/tmp/defib-fuzz-XXXXXX", path[64], log[64];
	char *folder = access("/dev/shm", W_OK) == 0 ? shm : tmp;
	struct spools *s = NULL;
	struct failure f = {0};
	struct spool_result first = result("first");
	MUST(mkdtemp(folder));
	MUST(spools_open(folder, 0, &s, &f) == DEFIB_OK);
	MUST(spools_append_many(s, "mail", &first, 1, NULL, &f) == DEFIB_OK);
	spools_close(s);
	snprintf(path, sizeof path, "%s/spool.db", folder);
	snprintf(log, sizeof log, "%s/spool.db-wal", folder);
	if (n > 2 && bytes[1] % 4) {
		write_rows(path, bytes + 2, n - 2);
	} else if (n > 2 && bytes[1] % 8) {
		change_page(path, bytes, n);
	} else if (n > 2) {
		put_into_log(folder);
		change_page(log, bytes, n);
	}
	use(folder);
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return 0;
}
