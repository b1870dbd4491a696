/* SPDX-License-Identifier: Apache-2.0 */
/* spool_test.c: a spool keeps what it acknowledged, in order, on disks that fail and in files that
 * others have changed. */
#include "store/spool_test.h"

#include <fcntl.h>
#include <glob.h>
#include <sqlite3.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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
	struct failure f = {0};
	assert_int_equal(spool_peek(s, "mail", false, all, n, 1 << 20, &arena), n);
	return spool_finish(s, "mail", all, n, why, &f);
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

static void any_bytes_are_a_record(void **state)
{
	(void)state;
	char bytes[70000];
	struct spool_record got[2];
	struct failure f = {0};
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (char)i;
	const struct spool_record all[] = {
		{.id = "many", .database = "base", .bytes = bytes, .n = sizeof bytes},
		{.id = "none", .database = "", .bytes = ""}};
	struct spool *s = opened();
	assert_int_equal(spool_append(s, "mail", all, 2, &f), DEFIB_OK);
	spool_close(s);
	s = opened();
	assert_int_equal(spool_peek(s, "mail", false, got, 2, sizeof bytes, &arena), 2);
	assert_int_equal(got[0].n, sizeof bytes);
	assert_memory_equal(got[0].bytes, bytes, sizeof bytes);
	assert_int_equal(got[1].n, 0);
	assert_false(got[0].damaged || got[1].damaged);
	spool_close(s);
}

static void an_append_between_peek_and_take_changes_nothing(void **state)
{
	(void)state;
	struct spool_record one;
	struct failure f = {0};
	struct spool *s = opened();
	put(s, "one");
	assert_int_equal(spool_peek(s, "mail", false, &one, 1, 100, &arena), 1);
	put(s, "two");
	assert_int_equal(spool_finish(s, "mail", &one, 1, NULL, &f), DEFIB_OK);
	assert_has(s, false, "two ");
	spool_close(s);
}

