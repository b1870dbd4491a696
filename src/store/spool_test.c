/* SPDX-License-Identifier: Apache-2.0 */
/* spool_test.c: a spool keeps what it acknowledged, in order, on disks that fail and in files that
 * others have changed. */
#include "store/spool_test.h"

#include <fcntl.h>
#include <glob.h>
#include <sqlite3.h>
#include <sys/wait.h>

static struct arena arena;

static int finish(void **state)
{
	arena_release(&arena);
	return teardown(state);
}

static defib_err append(struct spool *s, const char *text)
{
	struct failure f = {0};
	const struct spool_record r = {
		.id = text, .database = "base", .bytes = text, .n = strlen(text)};
	return spool_append(s, "mail", &r, 1, &f);
}

static void put(struct spool *s, const char *text)
{
	assert_int_equal(append(s, text), DEFIB_OK);
}

/* What waits, or is set aside, in order. */
static void assert_has(struct spool *s, bool aside, const char *texts)
{
	struct spool_record all[16];
	struct buf got = BUF_INIT;
	int n = spool_peek(s, "mail", aside, all, 16, 1 << 20, &arena);
	for (int i = 0; i < n; i++) {
		assert_string_equal(all[i].database, "base");
		buf_addf(&got, "%s ", all[i].bytes);
	}
	assert_string_equal(buf_text(&got), texts);
	assert_int_equal(spool_count(s, "mail", aside), n);
	buf_release(&got);
}

static defib_err take(struct spool *s, int n, const char *const *why)
{
	struct spool_record all[16];
	const struct spool_record *list[16];
	struct failure f = {0};
	assert_int_equal(spool_peek(s, "mail", false, all, n, 1 << 20, &arena), n);
	for (int i = 0; i < n; i++)
		list[i] = &all[i];
	return spool_finish(s, "mail", list, n, why, &f);
}

static void records_come_back_in_order_after_a_restart(void **state)
{
	(void)state;
	struct spool *s = opened();
	put(s, "a");
	put(s, "b");
	put(s, "c");
	assert_int_equal(take(s, 1, NULL), DEFIB_OK);
	spool_close(s);
	s = opened();
	assert_has(s, false, "b c ");
	put(s, "d");
	put(s, "b"); /* it is there */
	spool_close(s);
	s = opened();
	assert_has(s, false, "b c d ");
	assert_true(spool_holds(s, "mail", "d"));
	assert_false(spool_holds(s, "mail", "a"));
	assert_false(spool_holds(s, "rooms", "d"));
	spool_close(s);
}

static void an_empty_spool_leaves_no_file(void **state)
{
	(void)state;
	struct spool *s = opened();
	put(s, "a");
	assert_true(spool_waits(folder));
	assert_int_equal(take(s, 1, NULL), DEFIB_OK);
	spool_close(s);
	assert_false(spool_waits(folder));
	assert_int_equal(size_of("spool.db-wal"), -1);
}

