/* SPDX-License-Identifier: Apache-2.0
 * database_file_test.c: sessions on files that are replaced, removed and put back under them.
 */
#include "store/database_file.h"

#include "base/log.h"
#include "store/patient_test.h"

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static int replaced, removed, back; /* lines of the log */

static void count_line(void *ctx, const char *level, const char *text)
{
	(void)ctx, (void)level;
	replaced += strstr(text, "the database file was replaced") != NULL;
	removed += strstr(text, "the database file was removed") != NULL;
	back += strstr(text, "the database file is back") != NULL;
}

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/defib-file-XXXXXX");
	replaced = removed = back = 0;
	log_divert(count_line, NULL);
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	log_divert(NULL, NULL);
	database_file_forget();
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *path(const char *file)
{
	static char all[4][128];
	static int next;
	char *out = all[next++ % 4];
	snprintf(out, sizeof all[0], "%s/%s", folder, file);
	return out;
}

static struct session session_on(const char *file, bool create)
{
	static char urls[4][160];
	static int next;
	char *url = urls[next++ % 4];
	snprintf(url, sizeof urls[0], "sqlite:%s", path(file));
	return (struct session){
		.options = patient((struct store_options){.url = url, .name = "main", .create = create}),
		.open = store_open};
}

static void run(const struct session *s, const char *sql)
{
	struct failure f = {0};
	if (store_exec(s->store, sql, NULL, 0, NULL, NULL, &f))
		fail_msg("%s: %s", sql, f.what);
}

/* A database whose only row is `value`. */
static void make(const char *file, int value)
{
	char sql[64];
	AUTO_SESSION s = session_on(file, true);
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	snprintf(sql, sizeof sql, "CREATE TABLE t AS SELECT %d AS x", value);
	run(&s, sql);
}

static int64_t value_in(const struct session *s)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	assert_int_equal(store_exec(s->store, "SELECT x FROM t", NULL, 0, &a, &rows, NULL), DEFIB_OK);
	return row_int(&rows, 0, 0, -1);
}

/* The database with its log and the log's index, as far as they exist. */
static void move(const char *from, const char *to)
{
	static const char *const parts[] = {"", "-wal", "-shm"};
	for (int i = 0; i < 3; i++) {
		char a[160], b[160];
		snprintf(a, sizeof a, "%s%s", path(from), parts[i]);
		snprintf(b, sizeof b, "%s%s", path(to), parts[i]);
		if (rename(a, b) != 0)
			assert_int_equal(errno, ENOENT);
	}
}

static void a_replaced_file_is_opened_again(void **state)
{
	(void)state;
	make("a.db", 1);
	make("b.db", 2);
	AUTO_SESSION s = session_on("a.db", false), t = session_on("a.db", false);
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(session_ready(&t, NULL), DEFIB_OK);
	run(&s, "UPDATE t SET x = 11");
	move("a.db", "old.db");
	move("b.db", "a.db");
	assert_int_equal(value_in(&s), 11); /* nobody told SQLite */
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(value_in(&s), 2);
	assert_int_equal(s.opened, 2);
	assert_int_equal(s.states, 1);
	assert_int_equal(session_ready(&t, NULL), DEFIB_OK);
	assert_int_equal(value_in(&t), 2);
	assert_int_equal(t.states, 1);
	assert_int_equal(replaced, 1);
}

static void a_file_that_stays_is_opened_once(void **state)
{
	(void)state;
	make("a.db", 1);
	AUTO_SESSION s = session_on("a.db", false);
	for (int i = 0; i < 3; i++)
		assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	run(&s, "UPDATE t SET x = 2");
	run(&s, "VACUUM");
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(s.opened, 1);
	assert_int_equal(s.states, 0);
}

/* Its outcome is read again by the caller, who knows of it. */
static void a_session_is_not_closed_within_a_transaction(void **state)
{
	(void)state;
	make("a.db", 1);
	make("b.db", 2);
	AUTO_SESSION s = session_on("a.db", false);
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(store_begin(s.store, TX_WRITE, NULL), DEFIB_OK);
	move("a.db", "old.db");
	move("b.db", "a.db");
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(s.opened, 1);
	store_rollback(s.store);
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(s.opened, 2);
}

static void a_removed_file_is_not_made_anew(void **state)
{
	(void)state;
	struct failure f = {0};
	make("a.db", 1);
	AUTO_SESSION s = session_on("a.db", true), t = session_on("a.db", true);
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(session_ready(&t, NULL), DEFIB_OK);
	move("a.db", "away.db");
	for (int i = 0; i < 2; i++) {
		fail_clear(&f);
		assert_int_equal(session_ready(&s, &f), DEFIB_CONNECTION);
		assert_non_null(strstr(f.what, "no such file"));
		assert_int_equal(session_ready(&t, NULL), DEFIB_CONNECTION);
	}
	assert_int_equal(access(path("a.db"), F_OK), -1);
	assert_int_equal(removed, 1);
	/* It is the same one: nothing that was written is missing. */
	move("away.db", "a.db");
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(session_ready(&t, NULL), DEFIB_OK);
	assert_int_equal(value_in(&s), 1);
	assert_int_equal(s.states, 0);
	assert_int_equal(replaced, 0);
	assert_int_equal(back, 1);
}

