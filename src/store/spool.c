/* SPDX-License-Identifier: Apache-2.0 */
#include "store/spool.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "store/spool_folder.h"
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "spool.db"
#define RESERVE_NAME "reserve"
#define DEFAULT_MAX (INT64_C(64) << 20)
#define OVERHEAD 64 /* bytes of a record beside its own */
/*
 * Taking records out of a full disk: at most CHECKPOINT_PAGES wait in the log to be written to the
 * file, so RESERVE holds them and the log of what is taken.
 */
#define CHECKPOINT_PAGES 512
#define RESERVE (INT64_C(4) << 20)

/* X(name, SQL): everything that is run while it is open. ?1 lane, ?2 aside, as far as they occur.
 */
#define STATEMENTS(X)                                                                              \
	X(begin, "BEGIN IMMEDIATE")                                                                    \
	X(commit, "COMMIT")                                                                            \
	X(rollback, "ROLLBACK")                                                                        \
	X(insert, "INSERT INTO record (lane, aside, number, id, database, why, bytes, crc) VALUES "    \
	          "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (lane, id) DO NOTHING")                \
	X(peek,                                                                                        \
	  "SELECT number, id, database, why, bytes, crc FROM record WHERE lane = ?1 AND aside = ?2 "   \
	  "ORDER BY number LIMIT ?3")                                                                  \
	X(drop, "DELETE FROM record WHERE number = ?1")                                                \
	X(move, "UPDATE record SET number = ?2, aside = 1, why = ?3 WHERE number = ?1")                \
	X(has, "SELECT 1 FROM record WHERE lane = ?1 AND id = ?2")                                     \
	X(first, "SELECT why FROM record WHERE lane = ?1 AND aside = 1 ORDER BY number LIMIT 1")       \
	X(groups,                                                                                      \
	  "SELECT lane, aside, count(*), sum(length(bytes)), max(number) FROM record GROUP BY "        \
	  "lane, aside")

/* What is read is of these types: quick_check finds a row that others made otherwise. */
static const char *const schema[] = {
	"CREATE TABLE record (number INTEGER PRIMARY KEY, lane TEXT NOT NULL, aside INTEGER NOT NULL, "
	"id TEXT NOT NULL, database TEXT NOT NULL, why TEXT, bytes BLOB NOT NULL, "
	"crc INTEGER NOT NULL, "
	"CHECK (number BETWEEN 1 AND 4611686018427387904 AND typeof(lane) = 'text' AND "
	"aside IN (0, 1) AND typeof(id) = 'text' AND typeof(database) = 'text' AND "
	"typeof(why) IN ('text', 'null') AND typeof(bytes) = 'blob' AND typeof(crc) = 'integer'))",
	"CREATE INDEX record_order ON record (lane, aside, number)",
	"CREATE UNIQUE INDEX record_id ON record (lane, id)",
};
#define NSCHEMA (int)(sizeof schema / sizeof *schema)

struct lane {
	char *name;
	int64_t counts[2]; /* waiting, set aside */
	char why[SPOOL_WHY_MOST + 1];
};

struct spool {
	char *folder;
	int folder_fd, lock_fd, reserve_fd;
	sqlite3 *db;
#define X(name, sql) sqlite3_stmt *name;
	STATEMENTS(X)
#undef X
	int64_t max_bytes, bytes, last; /* last: the highest number */
	struct lane **lanes;            /* each by itself: their names are handed out */
	int n;
	pid_t owner; /* the process that opened it: in a forked child it belongs to the parent */
	bool full_told, damaged;
};

/* ---- SQLite ---- */

static defib_err failed(struct spool *s, int rc, struct failure *f)
{
	defib_err code = sqlite_class(rc);
	s->damaged = s->damaged || (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
	return fail(f, code == DEFIB_OK ? DEFIB_IO : code, "spool %s: %s", s->folder,
	            s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc));
}

/* Run a statement that returns nothing, and unbind it. */
static defib_err run(struct spool *s, sqlite3_stmt *st, struct failure *f)
{
	int rc = sqlite3_step(st);
	defib_err err = rc == SQLITE_DONE || rc == SQLITE_ROW ? DEFIB_OK : failed(s, rc, f);
	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
	return err;
}