/* Also of those that were stored before it was opened, and of one call. */
static void a_second_record_of_an_id_is_not_stored(void **state)
{
	(void)state;
	struct failure f = {0};
	const struct spool_record again = {.id = "a", .database = "base", .bytes = "other", .n = 5};
	const struct spool_record twice[] = {{.id = "b", .database = "base", .bytes = "b", .n = 1},
	                                     {.id = "b", .database = "base", .bytes = "c", .n = 1}};
	struct spool *s = opened();
	put(s, "a");
	spool_close(s);
	s = opened();
	assert_int_equal(spool_append(s, "mail", &again, 1, &f), DEFIB_OK);
	assert_int_equal(spool_append(s, "mail", twice, 2, &f), DEFIB_OK);
	assert_has(s, false, "a b ");
	assert_int_equal(spool_append(s, "rooms", &again, 1, &f), DEFIB_OK);
	assert_int_equal(spool_count(s, "rooms", false), 1);
	assert_int_equal(take(s, 1, NULL), DEFIB_OK);
	put(s, "a");
	assert_has(s, false, "b a ");
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

static void missing_folders_are_made_private(void **state)
{
	(void)state;
	char deep[128];
	struct stat st;
	struct spool *s;
	snprintf(deep, sizeof deep, "%s/a/b/c", folder);
	struct spool_options o = {.folder = deep};
	assert_int_equal(spool_open(&o, &s, NULL), DEFIB_OK);
	assert_int_equal(stat(deep, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	spool_close(s);
}

static void assert_refused(const char *path, defib_err err, const char *why)
{
	struct spool *s;
	struct failure f = {0};
	struct spool_options o = {.folder = path};
	assert_int_equal(spool_open(&o, &s, &f), err);
	assert_null(s);
	assert_non_null(strstr(f.what, why));
}

static void a_folder_of_others_is_refused(void **state)
{
	(void)state;
	char link[128], slash[130], shared[128];
	snprintf(link, sizeof link, "%s/link", folder);
	snprintf(slash, sizeof slash, "%s/", link);
	snprintf(shared, sizeof shared, "%s/shared", folder);
	assert_int_equal(symlink(folder, link), 0);
	assert_int_equal(mkdir(shared, 0700), 0);
	assert_refused(link, DEFIB_CONFIG, "symbolic link");
	assert_refused(slash, DEFIB_CONFIG, "symbolic link");
	assert_int_equal(chmod(shared, 0777), 0);
	assert_refused(shared, DEFIB_CONFIG, "every user");
	assert_int_equal(chmod(shared, 0770), 0);
	assert_refused(shared, DEFIB_CONFIG, "its group");
	if (geteuid() == 0) {
		assert_int_equal(chmod(shared, 0700), 0);
		assert_int_equal(chown(shared, 65534, 65534), 0);
		assert_refused(shared, DEFIB_CONFIG, "another user");
	}
}

static void what_is_no_folder_is_an_error(void **state)
{
	(void)state;
	assert_refused("/dev/null/x", DEFIB_IO, "/dev/null/x");
}

static void a_network_file_system_is_refused(void **state)
{
	(void)state;
	plan.file_system = 0x6969;
	assert_refused(folder, DEFIB_CONFIG, "network file system (NFS)");
	plan.file_system = 0;
	spool_close(opened());
}

/* When a result must be stored, there may be no descriptor left. */
static void an_open_spool_needs_no_descriptor(void **state)
{
	(void)state;
	struct rlimit before, none;
	static const char *const why[] = {"not yours", NULL};
	char text[3000];
	struct spool *s = opened();
	put(s, "a");
	spool_close(s);
	s = opened();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	for (int i = 0; i < 1500; i++) { /* more than the log has room for */
		snprintf(text, 8, "%07d", i);
		text[7] = 'x';
		put(s, text);
	}
	assert_int_equal(take(s, 2, why), DEFIB_OK);
	for (int i = 0; i < 1499; i++) {
		assert_int_equal(take(s, 1, NULL), DEFIB_OK);
		arena_clear(&arena);
	}
	assert_has(s, true, "a ");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	spool_close(s);
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

static void the_file_stays_small_though_never_empty(void **state)
{
	(void)state;
	static char big[200000];
	struct failure f = {0};
	struct spool *s = opened();
	for (int i = 0; i < 100; i++) {
		char id[8];
		snprintf(id, sizeof id, "%d", i);
		struct spool_record r = {.id = id, .database = "", .bytes = big, .n = sizeof big}, old;
		memset(big, i, sizeof big);
		assert_int_equal(spool_append(s, "mail", &r, 1, &f), DEFIB_OK);
		if (i > 0) {
			assert_int_equal(spool_peek(s, "mail", false, &old, 1, 1, &arena), 1);
			assert_int_equal(old.bytes[0], i - 1);
			assert_int_equal(spool_finish(s, "mail", &old, 1, NULL, &f), DEFIB_OK);
		}
		arena_clear(&arena);
		assert_true(size_of("spool.db") + size_of("spool.db-wal") < 5000000);
	}
	assert_int_equal(spool_count(s, "mail", false), 1);
	spool_close(s);
}

static void a_large_file_shrinks_once_it_is_empty(void **state)
{
	(void)state;
	static char big[300000];
	struct failure f = {0};
	struct spool *s = opened();
	memset(big, 'x', sizeof big);
	for (int i = 0; i < 40; i++) {
		char id[8];
		snprintf(id, sizeof id, "%d", i);
		struct spool_record r = {.id = id, .database = "", .bytes = big, .n = sizeof big};
		assert_int_equal(spool_append(s, "mail", &r, 1, &f), DEFIB_OK);
	}
	assert_true(size_of("spool.db") > 8000000);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(take(s, 1, NULL), DEFIB_OK);
		arena_clear(&arena);
	}
	assert_true(size_of("spool.db") < 100000);
	put(s, "again");
	spool_close(s);
	s = opened();
	assert_has(s, false, "again ");
	spool_close(s);
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
	for (; n < 2000; n++) { /* until the log has no room either */
		snprintf(text, 8, "%07d", n);
		text[7] = 'x';
		if (n == 600)
			plan = (typeof(plan)){.kind = FAULT_NO_SPACE};
		if (append(s, text))
			break;
	}
	assert_in_range(n, 600, 1999);
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

/* ---- opened for moments ---- */

static struct spool *opened_briefly(void)
{
	struct spool_options o = {.folder = folder, .brief = true};
	struct spool *s;
	struct failure f = {0};
	if (spool_open(&o, &s, &f) != DEFIB_OK)
		fail_msg("%s", f.what);
	return s;
}

static void what_was_stored_in_moments_is_there_and_its_log_is_small(void **state)
{
	(void)state;
	char text[8];
	struct spool *s;
	for (int i = 0; i < 300; i++) {
		s = opened_briefly();
		snprintf(text, sizeof text, "%d", i);
		put(s, text);
		spool_close(s);
		assert_true(size_of("spool.db-wal") < 300000);
	}
	s = opened();
	assert_int_equal(spool_count(s, "mail", false), 300);
	for (int i = 0; i < 300; i++) {
		struct spool_record one;
		struct failure f = {0};
		snprintf(text, sizeof text, "%d", i);
		assert_int_equal(spool_peek(s, "mail", false, &one, 1, 100, &arena), 1);
		assert_string_equal(one.id, text);
		assert_int_equal(spool_finish(s, "mail", &one, 1, NULL, &f), DEFIB_OK);
	}
	spool_close(s);
	assert_false(spool_waits(folder));
}

/* ---- files that others have changed ---- */

static void write_over(const char *name, off_t at, const char *bytes)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(syscall(SYS_pwrite64, fd, bytes, strlen(bytes), at), strlen(bytes));
	close(fd);
}

static void flip(const char *name, off_t at)
{
	unsigned char byte;
	int fd = open(path_of(name), O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 4;
	assert_int_equal(syscall(SYS_pwrite64, fd, &byte, 1, at), 1);
	close(fd);
}

static int damaged_files(void)
{
	glob_t kept;
	int n = glob(path_of("damaged-*.db"), 0, NULL, &kept) == 0 ? (int)kept.gl_pathc : 0;
	if (n)
		globfree(&kept);
	return n;
}

/* It goes on with what could be read, and the old file is still there. */
static void assert_goes_on(const char *texts)
{
	char with_new[64];
	snprintf(with_new, sizeof with_new, "%snew ", texts);
	struct spool *s = opened();
	assert_has(s, false, texts);
	put(s, "new");
	spool_close(s);
	s = opened();
	assert_has(s, false, with_new);
	while (spool_count(s, "mail", false) > 0)
		assert_int_equal(take(s, 1, NULL), DEFIB_OK);
	spool_close(s);
	assert_int_equal(damaged_files(), 1);
	assert_int_equal(size_of("damaged.db"), -1);
}

static void begin_again(void)
{
	assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
	assert_int_equal(mkdir(folder, 0700), 0);
}

static void what_is_no_database_is_kept_under_another_name(void **state)
{
	(void)state;
	write_over("spool.db", 0,
	           "this has never been a database, whatever its name says. Not at all.");
	assert_goes_on("");
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
	assert_goes_on("a ");
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

/* It stands for other bytes, or for other jobs. */
static void a_record_of_another_lane_database_or_id_is_known(void **state)
{
	(void)state;
	static const char *const changes[] = {
		"UPDATE lane SET name = 'nail'",
		"UPDATE record SET database = 'bare'",
		"UPDATE record SET id = 'b'",
		"INSERT INTO lane VALUES (9, 'other'); UPDATE record SET number = (9 << 48) + 1",
		"UPDATE record SET number = number + 70",
	};
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		struct spool_record one;
		struct spool *s = opened();
		put(s, "a");
		spool_close(s);
		other_sql(changes[i]);
		s = opened();
		assert_int_equal(spool_peek(s, spool_lane(s, 0), false, &one, 1, 100, &arena), 1);
		assert_true(one.damaged);
		spool_close(s);
		begin_again();
	}
}

/* Behind it there is no place: it is left in the damaged file. */
static void a_record_in_the_last_place_keeps_no_other_out(void **state)
{
	(void)state;
	for (int aside = 0; aside < 2; aside++) {
		struct spool *s = opened();
		put(s, "a");
		put(s, "b");
		spool_close(s);
		other_sql(aside ? "UPDATE record SET number = (1 << 48) + (1 << 48) - 1 WHERE id = 'b'"
		                : "UPDATE record SET number = (1 << 48) + (1 << 47) - 1 WHERE id = 'b'");
		s = opened();
		put(s, "c");
		assert_has(s, false, "a c ");
		assert_has(s, true, "");
		assert_int_equal(damaged_files(), 1);
		spool_close(s);
		begin_again();
	}
}

static void a_row_of_other_types_is_not_read(void **state)
{
	(void)state;
	static const char *const rows[] = {"-1, 'i', '', NULL, 0, x''",
	                                   "9223372036854775807, 'i', '', NULL, 0, x''",
	                                   "9, 'i', '', NULL, 0, x''",
	                                   "(1 << 48) + 9, x'00', '', NULL, 0, x''",
	                                   "(1 << 48) + 9, 'i', 'x', x'00ff', 0, x''",
	                                   "(1 << 48) + 9, 'i', x'00', NULL, 0, x''",
	                                   "(1 << 48) + 9, 'i', '', NULL, 'x', x''",
	                                   "(1 << 48) + 9, 'i', '', NULL, 0, 12"};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char sql[400];
		struct spool *s = opened();
		put(s, "a");
		spool_close(s);
		/* As if the table were not STRICT. */
		snprintf(sql, sizeof sql,
		         "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, ' "
		         "STRICT', '') WHERE name = 'record'; PRAGMA writable_schema = RESET; "
		         "INSERT INTO record VALUES (%s); PRAGMA writable_schema = ON; UPDATE "
		         "sqlite_master SET sql = sql || ' STRICT' WHERE name = 'record'",
		         rows[i]);
		other_sql(sql);
		assert_goes_on("a ");
		begin_again();
	}
}

#define FEW 60
#define PAGE 2048
#define ON_A_PAGE 4 /* of these records */

/* Sixty records on several pages, all in the file. */
static void put_sixty(struct spool *s)
{
	char text[400], id[8];
	struct failure f = {0};
	for (int i = 0; i < FEW; i++) {
		snprintf(text, sizeof text, "%02d-", i);
		memset(text + 3, 'a' + i % 26, 396);
		text[399] = '\0';
		snprintf(id, sizeof id, "%d", i);
		const struct spool_record r = {.id = id, .database = "base", .bytes = text, .n = 399};
		assert_int_equal(spool_append(s, "mail", &r, 1, &f), DEFIB_OK);
	}
}

static void sixty(void)
{
	struct spool *s = opened();
	put_sixty(s);
	spool_close(s);
}

/* The file of sixty records, written again without a sync of each. */
static void sixty_again(void)
{
	static char file[100000];
	static ssize_t n;
	if (n == 0) {
		sixty();
		int fd = open(path_of("spool.db"), O_RDONLY | O_CLOEXEC);
		n = read(fd, file, sizeof file);
		assert_in_range(n, 20000, sizeof file - 1);
		close(fd);
	}
	begin_again();
	int fd = open(path_of("spool.db"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, file, (size_t)n), n);
	close(fd);
}

/* Those that are there, in order, none twice, and none that was never stored. */
static int good_ones(struct spool *s)
{
	struct spool_record all[FEW + 1];
	int n = spool_peek(s, "mail", false, all, FEW + 1, 1 << 20, &arena), good = 0, before = -1;
	for (int i = 0; i < n; i++) {
		if (all[i].damaged)
			continue;
		int64_t number = strtol(all[i].bytes, NULL, 10);
		assert_true(all[i].n == 399 && number > before && number < FEW);
		assert_true(all[i].bytes[3] == 'a' + number % 26 && all[i].bytes[398] == all[i].bytes[3]);
		before = (int)number;
		good++;
	}
	arena_clear(&arena);
	return good;
}

/* A bit in the head of a page costs its records, one in a record only that one. */
static void a_flipped_bit_anywhere_costs_at_most_its_page(void **state)
{
	(void)state;
	sixty_again();
	off_t size = size_of("spool.db");
	int intact = 0, one_less = 0;
	for (off_t at = 0; at < size; at += 61) {
		sixty_again();
		flip("spool.db", at);
		struct spool *s = opened();
		int good = good_ones(s);
		/* The first pages say where all others are. */
		if (at >= 3 * PAGE)
			assert_true(good >= FEW - ON_A_PAGE);
		intact += good == FEW;
		one_less += good == FEW - 1;
		put(s, "new");
		assert_true(spool_holds(s, "mail", "new"));
		spool_close(s);
	}
	assert_true(one_less > intact);
}

static void a_file_cut_anywhere_keeps_what_is_before(void **state)
{
	(void)state;
	sixty_again();
	off_t size = size_of("spool.db");
	for (off_t cut = 0; cut <= size; cut += 509) {
		sixty_again();
		assert_int_equal(truncate(path_of("spool.db"), cut), 0);
		struct spool *s = opened();
		int good = good_ones(s);
		if (cut > 3 * PAGE)
			assert_true(good >= (cut / PAGE - 4) * ON_A_PAGE);
		put(s, "new");
		assert_true(spool_holds(s, "mail", "new"));
		spool_close(s);
	}
}

static pid_t child_that(void (*runs)(void))
{
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		runs();
		_exit(0);
	}
	return pid;
}

static void put_sixty_and_die(void)
{
	put_sixty(opened());
	raise(SIGKILL);
}

/* What was written last may be missing, as after a crash of a disk that lied; nothing else is. */
static void a_log_cut_anywhere_keeps_what_is_before(void **state)
{
	(void)state;
	int before = 0;
	for (off_t cut = 0; before < FEW; cut += 4999) {
		int status;
		assert_int_equal(waitpid(child_that(put_sixty_and_die), &status, 0) > 0, true);
		assert_int_equal(truncate(path_of("spool.db-wal"), cut), 0);
		struct spool *s = opened();
		int good = good_ones(s);
		assert_true(good >= before);
		before = good;
		put(s, "new");
		spool_close(s);
		assert_int_equal(damaged_files(), 0);
		begin_again();
	}
}

static void open_and_close(void)
{
	spool_close(opened());
}

/* The damaged one is set aside and read in steps; each may be the last. */
static void a_death_while_it_is_mended_loses_nothing(void **state)
{
	(void)state;
	static const enum fault kinds[] = {FAULT_KILL_BEFORE, FAULT_KILL_HALFWAY, FAULT_KILL_AFTER};
	int deaths = 0;
	for (size_t k = 0; k < 3; k++) {
		int status = 1;
		for (int nth = 1; status; nth++) {
			sixty_again();
			flip("spool.db", 3 * PAGE); /* the head of a page with records */
			plan = (typeof(plan)){.kind = kinds[k], .nth = nth};
			pid_t pid = child_that(open_and_close);
			plan.kind = FAULT_NONE;
			assert_int_equal(waitpid(pid, &status, 0), pid);
			deaths += status != 0;
			struct spool *s = opened();
			assert_int_equal(good_ones(s), FEW - ON_A_PAGE);
			spool_close(s);
			assert_int_equal(damaged_files(), 1);
		}
	}
	assert_true(deaths > 30);
}

static void a_damaged_spool_on_a_full_disk_is_not_opened_and_loses_nothing(void **state)
{
	(void)state;
	struct spool_options o = {.folder = folder};
	int failures = 0;
	for (int nth = 1; nth < 100; nth++) {
		struct spool *s = NULL;
		struct failure f = {0};
		sixty_again();
		flip("spool.db", 3 * PAGE);
		plan = (typeof(plan)){.kind = FAULT_ERRNO, .nth = nth, .code = ENOSPC};
		defib_err err = spool_open(&o, &s, &f);
		bool failed = err != DEFIB_OK;
		failures += failed;
		plan.kind = FAULT_NONE;
		/* SQLite does not say why a sync failed. */
		assert_true(!failed || err == DEFIB_FULL || err == DEFIB_IO);
		if (!s)
			s = opened();
		assert_int_equal(good_ones(s), FEW - ON_A_PAGE);
		spool_close(s);
		begin_again();
	}
	assert_true(failures > 3);
}

static void damage_after_the_opening_costs_its_page(void **state)
{
	(void)state;
	char text[3000];
	struct spool *s = opened();
	int n = 0, found = 0;
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	for (int i = 0; i < 3000; i++) { /* more than SQLite keeps in memory */
		snprintf(text, 8, "%07d", i);
		text[7] = 'x';
		put(s, text);
	}
	/* In the middle of the file, whatever is there. */
	for (off_t at = 0; at < PAGE; at += 64)
		write_over("spool.db", size_of("spool.db") / 2 / PAGE * PAGE + at, "damage");
	for (int tries = 0; spool_count(s, "mail", false) > 0 && tries < 4000; tries++) {
		struct spool_record one;
		struct failure f = {0};
		n = spool_peek(s, "mail", false, &one, 1, 100, &arena);
		if (n == 1 && spool_finish(s, "mail", &one, 1, NULL, &f) == DEFIB_OK)
			found += !one.damaged;
		arena_clear(&arena);
	}
	assert_in_range(found, 2990, 2999);
	assert_int_equal(spool_count(s, "mail", false), 0);
	put(s, "new");
	assert_has(s, false, "new ");
	spool_close(s);
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
		TEST(any_bytes_are_a_record),
		TEST(an_append_between_peek_and_take_changes_nothing),
		TEST(a_second_record_of_an_id_is_not_stored),
		TEST(an_empty_spool_leaves_no_file),
		TEST(the_file_is_private_whatever_the_umask),
		TEST(a_link_is_not_followed),
		TEST(a_folder_has_one_owner),
		TEST(missing_folders_are_made_private),
		TEST(a_folder_of_others_is_refused),
		TEST(what_is_no_folder_is_an_error),
		TEST(a_network_file_system_is_refused),
		TEST(an_open_spool_needs_no_descriptor),
		TEST(a_forked_child_cannot_touch_it),
		TEST(a_bound_holds_until_something_is_taken),
		TEST(errors_of_the_disk_are_told_and_leave_it_usable),
		TEST(the_file_stays_small_though_never_empty),
		TEST(a_large_file_shrinks_once_it_is_empty),
		TEST(a_full_disk_still_drains),
		TEST(what_was_stored_in_moments_is_there_and_its_log_is_small),
		TEST(what_is_no_database_is_kept_under_another_name),
		TEST(a_trigger_of_somebody_else_never_runs),
		TEST(a_changed_record_is_known_and_costs_no_other),
		TEST(a_record_of_another_lane_database_or_id_is_known),
		TEST(a_record_in_the_last_place_keeps_no_other_out),
		TEST(a_row_of_other_types_is_not_read),
		TEST(a_flipped_bit_anywhere_costs_at_most_its_page),
		TEST(a_file_cut_anywhere_keeps_what_is_before),
		TEST(a_log_cut_anywhere_keeps_what_is_before),
		TEST(a_death_while_it_is_mended_loses_nothing),
		TEST(a_damaged_spool_on_a_full_disk_is_not_opened_and_loses_nothing),
		TEST(damage_after_the_opening_costs_its_page),
		TEST(the_vfs_of_a_program_is_not_used),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