static void another_file_in_the_place_of_a_removed_one_is_another_state(void **state)
{
	(void)state;
	make("a.db", 1);
	AUTO_SESSION s = session_on("a.db", false);
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	move("a.db", "away.db");
	assert_int_equal(session_ready(&s, NULL), DEFIB_CONNECTION);
	/* Its inode may well be that of the old one, which nobody has open any more. */
	assert_int_equal(unlink(path("away.db")), 0);
	make("a.db", 2);
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(s.states, 1);
	assert_int_equal(replaced, 1);
}

/* SQLite would apply it to the new file. */
static void the_log_of_the_old_file_is_never_applied_to_the_new_one(void **state)
{
	(void)state;
	struct failure f = {0};
	make("a.db", 1);
	make("b.db", 2);
	AUTO_SESSION s = session_on("a.db", false), t = session_on("a.db", false);
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	run(&s, "UPDATE t SET x = 11");
	assert_int_equal(rename(path("b.db"), path("a.db")), 0);
	assert_int_equal(session_ready(&s, &f), DEFIB_CONNECTION);
	assert_non_null(strstr(f.what, "belong to the file before"));
	assert_non_null(strstr(f.next, "a.db-wal and"));
	assert_int_equal(session_ready(&t, NULL), DEFIB_CONNECTION);
	assert_int_equal(unlink(path("a.db-wal")), 0);
	assert_int_equal(session_ready(&t, NULL), DEFIB_CONNECTION); /* the index of the log */
	assert_int_equal(unlink(path("a.db-shm")), 0);
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(value_in(&s), 2);
	assert_int_equal(s.states, 1);
	assert_int_equal(session_ready(&t, NULL), DEFIB_OK);
	assert_int_equal(value_in(&t), 2);
}

static void a_path_stays_the_same_file_after_a_change_of_the_directory(void **state)
{
	(void)state;
	char *was = getcwd(NULL, 0);
	make("a.db", 1);
	assert_int_equal(chdir(folder), 0);
	AUTO_SESSION s = {.options = patient((struct store_options){.url = "sqlite:a.db"}),
	                  .open = store_open};
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(s.opened, 1);
	assert_int_equal(chdir(was), 0);
	free(was);
}

/* ---- states of any engine ---- */

static struct store_state next_state;

static defib_err open_in_state(const struct store_options *o, struct store **out, struct failure *f)
{
	struct store_options memory = *o;
	memory.url = "sqlite::memory:";
	defib_err err = store_open(&memory, out, f);
	if (!err)
		(*out)->state = next_state;
	return err;
}

static void open_again(struct session *s, uint64_t where, uint64_t what)
{
	next_state = (struct store_state){where, what, 0};
	if (s->store)
		s->store->lost = true;
	assert_int_equal(session_ready(s, NULL), DEFIB_OK);
}

static void states_are_counted_and_an_unknown_one_is_none(void **state)
{
	(void)state;
	AUTO_SESSION s = {.open = open_in_state};
	open_again(&s, 7, 1);
	open_again(&s, 7, 1);
	assert_int_equal(s.states, 0);
	open_again(&s, 0, 0); /* a standby: its timeline cannot be read */
	assert_int_equal(s.states, 0);
	open_again(&s, 7, 1);
	assert_int_equal(s.states, 0);
	open_again(&s, 0, 0);
	open_again(&s, 7, 2);
	assert_int_equal(s.states, 1);
	open_again(&s, 8, 2);
	assert_int_equal(s.states, 2);
	session_rest(&s);
	open_again(&s, 8, 3);
	assert_int_equal(s.states, 3);
}

static void an_inode_that_was_given_again_is_another_file(void **state)
{
	static const struct store_state first = {1, 2, 30}, second = {1, 2, 31}, other = {2, 2, 30},
									not_told = {1, 2, 0}, unknown = {0};
	(void)state;
	assert_true(store_state_is_another(&first, &second));
	assert_true(store_state_is_another(&first, &other));
	assert_false(store_state_is_another(&first, &first));
	assert_false(store_state_is_another(&first, &not_told));
	assert_false(store_state_is_another(&first, &unknown));
	assert_false(store_state_is_another(&unknown, &first));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_replaced_file_is_opened_again),
		TEST(a_file_that_stays_is_opened_once),
		TEST(a_session_is_not_closed_within_a_transaction),
		TEST(a_removed_file_is_not_made_anew),
		TEST(another_file_in_the_place_of_a_removed_one_is_another_state),
		TEST(the_log_of_the_old_file_is_never_applied_to_the_new_one),
		TEST(a_path_stays_the_same_file_after_a_change_of_the_directory),
		TEST(states_are_counted_and_an_unknown_one_is_none),
		TEST(an_inode_that_was_given_again_is_another_file),
	};
	return cmocka_run_group_tests_name("store/database_file", tests, NULL, NULL);
}
