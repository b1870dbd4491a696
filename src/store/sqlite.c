/* SPDX-License-Identifier: Apache-2.0
 * sqlite.c: a session with an SQLite file.
 *
 * SQLite's progress handler enforces the call deadline, its busy time-out limits the wait for
 * another writer. Writing transactions take the write lock at once (BEGIN IMMEDIATE): one that
 * upgrades later can fail half-way. After an I/O error during a commit, it is unknown whether the
 * commit happened.
 */

#include "store/sqlite.h"

#include "store/sql.h"
#include "store/store.h"

#include "base/clock.h"
#include "store/database_file.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRESS_OPS 1000 /* virtual machine steps between checks of the clock: well below 1 ms */

/* ---- cells ---- */

/*
 * Each of SQLite's five storage classes as text: whole numbers are decimal, reals are the shortest
 * text that reads back as the same number, and a blob is its text if it is valid UTF-8, else hex
 * after \x as PostgreSQL writes it.
 */

struct cells {
	struct store_rows *rows;
	struct arena *arena;
	const char **grown; /* cells while their number is unknown */
	size_t room;        /* in rows */
	bool refused;       /* SQLite had no memory for one of them */
};

static const char *blob_text(struct arena *a, const unsigned char *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	char *text = arena_alloc(a, n + 1);
	size_t at = 0, length;
	if (n > 0)
		memcpy(text, bytes, n);
	while ((length = utf8_len(text + at)) > 0)
		at += length;
	if (at == n)
		return text;
	AUTO_BUF hex = BUF_INIT;
	buf_add(&hex, "\\x");
	for (size_t i = 0; i < n; i++) {
		buf_addch(&hex, digits[bytes[i] >> 4]);
		buf_addch(&hex, digits[bytes[i] & 0xf]);
	}
	return buf_to_arena(&hex, a);
}

static const char *real_text(struct arena *a, double value)
{
	char text[40];
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	/* A real must remain recognisable as one. */
	bool whole = strspn(text, "-0123456789") == strlen(text);
	return arena_printf(a, "%s%s", text, whole ? ".0" : "");
}

/* A text that SQLite could not make for lack of memory is NULL: then the rows are incomplete. */
static const char *sqlite_copied(struct cells *c, const char *text)
{
	c->refused = c->refused || !text;
	return text ? arena_strdup(c->arena, text) : NULL;
}

static const char *cell_text(struct cells *c, sqlite3_stmt *stmt, int col)
{
	struct arena *a = c->arena;
	switch (sqlite3_column_type(stmt, col)) {
	case SQLITE_NULL:
		return NULL;
	case SQLITE_INTEGER:
		return arena_printf(a, "%lld", (long long)sqlite3_column_int64(stmt, col));
	case SQLITE_FLOAT:
		return real_text(a, sqlite3_column_double(stmt, col));
	case SQLITE_BLOB: {
		const unsigned char *bytes = sqlite3_column_blob(stmt, col);
		return blob_text(a, bytes, (size_t)sqlite3_column_bytes(stmt, col));
	}
	default:
		return sqlite_copied(c, (const char *)sqlite3_column_text(stmt, col));
	}
}

static void cells_start(struct cells *c, sqlite3_stmt *stmt)
{
	struct store_rows *rows = c->rows;
	rows->nrows = 0;
	rows->ncols = sqlite3_column_count(stmt);
	rows->names = ARENA_ARRAY(c->arena, const char *, rows->ncols);
	for (int i = 0; i < rows->ncols; i++)
		rows->names[i] = sqlite_copied(c, sqlite3_column_name(stmt, i));
}

static void cells_add_row(struct cells *c, sqlite3_stmt *stmt)
{
	size_t ncols = (size_t)c->rows->ncols;
	size_t row = (size_t)c->rows->nrows;
	if (row == c->room) {
		c->room = c->room ? 2 * c->room : 16;
		c->grown = mem_grow(c->grown, c->room * ncols * sizeof(*c->grown));
	}
	for (size_t i = 0; i < ncols; i++)
		c->grown[row * ncols + i] = cell_text(c, stmt, (int)i);
	c->rows->nrows++;
}

