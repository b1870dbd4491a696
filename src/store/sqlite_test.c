/* SPDX-License-Identifier: Apache-2.0 */
/* sqlite_test.c: an SQLite session on real files in a temporary directory. */
#include "store/patient_test.h"
#include "store/sqlite.h"

#include <ftw.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static struct store *open_with(const char *file, struct store_options opt, defib_err want,
                               struct failure *f)
{
	char url[128];
	struct store *s = NULL;
	snprintf(url, sizeof(url), "sqlite:%s/%s", dir, file);
	opt.url = url;
	opt = patient(opt);
	assert_int_equal(store_open(&opt, &s, f), want);
	return s;
}

static struct store *open_new(const char *file)
{
	return open_with(file, (struct store_options){.create = true, .lock_ms = 20}, DEFIB_OK, NULL);
}

static defib_err run(struct store *s, const char *sql, struct failure *f)
{
	return store_exec(s, sql, NULL, 0, NULL, NULL, f);
}

static int make_dir(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/defib-sqlite-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

static int remove_dir(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int mode_of(const char *file)
{
	char path[128];
	struct stat st;
	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return stat(path, &st) == 0 ? (int)(st.st_mode & 0777) : -1;
}

/*
 * Jobs may hold sensitive data: files that we create are only for their owner, whatever the umask
 * allows.
 */
static void a_file_that_is_made_is_its_owners_alone(void **state)
{
	char path[128];
	mode_t before = umask(0);
	(void)state;
	struct store *s = open_new("private.db");
	assert_int_equal(run(s, "CREATE TABLE t (id INTEGER)", NULL), DEFIB_OK);
	assert_int_equal(mode_of("private.db"), 0600);
	assert_int_equal(mode_of("private.db-wal"), 0600);
	assert_int_equal(mode_of("private.db-shm"), 0600);
	store_close(s);
	/* An existing one keeps its mode. */
	snprintf(path, sizeof(path), "%s/private.db", dir);
	assert_int_equal(chmod(path, 0640), 0);
	store_close(open_new("private.db"));
	assert_int_equal(mode_of("private.db"), 0640);
	umask(before);
}

static void missing_file_is_said_so_and_not_made(void **state)
{
	struct failure f = {0};
	char path[128];
	(void)state;
	assert_null(open_with("none.db", (struct store_options){0}, DEFIB_CONNECTION, &f));
	assert_non_null(strstr(f.what, "no such file"));
	snprintf(path, sizeof(path), "%s/none.db", dir);
	assert_int_equal(access(path, F_OK), -1);
	assert_null(open_with("", (struct store_options){0}, DEFIB_CONNECTION, &f));
	assert_non_null(strstr(f.what, "directory"));
}

static void other_files_are_not_databases(void **state)
{
	struct failure f = {0};
	char path[128];
	(void)state;
	snprintf(path, sizeof(path), "%s/not.db", dir);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	for (int i = 0; i < 200; i++)
		fputs("this is a text file\n", file);
	fclose(file);
	assert_null(open_with("not.db", (struct store_options){0}, DEFIB_DATABASE, &f));
	assert_non_null(strstr(f.what, "not an SQLite database"));
}

static void second_writer_is_locked_out_within_its_time(void **state)
{
	struct store *holder = open_new("busy.db");
	struct store *other = open_new("busy.db");
	struct failure f = {0};
	(void)state;
	assert_int_equal(store_begin(holder, TX_WRITE, &f), DEFIB_OK);
	assert_int_equal(store_begin(other, TX_WRITE, &f), DEFIB_LOCKED);
	assert_false(other->in_tx || other->lost);
	assert_int_equal(run(other, "CREATE TABLE x (a)", &f), DEFIB_LOCKED);
	store_rollback(holder);
	assert_int_equal(run(other, "CREATE TABLE x (a)", &f), DEFIB_OK);
	store_close(holder);
	store_close(other);
}

static void read_only_session_refuses_to_write(void **state)
{
	struct failure f = {0};
	(void)state;
	store_close(open_new("ro.db"));
	struct store *s = open_with("ro.db", (struct store_options){.read_only = true}, DEFIB_OK, &f);
	assert_int_equal(run(s, "CREATE TABLE t (a)", &f), DEFIB_READ_ONLY);
	assert_int_equal(store_begin(s, TX_READ, &f), DEFIB_OK);
	assert_int_equal(run(s, "SELECT 1", &f), DEFIB_OK);
	assert_int_equal(store_commit(s, &f), DEFIB_OK);
	store_close(s);
}

static char *journal_mode(struct store *s, struct arena *a)
{
	struct store_rows rows;
	assert_int_equal(store_exec(s, "PRAGMA journal_mode", NULL, 0, a, &rows, NULL), DEFIB_OK);
	return arena_strdup(a, row_text(&rows, 0, 0));
}

static void only_a_writing_session_turns_to_wal(void **state)
{
	struct arena a = ARENA_INIT;
	struct store *s = open_new("delete.db");
	(void)state;
	assert_string_equal(journal_mode(s, &a), "wal");
	assert_int_equal(run(s, "PRAGMA journal_mode = DELETE", NULL), DEFIB_OK);
	store_close(s);
	s = open_with("delete.db", (struct store_options){.read_only = true}, DEFIB_OK, NULL);
	assert_string_equal(journal_mode(s, &a), "delete");
	store_close(s);
	arena_release(&a);
}

static void read_transaction_refuses_to_write_and_ends(void **state)
{
	struct store *s = open_new("a.db");
	struct failure f = {0};
	(void)state;
	assert_int_equal(store_begin(s, TX_READ, &f), DEFIB_OK);
	assert_int_equal(run(s, "CREATE TABLE r (a)", &f), DEFIB_READ_ONLY);
	store_rollback(s);
	assert_int_equal(run(s, "CREATE TABLE r (a)", &f), DEFIB_OK);
	assert_int_equal(run(s, "DROP TABLE r", &f), DEFIB_OK);
	store_close(s);
}

static void a_kept_statement_that_writes_is_refused_while_reading(void **state)
{
	static const char insert[] = "INSERT INTO k VALUES (1)";
	struct store *s = open_new("a.db");
	struct failure f = {0};
	(void)state;
	assert_int_equal(run(s, "CREATE TABLE k (a)", &f), DEFIB_OK);
	assert_int_equal(run(s, insert, &f), DEFIB_OK);
	assert_int_equal(store_begin(s, TX_READ, &f), DEFIB_OK);
	assert_int_equal(run(s, "SELECT a FROM k", &f), DEFIB_OK);
	assert_int_equal(store_commit(s, &f), DEFIB_OK);
	assert_int_equal(run(s, insert, &f), DEFIB_OK);
	assert_int_equal(store_begin(s, TX_READ, &f), DEFIB_OK);
	assert_int_equal(run(s, insert, &f), DEFIB_READ_ONLY);
	store_rollback(s);
	assert_int_equal(run(s, "DROP TABLE k", &f), DEFIB_OK);
	store_close(s);
}

static sqlite3 *opened; /* the handle of the session that was opened last */

static int note_opened(sqlite3 *db, const char **message, const struct sqlite3_api_routines *api)
{
	(void)message;
	(void)api;
	opened = db;
	return SQLITE_OK;
}

/* How often a statement of that session was compiled again. */
static int compiled_again(void)
{
	int n = 0;
	for (sqlite3_stmt *at = NULL; (at = sqlite3_next_stmt(opened, at)) != NULL;)
		n += sqlite3_stmt_status(at, SQLITE_STMTSTATUS_REPREPARE, 0);
	return n;
}

static void transactions_do_not_compile_statements_again(void **state)
{
	struct store_param one = P_INT(1);
	(void)state;
	assert_int_equal(sqlite3_auto_extension((void (*)(void))note_opened), SQLITE_OK);
	struct store *s = open_new("a.db");
	sqlite3_cancel_auto_extension((void (*)(void))note_opened);
	assert_int_equal(run(s, "CREATE TABLE t (a)", NULL), DEFIB_OK);
	for (int i = 0; i < 5; i++) {
		enum store_tx mode = i % 2 ? TX_READ : TX_WRITE;
		assert_int_equal(store_begin(s, mode, NULL), DEFIB_OK);
		assert_int_equal(store_exec(s, "SELECT a FROM t WHERE a = ?1", &one, 1, NULL, NULL, NULL),
		                 DEFIB_OK);
		if (mode == TX_WRITE)
			assert_int_equal(run(s, "INSERT INTO t VALUES (1)", NULL), DEFIB_OK);
		assert_int_equal(store_commit(s, NULL), DEFIB_OK);
	}
	assert_int_equal(compiled_again(), 0);
	assert_int_equal(run(s, "DROP TABLE t", NULL), DEFIB_OK);
	store_close(s);
}

static void endless_query_ends_at_its_deadline(void **state)
{
	struct store *s =
		open_with("a.db", (struct store_options){.create = true, .call_ms = 50}, DEFIB_OK, NULL);
	struct failure f = {0};
	(void)state;
	assert_int_equal(run(s,
	                     "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
	                     "SELECT count(*) FROM n",
	                     &f),
	                 DEFIB_TIMEOUT);
	EVENTUALLY(run(s, "SELECT 1", &f) == DEFIB_OK); /* which has the same deadline */
	store_close(s);
}

static void a_read_within_a_time_fails_alone_and_leaves_the_session_its_own(void **state)
{
	static const char counting[] = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
								   "WHERE i < %lld) SELECT count(*) FROM n";
	struct store *s = open_new("a.db");
	struct failure f = {0};
	char sql[200];
	(void)state;
	snprintf(sql, sizeof(sql), counting, 100000000000LL);
	assert_int_equal(store_begin_within(s, 50, &f), DEFIB_OK);
	assert_int_equal(run(s, sql, &f), DEFIB_TIMEOUT);
	assert_non_null(strstr(f.what, "within 50 ms"));
	store_rollback(s);
	assert_false(s->lost);
	snprintf(sql, sizeof(sql), counting, 1000000LL);
	assert_int_equal(store_begin(s, TX_READ, &f), DEFIB_OK);
	assert_int_equal(run(s, sql, &f), DEFIB_OK);
	store_rollback(s);
	store_close(s);
}

static void full_database_is_full(void **state)
{
	struct store *s = open_new("a.db");
	(void)state;
	assert_int_equal(run(s, "CREATE TABLE big (b)", NULL), DEFIB_OK);
	assert_int_equal(run(s, "PRAGMA max_page_count = 10", NULL), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO big VALUES (zeroblob(1000000))", NULL), DEFIB_FULL);
	assert_false(s->lost);
	assert_int_equal(run(s, "DROP TABLE big", NULL), DEFIB_OK);
	store_close(s);
}

/* Writing past the limit on a file's size is an I/O error, which a WAL raises at the commit. */
static defib_err commit_with_io_error(struct store *s)
{
	struct rlimit old, tiny;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tiny = (struct rlimit){.rlim_cur = 1024, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tiny), 0);
	defib_err err = store_commit(s, NULL);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	return err;
}

static void io_error_at_commit_leaves_it_unknown(void **state)
{
	struct store *s = open_new("a.db");
	(void)state;
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(run(s, "CREATE TABLE io (b)", NULL), DEFIB_OK);
	assert_int_equal(commit_with_io_error(s), DEFIB_UNKNOWN_OUTCOME);
	assert_true(s->lost);
	store_close(s);
}

static void errors_have_their_class(void **state)
{
	static const struct {
		const char *sql;
		defib_err class;
	} rows[] = {
		{"SELECT nothing FROM c", DEFIB_BAD_SQL},
		{"SELEC 1", DEFIB_BAD_SQL},
		{"SELECT 1; SELECT 2", DEFIB_BAD_SQL},
		{"-- nothing", DEFIB_BAD_SQL},
		{"SELECT ?1", DEFIB_BAD_SQL}, /* a parameter is missing */
		{"SELECT json('{')", DEFIB_BAD_SQL},
		{"INSERT INTO c VALUES (1, 1)", DEFIB_CONSTRAINT},
		{"INSERT INTO c VALUES (2, 99)", DEFIB_CONSTRAINT}, /* foreign key */
		{"SELECT 1; -- one statement", DEFIB_OK},
	};
	struct store *s = open_new("a.db");
	struct failure f = {0};
	(void)state;
	assert_int_equal(run(s, "CREATE TABLE c (id INTEGER PRIMARY KEY, up INT REFERENCES c(id))", &f),
	                 DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO c VALUES (1, NULL)", &f), DEFIB_OK);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(run(s, rows[i].sql, &f), rows[i].class);
	assert_int_equal(run(s, "DROP TABLE c", &f), DEFIB_OK);
	store_close(s);
}

static void cells_are_text_of_every_storage_class(void **state)
{
	struct store *s = open_new("a.db");
	struct arena a = ARENA_INIT;
	struct store_rows r;
	struct store_param params[] = {P_TEXT("a'\"\\ü"), P_INT(INT64_MIN), P_TEXT(NULL)};
	(void)state;
	assert_int_equal(
		store_exec(s,
	               "SELECT ?1 AS t, ?2, ?3, 0.1, 1.0, 1e300, x'00ff', x'6162', x'', typeof(?2), "
	               "1.0/3",
	               params, 3, &a, &r, NULL),
		DEFIB_OK);
	static const char *const want[] = {
		"a'\"\\ü", "-9223372036854775808", NULL, "0.1", "1.0", "1e+300", "\\x00ff", "ab", "",
		"integer", "0.3333333333333333"};
	assert_int_equal(r.ncols, 11);
	assert_string_equal(r.names[0], "t");
	for (int i = 0; i < r.ncols; i++)
		if (want[i])
			assert_string_equal(row_text(&r, 0, i), want[i]);
		else
			assert_null(row_text(&r, 0, i));
	arena_release(&a);
	store_close(s);
}

static void rows_written_are_counted(void **state)
{
	struct store *s = open_new("a.db");
	struct arena a = ARENA_INIT;
	struct store_rows r;
	(void)state;
	assert_int_equal(run(s, "CREATE TABLE n (i)", NULL), DEFIB_OK);
	assert_int_equal(store_exec(s, "INSERT INTO n VALUES (1), (2), (3)", NULL, 0, &a, &r, NULL),
	                 DEFIB_OK);
	assert_int_equal(r.affected, 3);
	assert_int_equal(
		store_exec(s, "UPDATE n SET i = 0 WHERE i > 1 RETURNING i", NULL, 0, &a, &r, NULL),
		DEFIB_OK);
	assert_int_equal(r.affected, 2);
	assert_int_equal(r.nrows, 2);
	assert_int_equal(store_exec(s, "DELETE FROM n WHERE i = 7", NULL, 0, &a, &r, NULL), DEFIB_OK);
	assert_int_equal(r.affected, 0);
	assert_int_equal(store_exec(s, "SELECT * FROM n", NULL, 0, &a, &r, NULL), DEFIB_OK);
	assert_int_equal(r.affected, 0);
	assert_int_equal(store_exec(s, "DROP TABLE n", NULL, 0, &a, &r, NULL), DEFIB_OK);
	assert_int_equal(r.affected, 0);
	arena_release(&a);
	store_close(s);
}

static void describe_tells_declared_types(void **state)
{
	struct store *s = open_new("a.db");
	struct arena a = ARENA_INIT;
	struct store_column *cols;
	int n;
	(void)state;
	assert_int_equal(run(s, "CREATE TABLE d (id INTEGER PRIMARY KEY, at Timestamp)", NULL),
	                 DEFIB_OK);
	assert_int_equal(store_describe(s, "SELECT id, at, id + ?1 AS sum FROM d", &a, &cols, &n, NULL),
	                 DEFIB_OK);
	assert_int_equal(n, 3);
	assert_string_equal(cols[0].base, "INTEGER");
	assert_string_equal(cols[1].type, "Timestamp");
	assert_string_equal(cols[1].base, "TIMESTAMP");
	assert_string_equal(cols[2].name, "sum");
	assert_string_equal(cols[2].type, "");
	assert_int_equal(store_describe(s, "SELECT id FROM nowhere", &a, &cols, &n, NULL),
	                 DEFIB_BAD_SQL);
	assert_int_equal(run(s, "DROP TABLE d", NULL), DEFIB_OK);
	arena_release(&a);
	store_close(s);
}

static void describe_sees_a_table_that_was_changed(void **state)
{
	struct store *s = open_new("a.db");
	struct arena a = ARENA_INIT;
	struct store_column *cols;
	int n;
	(void)state;
	assert_int_equal(run(s, "CREATE TABLE d (id INTEGER PRIMARY KEY)", NULL), DEFIB_OK);
	assert_int_equal(store_describe(s, "SELECT * FROM d", &a, &cols, &n, NULL), DEFIB_OK);
	assert_int_equal(n, 1);
	assert_int_equal(run(s, "ALTER TABLE d ADD at TEXT", NULL), DEFIB_OK);
	assert_int_equal(store_describe(s, "SELECT * FROM d", &a, &cols, &n, NULL), DEFIB_OK);
	assert_int_equal(n, 2);
	assert_int_equal(run(s, "DROP TABLE d", NULL), DEFIB_OK);
	arena_release(&a);
	store_close(s);
}

static void now_is_the_wall_clock_in_microseconds(void **state)
{
	struct store *s = open_new("a.db");
	struct arena a = ARENA_INIT;
	struct store_rows r;
	int64_t before = clock_wall_us();
	(void)state;
	assert_int_equal(store_exec(s, "SELECT defib_now_us()", NULL, 0, &a, &r, NULL), DEFIB_OK);
	assert_in_range(row_int(&r, 0, 0, 0), before, clock_wall_us());
	arena_release(&a);
	store_close(s);
}

/* ---- sqlite_error ---- */

static void each_result_code_has_its_class(void **state)
{
	static const struct {
		int code;
		defib_err class;
	} rows[] = {
		{SQLITE_BUSY, DEFIB_LOCKED},
		{SQLITE_BUSY_SNAPSHOT, DEFIB_LOCKED},
		{SQLITE_LOCKED_SHAREDCACHE, DEFIB_LOCKED},
		{SQLITE_FULL, DEFIB_FULL},
		{SQLITE_IOERR_NOMEM, DEFIB_FULL},
		{SQLITE_READONLY, DEFIB_READ_ONLY},
		{SQLITE_READONLY_DIRECTORY, DEFIB_READ_ONLY},
		{SQLITE_READONLY_DBMOVED, DEFIB_CONNECTION},
		{SQLITE_CANTOPEN_ISDIR, DEFIB_CONNECTION},
		{SQLITE_IOERR_FSYNC, DEFIB_IO},
		{SQLITE_CONSTRAINT_UNIQUE, DEFIB_CONSTRAINT},
		{SQLITE_CONSTRAINT_FOREIGNKEY, DEFIB_CONSTRAINT},
		{SQLITE_PERM, DEFIB_PERMISSION},
		{SQLITE_AUTH, DEFIB_PERMISSION},
		{SQLITE_CORRUPT_INDEX, DEFIB_DATABASE},
		{SQLITE_NOTADB, DEFIB_DATABASE},
		{SQLITE_ERROR, DEFIB_BAD_SQL},
		{SQLITE_INTERRUPT, DEFIB_TIMEOUT},
		{SQLITE_INTERNAL, DEFIB_DATABASE},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_string_equal(defib_err_name(sqlite_class(rows[i].code)),
		                    defib_err_name(rows[i].class));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(missing_file_is_said_so_and_not_made),
		cmocka_unit_test(a_file_that_is_made_is_its_owners_alone),
		cmocka_unit_test(other_files_are_not_databases),
		cmocka_unit_test(second_writer_is_locked_out_within_its_time),
		cmocka_unit_test(read_only_session_refuses_to_write),
		cmocka_unit_test(only_a_writing_session_turns_to_wal),
		cmocka_unit_test(read_transaction_refuses_to_write_and_ends),
		cmocka_unit_test(a_kept_statement_that_writes_is_refused_while_reading),
		cmocka_unit_test(transactions_do_not_compile_statements_again),
		cmocka_unit_test(endless_query_ends_at_its_deadline),
		cmocka_unit_test(a_read_within_a_time_fails_alone_and_leaves_the_session_its_own),
		cmocka_unit_test(full_database_is_full),
		cmocka_unit_test(io_error_at_commit_leaves_it_unknown),
		cmocka_unit_test(errors_have_their_class),
		cmocka_unit_test(cells_are_text_of_every_storage_class),
		cmocka_unit_test(rows_written_are_counted),
		cmocka_unit_test(describe_tells_declared_types),
		cmocka_unit_test(describe_sees_a_table_that_was_changed),
		cmocka_unit_test(now_is_the_wall_clock_in_microseconds),
		cmocka_unit_test(each_result_code_has_its_class),
	};
	return cmocka_run_group_tests_name("store/sqlite", tests, make_dir, remove_dir);
}