static void bind_text(sqlite3_stmt *st, int at, const char *text)
{
	/* Without memory the value is NULL, which the table refuses. */
	(void)sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

static defib_err execute(struct spool *s, const char *sql, struct failure *f)
{
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
	return rc == SQLITE_OK ? DEFIB_OK : failed(s, rc, f);
}

/* The first cell of a query; "" if it is NULL. */
static defib_err ask(struct spool *s, const char *sql, struct buf *out, struct failure *f)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && sqlite3_column_text(st, 0))
		buf_add(out, (const char *)sqlite3_column_text(st, 0));
	defib_err err = rc == SQLITE_ROW || rc == SQLITE_DONE ? DEFIB_OK : failed(s, rc, f);
	sqlite3_finalize(st);
	return err;
}

/* ---- lanes ---- */

static struct lane *lane_of(const struct spool *s, const char *name)
{
	for (int i = 0; i < s->n; i++)
		if (text_eq(s->lanes[i]->name, name))
			return s->lanes[i];
	return NULL;
}

static struct lane *lane_for(struct spool *s, const char *name)
{
	struct lane *l = lane_of(s, name);
	if (l)
		return l;
	l = mem_alloc(sizeof *l);
	l->name = mem_strdup(name);
	s->lanes = mem_grow(s->lanes, sizeof(struct lane *) * (size_t)(s->n + 1));
	return s->lanes[s->n++] = l;
}

static void read_why(struct spool *s, struct lane *l)
{
	l->why[0] = '\0';
	if (l->counts[true] == 0)
		return;
	bind_text(s->first, 1, l->name);
	if (sqlite3_step(s->first) == SQLITE_ROW && sqlite3_column_text(s->first, 0))
		utf8_copy(l->why, sizeof l->why, (const char *)sqlite3_column_text(s->first, 0));
	sqlite3_reset(s->first);
}

/* What is there, as at the open, or after a call whose outcome is not known. */
static defib_err count_all(struct spool *s, struct failure *f)
{
	int rc;
	s->bytes = 0;
	for (int i = 0; i < s->n; i++)
		s->lanes[i]->counts[0] = s->lanes[i]->counts[1] = 0;
	while ((rc = sqlite3_step(s->groups)) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(s->groups, 0);
		int64_t n = sqlite3_column_int64(s->groups, 2), last = sqlite3_column_int64(s->groups, 4);
		struct lane *l = lane_for(s, name ? name : "");
		l->counts[sqlite3_column_int(s->groups, 1) != 0] += n;
		s->bytes += sqlite3_column_int64(s->groups, 3) + n * OVERHEAD;
		s->last = last > s->last ? last : s->last;
	}
	defib_err err = rc == SQLITE_DONE ? DEFIB_OK : failed(s, rc, f);
	sqlite3_reset(s->groups);
	for (int i = 0; i < s->n; i++)
		read_why(s, s->lanes[i]);
	return err;
}

/* ---- transactions ---- */

static defib_err begin(struct spool *s, struct failure *f)
{
	if (s->owner != getpid())
		return fail(f, DEFIB_REFUSED, "spool %s: it belongs to the process that opened it",
		            s->folder);
	return run(s, s->begin, f);
}

/* Commit, or after a failure roll back: then it is counted again what is there. */
static defib_err end(struct spool *s, defib_err err, struct failure *f)
{
	struct failure unused = {0};
	if (!err)
		err = run(s, s->commit, f);
	if (!err)
		return DEFIB_OK;
	if (!sqlite3_get_autocommit(s->db))
		(void)!run(s, s->rollback, &unused);
	(void)!count_all(s, &unused);
	return err;
}

/* ---- space ---- */

/* Without it a full disk may refuse what would make room. */
static void reserve(struct spool *s)
{
	struct stat st;
	if (fstat(s->reserve_fd, &st) == 0 && st.st_size >= RESERVE)
		return;
	if (posix_fallocate(s->reserve_fd, 0, RESERVE) != 0 && !s->full_told) {
		s->full_told = true;
		log_event(LOG_WARN, "spool: no space can be reserved on its disk",
		          LOG_STR("folder", s->folder));
	}
}