/* Hand the cells to `rows`; also after an error. */
static void cells_finish(struct cells *c)
{
	size_t n = (size_t)c->rows->nrows * (size_t)c->rows->ncols;
	c->rows->cells = ARENA_ARRAY(c->arena, const char *, n);
	if (n > 0)
		memcpy(c->rows->cells, c->grown, n * sizeof(*c->grown));
	free(c->grown);
}

/* ---- a session ---- */

struct lite {
	struct store base;
	sqlite3 *db;
	int64_t call_ms;
	int64_t deadline_ms; /* of the current call; 0: none */
	bool reading;        /* the open transaction may not write */
	struct prepared_set statements;
	char *name;
	char *path; /* of its file, absolute; NULL: in memory */
};

static struct lite *sqlite_of(struct store *s)
{
	return (struct lite *)s;
}

/* How long a statement may take now. */
static int64_t allowed_ms(const struct lite *l)
{
	int64_t within_ms = l->base.within_ms;
	return within_ms && within_ms < l->call_ms ? within_ms : l->call_ms;
}

static int past_deadline(void *self)
{
	const struct lite *l = self;
	return l->deadline_ms != 0 && clock_boot_ms() >= l->deadline_ms;
}

static bool is_duplicate(int rc)
{
	return rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY ||
	       rc == SQLITE_CONSTRAINT_ROWID;
}

/* The failure of SQLite's last call. `committing`: a commit was part of it. */
static defib_err lite_fail(struct lite *l, int rc, bool committing, struct failure *f)
{
	defib_err code = sqlite_class(rc);
	if (rc == SQLITE_INTERRUPT)
		return fail(f, code, "%s: not done within %lld ms", l->base.name, (long long)allowed_ms(l));
	if (code == DEFIB_IO && committing)
		return fail(f, DEFIB_UNKNOWN_OUTCOME, "%s: %s while committing; the outcome is unknown",
		            l->base.name, sqlite3_errmsg(l->db));
	fail(f, code, "%s: %s", l->base.name, sqlite3_errmsg(l->db));
	/* SQLite has one code for all errors in SQL. */
	if (f && code == DEFIB_BAD_SQL && text_starts(sqlite3_errmsg(l->db), "no such table"))
		f->reason = REASON_NO_NAME;
	if (f && is_duplicate(rc))
		f->reason = REASON_TAKEN;
	if ((rc & 0xff) == SQLITE_CORRUPT)
		fail_next(f, "the file is damaged: run PRAGMA integrity_check, restore a backup");
	return code;
}

static void drop_statement(struct prepared *slot)
{
	sqlite3_finalize(slot->handle);
	prepared_forget(slot);
}

static defib_err sqlite_prepare(struct lite *l, const char *sql, sqlite3_stmt **out,
                                struct failure *f)
{
	struct prepared *slot = prepared_find(&l->statements, sql);
	const char *rest = NULL;
	if (slot) {
		*out = slot->handle;
		return DEFIB_OK;
	}
	*out = NULL;
	int rc = sqlite3_prepare_v3(l->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, &rest);
	if (rc != SQLITE_OK)
		return lite_fail(l, rc, false, f);
	if (!*out)
		return fail(f, DEFIB_BAD_SQL, "%s: the statement is empty", l->base.name);
	if (!sql_is_blank(rest)) {
		sqlite3_finalize(*out);
		return fail(f, DEFIB_BAD_SQL, "%s: more than one statement in a call", l->base.name);
	}
	slot = prepared_victim(&l->statements);
	if (slot->sql)
		drop_statement(slot);
	prepared_put(&l->statements, slot, sql, *out);
	return DEFIB_OK;
}

/* BEGIN, COMMIT, ROLLBACK: prepared like any other statement, because every job uses them. */
static defib_err control(struct lite *l, const char *sql, bool committing, struct failure *f)
{
	sqlite3_stmt *stmt = NULL;
	defib_err err = sqlite_prepare(l, sql, &stmt, f);
	if (err)
		return err;
	int rc = sqlite3_step(stmt);
	if (rc != SQLITE_DONE)
		err = lite_fail(l, rc, committing, f);
	sqlite3_reset(stmt);
	return err;
}