static void the_file_is_private_whatever_the_umask(void **state)
{
	(void)state;
	struct stat st;
	mode_t before = umask(0);
	struct spool *s = opened();
	put(s, "a");
	umask(before);
	assert_int_equal(stat(path_of("spool.db"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(stat(path_of("spool.db-wal"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	spool_close(s);
}

static void a_link_is_not_followed(void **state)
{
	(void)state;
	struct spool *s;
	struct failure f = {0};
	struct spool_options o = {.folder = folder};
	int fd = open(path_of("other"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	assert_int_equal(symlink("other", path_of("spool.db")), 0);
	assert_int_equal(spool_open(&o, &s, &f), DEFIB_IO);
	assert_int_equal(size_of("other"), 0);
}

static void a_folder_has_one_owner(void **state)
{
	(void)state;
	struct spool *s = opened(), *second;
	struct failure f = {0};
	struct spool_options o = {.folder = folder};
	assert_int_equal(spool_open(&o, &second, &f), DEFIB_REFUSED);
	assert_null(second);
	spool_close(s);
	spool_close(opened());
}

static void a_forked_child_cannot_touch_it(void **state)
{
	(void)state;
	struct spool *s = opened();
	int status;
	put(s, "a");
	pid_t pid = fork();
	if (pid == 0) {
		struct spool_record one;
		bool refused = append(s, "b") == DEFIB_REFUSED &&
		               spool_peek(s, "mail", false, &one, 1, 100, &arena) == 0;
		spool_close(s);
		_exit(refused ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	put(s, "c");
	spool_close(s);
	s = opened();
	assert_has(s, false, "a c ");
	spool_close(s);
}

static void a_bound_holds_until_something_is_taken(void **state)
{
	(void)state;
	struct spool *s = opened_with(200);
	put(s, "a");
	put(s, "b");
	put(s, "c");
	assert_int_equal(append(s, "d"), DEFIB_FULL);
	assert_int_equal(take(s, 1, NULL), DEFIB_OK);
	put(s, "d");
	assert_has(s, false, "b c d ");
	spool_close(s);
}

static void errors_of_the_disk_are_told_and_leave_it_usable(void **state)
{
	(void)state;
	static const int codes[] = {EIO, ENOSPC};
	static const char *const why[] = {"not yours", NULL};
	bool failed = true;
	for (int nth = 1; failed; nth++) {
		struct spool *s = opened();
		put(s, "a");
		put(s, "b");
		for (size_t i = 0; i < 2; i++) {
			plan = (typeof(plan)){.kind = FAULT_ERRNO, .nth = nth, .code = codes[i]};
			defib_err appended = append(s, i ? "d" : "c"), taken = take(s, 2, why);
			plan.kind = FAULT_NONE;
			failed = appended || taken;
			put(s, i ? "d" : "c"); /* once, whatever became of the first time */
			assert_true(spool_holds(s, "mail", i ? "d" : "c"));
			if (taken)
				assert_int_equal(spool_count(s, "mail", false), 3);
			while (spool_count(s, "mail", false) > 0)
				assert_int_equal(take(s, 1, NULL), DEFIB_OK);
			put(s, i ? "x" : "p");
			put(s, i ? "y" : "q");
		}
		spool_close(s);
		assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
		assert_int_equal(mkdir(folder, 0700), 0);
	}
}

/* Everything that waits can be taken, without a byte of room beside the reserve. */
static void a_full_disk_still_drains(void **state)
{
	(void)state;
	struct spool *s = opened();
	char text[3000];
	int n = 0;
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	for (; n < 700; n++) {
		snprintf(text, 8, "%07d", n);
		text[7] = 'x';
		if (n == 600)
			plan = (typeof(plan)){.kind = FAULT_NO_SPACE};
		if (append(s, text))
			break;
	}
	assert_in_range(n, 600, 699);
	assert_int_equal(append(s, text), DEFIB_FULL);
	assert_true(size_of("reserve") > 0);
	while (spool_count(s, "mail", false) > 0) {
		int64_t left = spool_count(s, "mail", false);
		assert_int_equal(take(s, left < 16 ? (int)left : 16, NULL), DEFIB_OK);
		arena_clear(&arena);
	}
	plan.kind = FAULT_NONE;
	put(s, "again");
	assert_has(s, false, "again ");
	spool_close(s);
}

/* ---- files that others have changed ---- */

static void write_over(const char *name, off_t at, const char *bytes)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(pwrite(fd, bytes, strlen(bytes), at), strlen(bytes));
	close(fd);
}

/* It begins anew, and the old file is still there. */
static void assert_begins_anew(void)
{
	struct spool *s = opened();
	assert_has(s, false, "");
	put(s, "new");
	spool_close(s);
	s = opened();
	assert_has(s, false, "new ");
	assert_int_equal(take(s, 1, NULL), DEFIB_OK);
	spool_close(s);
	glob_t kept;
	assert_int_equal(glob(path_of("damaged-*.db"), 0, NULL, &kept), 0);
	globfree(&kept);
}

static void what_is_no_database_is_kept_under_another_name(void **state)
{
	(void)state;
	write_over("spool.db", 0,
	           "this has never been a database, whatever its name says. Not at all.");
	assert_begins_anew();
}

static void other_sql(const char *sql)
{
	sqlite3 *db;
	assert_int_equal(sqlite3_open(path_of("spool.db"), &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_trigger_of_somebody_else_never_runs(void **state)
{
	(void)state;
	struct spool *s = opened();
	put(s, "a");
	spool_close(s);
	other_sql("CREATE TRIGGER eats AFTER INSERT ON record BEGIN DELETE FROM record; END");
	assert_begins_anew();
}

static void a_changed_record_is_known_and_costs_no_other(void **state)
{
	(void)state;
	struct spool *s = opened();
	struct spool_record all[3];
	put(s, "first");
	put(s, "second");
	put(s, "third");
	spool_close(s);
	other_sql("UPDATE record SET bytes = CAST('sfcond' AS BLOB) WHERE id = 'second'");
	s = opened();
	assert_int_equal(spool_peek(s, "mail", false, all, 3, 1000, &arena), 3);
	assert_false(all[0].damaged || all[2].damaged);
	assert_true(all[1].damaged);
	spool_close(s);
}

static void a_row_of_other_types_is_not_read(void **state)
{
	(void)state;
	static const char *const rows[] = {"-1, 'mail', 0, 'i', '', NULL, x'', 0",
	                                   "9223372036854775807, 'mail', 0, 'i', '', NULL, x'', 0",
	                                   "9, x'6d61696c', 0, 'i', '', NULL, x'', 0",
	                                   "9, 'mail', 'yes', 'i', '', NULL, x'', 0",
	                                   "9, 'mail', 0, x'00', '', NULL, x'', 0",
	                                   "9, 'mail', 0, 'i', x'00', NULL, x'', 0",
	                                   "9, 'mail', 1, 'i', '', x'00ff', x'00ff', 0",
	                                   "9, 'mail', 0, 'i', '', NULL, 12, 0"};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char sql[200];
		struct spool *s = opened();
		put(s, "a");
		spool_close(s);
		snprintf(sql, sizeof sql,
		         "PRAGMA ignore_check_constraints = ON; INSERT INTO record VALUES (%s)", rows[i]);
		other_sql(sql);
		assert_begins_anew();
	}
}

/* ---- a program that we are part of ---- */

static int refuse_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
	(void)vfs, (void)name, (void)flags, (void)out;
	file->pMethods = NULL;
	return SQLITE_CANTOPEN;
}

static void the_vfs_of_a_program_is_not_used(void **state)
{
	(void)state;
	static sqlite3_vfs own;
	own = *sqlite3_vfs_find("unix");
	own.zName = "program";
	own.pNext = NULL;
	own.xOpen = refuse_open;
	assert_int_equal(sqlite3_vfs_register(&own, 1), SQLITE_OK);
	struct spool *s = opened();
	put(s, "a");
	spool_close(s);
	assert_int_equal(sqlite3_vfs_unregister(&own), SQLITE_OK);
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_come_back_in_order_after_a_restart),
		TEST(an_empty_spool_leaves_no_file),
		TEST(the_file_is_private_whatever_the_umask),
		TEST(a_link_is_not_followed),
		TEST(a_folder_has_one_owner),
		TEST(a_forked_child_cannot_touch_it),
		TEST(a_bound_holds_until_something_is_taken),
		TEST(errors_of_the_disk_are_told_and_leave_it_usable),
		TEST(a_full_disk_still_drains),
		TEST(what_is_no_database_is_kept_under_another_name),
		TEST(a_trigger_of_somebody_else_never_runs),
		TEST(a_changed_record_is_known_and_costs_no_other),
		TEST(a_row_of_other_types_is_not_read),
		TEST(the_vfs_of_a_program_is_not_used),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