static bool give_up_reserve(struct spool *s)
{
	struct stat st;
	return fstat(s->reserve_fd, &st) == 0 && st.st_blocks > 0 && ftruncate(s->reserve_fd, 0) == 0;
}

/* ---- opening ---- */

static defib_err path_of(struct spool *s, const char *name, struct buf *out, struct failure *f)
{
	/* SQLite follows no link, also not above the folder, which was checked. */
	char *real = realpath(s->folder, NULL);
	if (!real)
		return fail(f, DEFIB_IO, "spool %s: %s", s->folder, strerror(errno));
	buf_addf(out, "%s/%s", real, name);
	free(real);
	return DEFIB_OK;
}

/* Ours, and for nobody else: SQLite gives the log the mode of the file. */
static defib_err file_ours(struct spool *s, struct failure *f)
{
	int fd = openat(s->folder_fd, FILE_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;
	defib_err err = DEFIB_OK;
	if (fd < 0 || fstat(fd, &st) != 0)
		err = fail(f, errno == ENOSPC || errno == EDQUOT ? DEFIB_FULL : DEFIB_IO,
		           "spool %s: cannot open " FILE_NAME ": %s", s->folder, strerror(errno));
	else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		err = fail(f, DEFIB_CONFIG, "spool %s: " FILE_NAME " belongs to another user", s->folder);
	else if ((st.st_mode & 077) != 0 && fchmod(fd, 0600) != 0)
		err = fail(f, DEFIB_IO, "spool %s: cannot make " FILE_NAME " private", s->folder);
	if (fd >= 0)
		close(fd); /* before SQLite has locks on it, which would go with it */
	return err;
}

static defib_err damaged(struct spool *s, const char *how, struct failure *f)
{
	s->damaged = true;
	return fail(f, DEFIB_IO, "spool %s: " FILE_NAME " is damaged: %s", s->folder, how);
}

/* The tables are exactly ours: no trigger and no view of another user is run. */
static defib_err check_schema(struct spool *s, struct failure *f)
{
	sqlite3_stmt *st = NULL;
	int n = 0, rc = sqlite3_prepare_v2(s->db, "SELECT sql FROM sqlite_master ORDER BY rowid", -1,
	                                   &st, NULL);
	bool good = rc == SQLITE_OK;
	while (good && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		good = n < NSCHEMA && text_eq((const char *)sqlite3_column_text(st, 0), schema[n]);
		n++;
	}
	sqlite3_finalize(st);
	if (good && rc != SQLITE_DONE)
		return failed(s, rc, f);
	return good && n == NSCHEMA ? DEFIB_OK : damaged(s, "its tables are not those of a spool", f);
}

static defib_err check(struct spool *s, struct failure *f)
{
	AUTO_BUF says = BUF_INIT;
	defib_err err = ask(s, "PRAGMA quick_check(1)", &says, f);
	if (!err && !text_eq(buf_text(&says), "ok"))
		err = damaged(s, buf_text(&says), f);
	return err ? err : check_schema(s, f);
}

static defib_err make_tables(struct spool *s, struct failure *f)
{
	AUTO_BUF n = BUF_INIT;
	defib_err err = ask(s, "SELECT count(*) FROM sqlite_master", &n, f);
	if (err || !text_eq(buf_text(&n), "0"))
		return err;
	err = execute(s, "BEGIN IMMEDIATE", f);
	for (int i = 0; !err && i < NSCHEMA; i++)
		err = execute(s, schema[i], f);
	return err ? err : execute(s, "COMMIT", f);
}

static defib_err set_up(struct spool *s, struct failure *f)
{
	AUTO_BUF mode = BUF_INIT;
	/* One process and no index in shared memory; nothing of a file that was tampered with is run.
	 */
	defib_err err = execute(s,
	                        "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; "
	                        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA temp_store = MEMORY",
	                        f);
	(void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	if (!err)
		err = ask(s, "PRAGMA journal_mode = WAL", &mode, f);
	if (!err && !text_eq(buf_text(&mode), "wal"))
		err = fail(f, DEFIB_IO, "spool %s: its disk has no write-ahead log", s->folder);
	if (!err)
		err = execute(s, "PRAGMA synchronous = FULL", f);
	(void)sqlite3_wal_autocheckpoint(s->db, CHECKPOINT_PAGES);
	if (!err)
		err = make_tables(s, f);
	return err ? err : check(s, f);
}

static void close_db(struct spool *s)
{
#define X(name, sql)                                                                               \
	sqlite3_finalize(s->name);                                                                     \
	s->name = NULL;
	STATEMENTS(X)
#undef X
	sqlite3_close(s->db);
	s->db = NULL;
}

static defib_err prepare_all(struct spool *s, struct failure *f)
{
	int rc = SQLITE_OK;
#define X(name, sql)                                                                               \
	if (rc == SQLITE_OK)                                                                           \
		rc = sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->name, NULL);
	STATEMENTS(X)
#undef X
	return rc == SQLITE_OK ? DEFIB_OK : failed(s, rc, f);
}

static defib_err open_db(struct spool *s, struct failure *f)
{
	AUTO_BUF path = BUF_INIT;
	const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
	defib_err err = file_ours(s, f);
	if (!err)
		err = path_of(s, FILE_NAME, &path, f);
	if (err)
		return err;
	/* By name: a program that we are part of may have made another one the default. */
	int rc = sqlite3_open_v2(buf_text(&path), &s->db, flags, "unix");
	err = rc == SQLITE_OK ? set_up(s, f) : failed(s, rc, f);
	if (!err)
		err = prepare_all(s, f);
	return err ? err : count_all(s, f);
}

/* Under another name for an operator, so that its worker can start. */
static bool rename_damaged(const struct spool *s, const struct failure *why)
{
	static const char *const ends[] = {"-wal", ""};
	AUTO_BUF from = BUF_INIT, to = BUF_INIT;
	long long now = (long long)(clock_wall_us() / US_PER_S);
	for (int i = 0; i < 2; i++) {
		buf_clear(&from);
		buf_clear(&to);
		buf_addf(&from, FILE_NAME "%s", ends[i]);
		buf_addf(&to, "damaged-%lld.db%s", now, ends[i]);
		if (renameat(s->folder_fd, buf_text(&from), s->folder_fd, buf_text(&to)) != 0 &&
		    errno != ENOENT)
			return false;
	}
	log_event(LOG_CRITICAL, "SPOOL DAMAGED: it is kept under another name",
	          LOG_STR("folder", s->folder), LOG_STR("file", buf_text(&to)),
	          LOG_STR("because", why->what),
	          LOG_STR("next", "`sqlite3 FILE .recover` reads what is left"));
	return true;
}

defib_err spool_open(const struct spool_options *o, struct spool **out, struct failure *f)
{
	struct spool *s = mem_alloc(sizeof *s);
	assert(o->max_bytes >= 0);
	*out = NULL;
	s->folder = mem_strdup(o->folder);
	s->max_bytes = o->max_bytes ? o->max_bytes : DEFAULT_MAX;
	s->folder_fd = s->lock_fd = s->reserve_fd = -1;
	s->owner = getpid();
	defib_err err = folder_open(o->folder, &s->folder_fd, f);
	if (!err)
		err = folder_local(s->folder_fd, f);
	if (!err)
		err = folder_lock(o->folder, s->folder_fd, &s->lock_fd, f);
	if (!err)
		err = folder_file(s->folder_fd, RESERVE_NAME, &s->reserve_fd, f);
	if (err)
		fail_prefix(f, "spool %s", o->folder);
	if (!err)
		err = open_db(s, f);
	if (err && s->damaged) {
		close_db(s);
		if (rename_damaged(s, f)) {
			fail_clear(f);
			err = open_db(s, f);
		}
	}
	if (err) {
		spool_close(s);
		return err;
	}
	reserve(s);
	*out = s;
	return DEFIB_OK;
}

static bool is_empty(const struct spool *s)
{
	for (int i = 0; i < s->n; i++)
		if (s->lanes[i]->counts[0] + s->lanes[i]->counts[1] > 0)
			return false;
	return true;
}

void spool_close(struct spool *s)
{
	if (!s)
		return;
	bool own = s->owner == getpid(), empty = own && s->groups && is_empty(s);
	/* In a child, closing would act on files and locks of the parent. */
	if (own)
		close_db(s);
	if (empty)
		for (int i = 0; i < 3; i++)
			(void)unlinkat(s->folder_fd,
			               (const char *const[]){FILE_NAME "-wal", FILE_NAME, RESERVE_NAME}[i], 0);
	for (int i = 0; i < s->n; i++) {
		free(s->lanes[i]->name);
		free(s->lanes[i]);
	}
	free(s->lanes);
	if (s->reserve_fd >= 0)
		close(s->reserve_fd);
	if (s->folder_fd >= 0)
		close(s->folder_fd);
	if (s->lock_fd >= 0)
		close(s->lock_fd); /* last: until here the folder is ours */
	free(s->folder);
	free(s);
}

/* ---- in ---- */

/* One line, so that logs and status can show it. */
static const char *line_of(const char *why, char out[SPOOL_WHY_MOST + 1])
{
	utf8_copy(out, SPOOL_WHY_MOST + 1, why);
	for (char *c = out; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	return out;
}

static defib_err has_room(const struct spool *s, const struct spool_record *all, int n,
                          struct failure *f)
{
	int64_t bytes = s->bytes;
	for (int i = 0; i < n; i++)
		bytes += (int64_t)all[i].n + OVERHEAD;
	if (bytes <= s->max_bytes)
		return DEFIB_OK;
	return fail(f, DEFIB_FULL, "spool %s: %lld bytes are stored; %d more records exceed the limit",
	            s->folder, (long long)s->bytes, n);
}

/* SQLite does not notice a bit that the disk changed. */
static int64_t crc_of(const char *id, const char *database, const char *bytes, size_t n)
{
	uint32_t crc = crc32c(0, id, strlen(id) + 1);
	crc = crc32c(crc, database, strlen(database) + 1);
	return crc32c(crc, bytes, n);
}

static defib_err insert(struct spool *s, struct lane *l, const struct spool_record *r,
                        struct failure *f)
{
	char why[SPOOL_WHY_MOST + 1];
	sqlite3_stmt *st = s->insert;
	bind_text(st, 1, l->name);
	(void)sqlite3_bind_int(st, 2, r->why != NULL);
	(void)sqlite3_bind_int64(st, 3, s->last + 1);
	bind_text(st, 4, r->id);
	bind_text(st, 5, r->database);
	bind_text(st, 6, r->why ? line_of(r->why, why) : NULL);
	(void)sqlite3_bind_blob64(st, 7, r->bytes, r->n, SQLITE_STATIC);
	(void)sqlite3_bind_int64(st, 8, crc_of(r->id, r->database, r->bytes, r->n));
	defib_err err = run(s, st, f);
	if (err || sqlite3_changes(s->db) == 0)
		return err;
	s->last++;
	l->counts[r->why != NULL]++;
	s->bytes += (int64_t)r->n + OVERHEAD;
	return DEFIB_OK;
}

defib_err spool_append(struct spool *s, const char *lane, const struct spool_record *all, int n,
                       struct failure *f)
{
	struct lane *l = lane_for(s, lane);
	defib_err err = has_room(s, all, n, f);
	if (!err)
		err = begin(s, f);
	if (err)
		return err;
	for (int i = 0; !err && i < n; i++)
		err = insert(s, l, &all[i], f);
	err = end(s, err, f);
	if (!err)
		read_why(s, l);
	return err;
}

/* ---- out ---- */

static const char *cell(sqlite3_stmt *st, int column, struct arena *a)
{
	const char *text = (const char *)sqlite3_column_text(st, column);
	return arena_strdup(a, text ? text : "");
}

int spool_peek(struct spool *s, const char *lane, bool aside, struct spool_record *out, int most,
               size_t bytes, struct arena *a)
{
	sqlite3_stmt *st = s->peek;
	size_t sum = 0;
	int n = 0, rc = SQLITE_DONE;
	if (s->owner != getpid() || spool_count(s, lane, aside) == 0)
		return 0;
	bind_text(st, 1, lane);
	(void)sqlite3_bind_int(st, 2, aside);
	(void)sqlite3_bind_int(st, 3, most);
	while (n < most && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		const void *from = sqlite3_column_blob(st, 4);
		size_t len = (size_t)sqlite3_column_bytes(st, 4);
		if (n > 0 && sum + len > bytes)
			break;
		sum += len;
		out[n++] = (struct spool_record){
			.number = sqlite3_column_int64(st, 0),
			.id = cell(st, 1, a),
			.database = cell(st, 2, a),
			.why = aside ? cell(st, 3, a) : NULL,
			.bytes = arena_strndup(a, from ? from : "", len),
			.n = len,
		};
		const struct spool_record *r = &out[n - 1];
		out[n - 1].damaged =
			crc_of(r->id, r->database, r->bytes, len) != sqlite3_column_int64(st, 5);
	}
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		log_event(LOG_ERROR, "spool: cannot be read now", LOG_STR("folder", s->folder),
		          LOG_STR("because", sqlite3_errmsg(s->db)));
	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
	return n;
}

static defib_err finish_one(struct spool *s, struct lane *l, const struct spool_record *r,
                            const char *why, struct failure *f)
{
	char line[SPOOL_WHY_MOST + 1];
	sqlite3_stmt *st = why ? s->move : s->drop;
	(void)sqlite3_bind_int64(st, 1, r->number);
	if (why) {
		(void)sqlite3_bind_int64(st, 2, ++s->last);
		bind_text(st, 3, line_of(why, line));
	}
	defib_err err = run(s, st, f);
	if (err || sqlite3_changes(s->db) == 0)
		return err;
	l->counts[r->why != NULL]--;
	if (why)
		l->counts[true]++;
	else
		s->bytes -= (int64_t)r->n + OVERHEAD;
	return DEFIB_OK;
}

static defib_err finish_all(struct spool *s, struct lane *l, const struct spool_record *const *all,
                            int n, const char *const *why, struct failure *f)
{
	defib_err err = begin(s, f);
	if (err)
		return err;
	for (int i = 0; !err && i < n; i++)
		err = finish_one(s, l, all[i], why ? why[i] : NULL, f);
	return end(s, err, f);
}

defib_err spool_finish(struct spool *s, const char *lane, const struct spool_record *const *all,
                       int n, const char *const *why, struct failure *f)
{
	struct lane *l = lane_for(s, lane);
	defib_err err = finish_all(s, l, all, n, why, f);
	if (err == DEFIB_FULL && give_up_reserve(s)) {
		fail_clear(f);
		err = finish_all(s, l, all, n, why, f);
	}
	if (!err) {
		read_why(s, l);
		if (is_empty(s))
			reserve(s);
	}
	return err;
}

/* ---- asking ---- */

bool spool_holds(struct spool *s, const char *lane, const char *id)
{
	const struct lane *l = lane_of(s, lane);
	if (!l || l->counts[0] + l->counts[1] == 0 || s->owner != getpid())
		return false;
	bind_text(s->has, 1, lane);
	bind_text(s->has, 2, id);
	bool found = sqlite3_step(s->has) == SQLITE_ROW;
	sqlite3_reset(s->has);
	sqlite3_clear_bindings(s->has);
	return found;
}

int64_t spool_count(const struct spool *s, const char *lane, bool aside)
{
	const struct lane *l = lane_of(s, lane);
	return l ? l->counts[aside] : 0;
}

int64_t spool_bytes(const struct spool *s)
{
	return s->bytes;
}

const char *spool_lane(const struct spool *s, int i)
{
	for (int k = 0; k < s->n; k++)
		if (s->lanes[k]->counts[0] + s->lanes[k]->counts[1] > 0 && i-- == 0)
			return s->lanes[k]->name;
	return NULL;
}

const char *spool_why(const struct spool *s, const char *lane)
{
	const struct lane *l = lane_of(s, lane);
	return l && l->counts[true] > 0 ? l->why : "";
}

bool spool_waits(const char *folder)
{
	AUTO_BUF path = BUF_INIT;
	struct stat st;
	buf_addf(&path, "%s/" FILE_NAME, folder);
	return stat(buf_text(&path), &st) == 0;
}