/* SQLite treats PRAGMA journal_mode as a write, even if it only reads the mode. */
static bool only_asks(const char *sql)
{
	return strncasecmp(sql, "PRAGMA ", 7) == 0 && !strpbrk(sql, "=(");
}

/*
 * PRAGMA query_only would do the same, but setting it makes SQLite recompile every statement of the
 * session.
 */
static defib_err only_reads(struct lite *l, sqlite3_stmt *stmt, struct failure *f)
{
	if (!l->reading || sqlite3_stmt_readonly(stmt) || only_asks(sqlite3_sql(stmt)))
		return DEFIB_OK;
	return fail(f, DEFIB_READ_ONLY, "%s: attempt to write in a read-only transaction",
	            l->base.name);
}

static defib_err sqlite_bind(struct lite *l, sqlite3_stmt *stmt, const struct store_param *params,
                             int nparams, struct failure *f)
{
	int wanted = sqlite3_bind_parameter_count(stmt);
	/* SQLite treats a missing parameter as NULL; PostgreSQL refuses. We refuse on both. */
	if (wanted != nparams) {
		return fail(f, DEFIB_BAD_SQL, "%s: the statement takes %d parameters, %d were given",
		            l->base.name, wanted, nparams);
	}
	for (int i = 0; i < nparams; i++) {
		int rc = SQLITE_OK;
		if (params[i].type == PARAM_INT) {
			rc = sqlite3_bind_int64(stmt, i + 1, params[i].number);
		} else if (params[i].type == PARAM_TEXT) {
			rc = sqlite3_bind_text64(stmt, i + 1, params[i].text, strlen(params[i].text),
			                         SQLITE_STATIC, SQLITE_UTF8);
		}
		if (rc != SQLITE_OK)
			return lite_fail(l, rc, false, f);
	}
	return DEFIB_OK;
}

static int step_all(sqlite3_stmt *stmt, struct arena *a, struct store_rows *rows)
{
	int rc;
	if (!rows) {
		while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		}
		return rc;
	}
	struct cells cells = {.rows = rows, .arena = a};
	cells_start(&cells, stmt);
	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
		cells_add_row(&cells, stmt);
	cells_finish(&cells);
	return rc == SQLITE_DONE && cells.refused ? SQLITE_NOMEM : rc;
}

static defib_err sqlite_run(struct lite *l, sqlite3_stmt *stmt, struct arena *a,
                            struct store_rows *rows, struct failure *f)
{
	bool commits = !l->base.in_tx && !sqlite3_stmt_readonly(stmt);
	sqlite3_int64 before = sqlite3_total_changes64(l->db);
	int rc = step_all(stmt, a, rows);
	defib_err err = rc == SQLITE_DONE ? DEFIB_OK : lite_fail(l, rc, commits, f);
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	if (rows && sqlite3_total_changes64(l->db) != before)
		rows->affected = sqlite3_changes64(l->db);
	return err;
}

static defib_err lite_exec(struct store *s, const char *sql, const struct store_param *params,
                           int nparams, struct arena *a, struct store_rows *rows, struct failure *f)
{
	struct lite *l = sqlite_of(s);
	sqlite3_stmt *stmt = NULL;
	l->deadline_ms = clock_boot_ms() + allowed_ms(l);
	defib_err err = sqlite_prepare(l, sql, &stmt, f);
	if (!err)
		err = only_reads(l, stmt, f);
	if (!err)
		err = sqlite_bind(l, stmt, params, nparams, f);
	if (!err)
		err = sqlite_run(l, stmt, a, rows, f);
	l->deadline_ms = 0;
	return err;
}

static const char *upper(struct arena *a, const char *text)
{
	char *copy = arena_strdup(a, text);
	for (char *at = copy; *at != '\0'; at++)
		*at = (char)toupper((unsigned char)*at);
	return copy;
}

static defib_err lite_describe(struct store *s, const char *sql, struct arena *a,
                               struct store_column **cols, int *ncols, struct failure *f)
{
	struct prepared *kept = prepared_find(&sqlite_of(s)->statements, sql);
	sqlite3_stmt *stmt = NULL;
	/* A statement prepared earlier has the columns from before the last change of the table. */
	if (kept)
		drop_statement(kept);
	defib_err err = sqlite_prepare(sqlite_of(s), sql, &stmt, f);
	if (err)
		return err;
	*ncols = sqlite3_column_count(stmt);
	*cols = ARENA_ARRAY(a, struct store_column, *ncols);
	for (int i = 0; i < *ncols; i++) {
		const char *name = sqlite3_column_name(stmt, i), *type = sqlite3_column_decltype(stmt, i);
		struct store_column *col = &(*cols)[i];
		if (!name)
			return lite_fail(sqlite_of(s), SQLITE_NOMEM, false, f);
		col->name = arena_strdup(a, name);
		col->type = arena_strdup(a, type ? type : "");
		col->base = upper(a, col->type);
	}
	return DEFIB_OK;
}

static defib_err lite_begin(struct store *s, enum store_tx mode, struct failure *f)
{
	defib_err err = control(sqlite_of(s), mode == TX_READ ? "BEGIN" : "BEGIN IMMEDIATE", false, f);
	sqlite_of(s)->reading = !err && mode == TX_READ;
	return err;
}

static defib_err lite_commit(struct store *s, struct failure *f)
{
	sqlite_of(s)->reading = false;
	return control(sqlite_of(s), "COMMIT", true, f);
}

#define ROLLBACKS 2

static void lite_rollback(struct store *s)
{
	struct failure ignored = {0};
	sqlite_of(s)->reading = false;
	/* Some errors, such as a full disk or our deadline, have already rolled back. */
	for (int i = 0; i < ROLLBACKS && !sqlite3_get_autocommit(sqlite_of(s)->db); i++)
		control(sqlite_of(s), "ROLLBACK", false, &ignored);
	/* Without memory it can fail. Left open, the transaction would block every other writer. */
	s->lost = s->lost || !sqlite3_get_autocommit(sqlite_of(s)->db);
}

static void drop_statements(struct lite *l)
{
	for (int i = 0; i < PREPARED_MAX; i++)
		drop_statement(&l->statements.slots[i]);
}

static void lite_close(struct store *s)
{
	struct lite *l = sqlite_of(s);
	drop_statements(l);
	int rc = sqlite3_close(l->db);
	assert(rc == SQLITE_OK);
	(void)rc;
	free(l->name);
	free(l->path);
	free(l);
}

static bool lite_is_behind(struct store *s)
{
	const struct lite *l = sqlite_of(s);
	return l->path && database_file_is_another(l->path, &s->state, s->name);
}

/* Wall clock in microseconds: SQLite 3.40 has no function for fractions of a second as a number. */
static void sql_now_us(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
	(void)argc;
	(void)argv;
	sqlite3_result_int64(ctx, clock_wall_us());
}

/* "sqlite:a/b" is a/b, "sqlite:///a/b" is /a/b. */
static const char *sqlite_path_of(const char *url)
{
	const char *path = url + strlen("sqlite:");
	assert(text_starts(url, "sqlite:"));
	return text_starts(path, "///") ? path + 2 : path;
}

/* A file that does not exist yet is identified by its directory. */
void sqlite_target(const char *url, struct buf *out)
{
	const char *path = sqlite_path_of(url), *slash = strrchr(path, '/');
	AUTO_BUF folder = BUF_INIT;
	char whole[PATH_MAX],
		place[PATH_MAX]; /* no allocation: an incomplete path would name another file */
	if (realpath(path, whole)) {
		buf_addf(out, "file %s", whole);
		return;
	}
	buf_addn(&folder, slash ? path : ".", slash ? (size_t)(slash - path) : 1);
	buf_addf(out, "file %s/%s", realpath(buf_text(&folder), place) ? place : buf_text(&folder),
	         slash ? slash + 1 : path);
}

static defib_err sqlite_check_file(const struct store_options *opt, const char *path,
                                   struct failure *f)
{
	struct stat st;
	if (path[0] == '\0' || text_starts(path, "//")) {
		fail(f, DEFIB_CONFIG, "%s: the URL names no file", opt->name);
		fail_next(f, "write sqlite:PATH, as in sqlite:jobs.db or sqlite:/srv/jobs.db");
		return DEFIB_CONFIG;
	}
	if (opt->create || text_eq(path, ":memory:"))
		return DEFIB_OK;
	if (stat(path, &st) != 0) {
		return fail(f, DEFIB_CONNECTION, "%s: %s: %s", opt->name,
		            errno == ENOENT ? "no such file" : strerror(errno), path);
	}
	if (S_ISDIR(st.st_mode))
		return fail(f, DEFIB_CONNECTION, "%s: is a directory, not a database: %s", opt->name, path);
	return DEFIB_OK;
}

/* SQLite opens lazily: this reads the file's header, so that a wrong file is reported now. */
static defib_err sqlite_set_up(struct lite *l, const struct store_options *opt, const char *path,
                               struct failure *f)
{
	sqlite3_busy_timeout(l->db, (int)(opt->lock_ms < opt->call_ms ? opt->lock_ms : opt->call_ms));
	sqlite3_progress_handler(l->db, PROGRESS_OPS, past_deadline, l);
	int rc = sqlite3_create_function_v2(l->db, "defib_now_us", 0, SQLITE_UTF8 | SQLITE_INNOCUOUS,
	                                    NULL, sql_now_us, NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(l->db, "PRAGMA foreign_keys = 1; PRAGMA schema_version;", NULL, NULL,
		                  NULL);
	if (rc == SQLITE_NOTADB)
		return fail(f, DEFIB_DATABASE, "%s: not an SQLite database: %s", l->base.name, path);
	if (rc != SQLITE_OK)
		return lite_fail(l, rc, false, f);
	/* With a WAL, readers do not block the writer; without it, everything works all the same. */
	if (!opt->read_only)
		sqlite3_exec(l->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
	return DEFIB_OK;
}

static const struct store_ops lite_ops = {
	.exec = lite_exec,
	.describe = lite_describe,
	.begin = lite_begin,
	.commit = lite_commit,
	.rollback = lite_rollback,
	.close = lite_close,
	.is_behind = lite_is_behind,
};

static int open_flags(const struct store_options *opt)
{
	int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
	if (opt->read_only)
		return flags | SQLITE_OPEN_READONLY;
	return flags | SQLITE_OPEN_READWRITE | (opt->create ? SQLITE_OPEN_CREATE : 0);
}

/*
 * Jobs may hold sensitive data: a file that we create belongs to its owner alone, and SQLite
 * creates the files beside it (-wal, -shm) with the same mode. An existing file keeps its mode. An
 * error here occurs again, with a message, when SQLite opens the file.
 */
static void sqlite_make_private(const struct store_options *opt, const char *path)
{
	if (!opt->create || opt->read_only || text_eq(path, ":memory:"))
		return;
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
}

static defib_err sqlite_open_file(struct lite *l, const struct store_options *opt, const char *path,
                                  struct failure *f)
{
	int rc = sqlite3_open_v2(path, &l->db, open_flags(opt), NULL);
	if (rc == SQLITE_OK)
		return sqlite_set_up(l, opt, path, f);
	return fail(f, sqlite_class(rc), "%s: %s: %s", opt->name,
	            l->db ? sqlite3_errmsg(l->db) : sqlite3_errstr(rc), path);
}

/* *same is false if another file took its place meanwhile: which one is open is not known then. */
static defib_err open_known(struct lite *l, const struct store_options *opt, const char *path,
                            bool *same, struct failure *f)
{
	struct store_state before = {0}, after = {0};
	defib_err err = DEFIB_OK;
	*same = true;
	if (l->path && database_file_state(l->path, &before))
		err = database_file_fits(l->path, &before, opt->name, f);
	if (!err)
		err = sqlite_open_file(l, opt, path, f);
	if (err || !l->path)
		return err;
	(void)database_file_state(l->path, &after);
	*same = !store_state_is_another(&before, &after);
	if (*same && store_state_known(&after)) {
		l->base.state = after;
		database_file_opened(l->path, &after, opt->name);
	}
	return DEFIB_OK;
}

static struct lite *lite_new(const struct store_options *opt, const char *path)
{
	struct lite *l = mem_alloc(sizeof(*l));
	l->name = mem_strdup(opt->name);
	l->path = database_file_path(path);
	l->base = (struct store){
		.ops = &lite_ops,
		.engine = STORE_SQLITE,
		.name = l->name,
		.server_version = sqlite3_libversion_number(),
	};
	l->call_ms = opt->call_ms;
	return l;
}

#define OPEN_TRIES 3

defib_err sqlite_open(const struct store_options *opt, struct store **out, struct failure *f)
{
	const char *path = sqlite_path_of(opt->url);
	defib_err err = sqlite_check_file(opt, path, f);
	bool same = false;
	if (err)
		return err;
	sqlite_make_private(opt, path);
	for (int i = 0; i < OPEN_TRIES && !err && !same; i++) {
		struct lite *l = lite_new(opt, path);
		err = open_known(l, opt, path, &same, f);
		if (!err && same)
			*out = &l->base;
		else
			lite_close(&l->base);
	}
	if (!err && !same)
		err = fail(f, DEFIB_CONNECTION, "%s: the file was replaced while it was opened: %s",
		           opt->name, path);
	return err;
}

static void sqlite_lent_close(struct store *s)
{
	struct lite *l = sqlite_of(s);
	drop_statements(l);
	free(l);
}

defib_err sqlite_borrow(struct sqlite3 *db, struct store **out, struct failure *f)
{
	static const struct store_ops ops = {.exec = lite_exec, .close = sqlite_lent_close};
	*out = NULL;
	if (!db || sqlite3_get_autocommit(db)) {
		fail(f, DEFIB_USAGE, "the connection has no open transaction");
		fail_next(f, "BEGIN IMMEDIATE before, COMMIT after");
		return DEFIB_USAGE;
	}
	struct lite *l = mem_alloc(sizeof(*l));
	l->base = (struct store){
		.ops = &ops,
		.engine = STORE_SQLITE,
		.name = "the caller's session",
		.server_version = sqlite3_libversion_number(),
		.in_tx = true,
	};
	l->db = db;
	*out = &l->base;
	return DEFIB_OK;
}

/* ---- errors ---- */

/*
 * Extended codes that differ from their family come first; the family (the low byte) decides the
 * rest. An I/O error during a commit is not decided here: only the caller knows of the commit.
 */

static const struct {
	int code;
	defib_err class;
} classes[] = {
	{SQLITE_IOERR_NOMEM, DEFIB_FULL},
	{SQLITE_READONLY_DBMOVED, DEFIB_CONNECTION}, /* the file was replaced: open the new one */
	{SQLITE_BUSY, DEFIB_LOCKED},
	{SQLITE_LOCKED, DEFIB_LOCKED},
	{SQLITE_PROTOCOL, DEFIB_LOCKED}, /* contention for the WAL's locks */
	{SQLITE_FULL, DEFIB_FULL},
	{SQLITE_NOMEM, DEFIB_FULL},
	{SQLITE_READONLY, DEFIB_READ_ONLY},
	{SQLITE_CANTOPEN, DEFIB_CONNECTION},
	{SQLITE_IOERR, DEFIB_IO},
	{SQLITE_CONSTRAINT, DEFIB_CONSTRAINT},
	{SQLITE_PERM, DEFIB_PERMISSION},
	{SQLITE_AUTH, DEFIB_PERMISSION},
	{SQLITE_INTERRUPT, DEFIB_TIMEOUT}, /* only our own deadline interrupts */
	{SQLITE_ERROR, DEFIB_BAD_SQL},
	{SQLITE_MISMATCH, DEFIB_BAD_VALUE},
	{SQLITE_TOOBIG, DEFIB_BAD_VALUE},
	{SQLITE_RANGE, DEFIB_BAD_SQL},
	{SQLITE_CORRUPT, DEFIB_DATABASE},
	{SQLITE_NOTADB, DEFIB_DATABASE},
};

defib_err sqlite_class(int extended)
{
	for (int code = extended;; code &= 0xff) {
		for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
			if (classes[i].code == code)
				return classes[i].class;
		if (code == (code & 0xff))
			return DEFIB_DATABASE;
	}
}
