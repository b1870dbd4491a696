/* SPDX-License-Identifier: Apache-2.0
 * bind_test.c: what an SQLite database says about a watch: types of time read
 * off the values, and mistakes named by option and place.
 */
#include "watch/bind.h"

#include "store/patient_test.h"
#include "watch/compile.h"
#include "watch/compile_write.h"
#include "watch/watch_test.h"

#include <unistd.h>

#define BASE "table: jobs\nkey: id\nrunning: status = 'running'\n"
#define PLAIN BASE "alive_at: at\nstuck_after: 1h\n"

static char dir[64], url[128];
static struct store *store;
static struct arena arena;
static struct reading reading;

static void run(const char *sql)
{
	struct failure f = {0};
	if (store_exec(store, sql, NULL, 0, &arena, NULL, &f))
		fail_msg("%s", f.what);
}

static int open_all(void **state)
{
	struct store_options opt =
		patient((struct store_options){.url = url, .name = "main", .create = true});
	(void)state;
	snprintf(dir, sizeof dir, "/tmp/defib-bind-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(url, sizeof url, "sqlite:%s/b.db", dir);
	if (store_open(&opt, &store, NULL))
		return -1;
	run("CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, at, domain TEXT)");
	return 0;
}

static int close_all(void **state)
{
	static const char *const files[] = {"b.db", "b.db-wal", "b.db-shm"};
	char path[96];
	(void)state;
	store_close(store);
	reading_release(&reading);
	arena_release(&arena);
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, files[i]);
		unlink(path);
	}
	return rmdir(dir);
}

static defib_err bind(const char *keys, struct binding *b, struct failure *f)
{
	reading_release(&reading);
	reading_open_watch(&reading, url, keys);
	return watch_bind(only_watch(&reading), store, &arena, b, f);
}

static void assert_refused(const char *keys, const char *what, const char *next)
{
	struct binding b;
	struct failure f = {0};
	assert_int_equal(bind(keys, &b, &f), DEFIB_CONFIG);
	if (!strstr(f.what, what) || !strstr(f.next, next))
		fail_msg("said: %s; %s", f.what, f.next);
}

static void a_missing_table_is_named_with_the_nearest(void **state)
{
	(void)state;
	assert_refused("table: jbos\nkey: id\nrunning: a\nexpires_at: b\n",
	               "watch pages: there is no table \"jbos\" in database main", "\"jobs\"");
}

static void a_missing_key_column_is_named_with_the_nearest(void **state)
{
	(void)state;
	assert_refused("table: jobs\nkey: ids\nrunning: a\nexpires_at: b\n",
	               "no column \"ids\" for key", "did you mean \"id\"?");
}

static void a_missing_column_to_show_is_named(void **state)
{
	(void)state;
	assert_refused(PLAIN "show: [domian]\n", "no column \"domian\" for show", "");
}

static void a_wrong_expression_is_named_by_option_and_place(void **state)
{
	(void)state;
	assert_refused(PLAIN "owner: wroker\n", "watch pages, owner (t.yaml:9:12)", "");
	assert_refused(BASE "alive_at: att\nstuck_after: 1h\n", "watch pages, alive_at (t.yaml:7:15)",
	               "");
	assert_refused(PLAIN "remedies: [{when: x = 1, do: report}]\n", "remedies.when", "");
}

static void assert_time(const char *value, enum time_type time, bool iso_t)
{
	struct binding b;
	struct failure f = {0};
	struct buf sql = BUF_INIT;
	run("DELETE FROM jobs");
	buf_addf(&sql, "INSERT INTO jobs (status, at) VALUES ('running', NULL), ('running', %s)",
	         value);
	run(buf_text(&sql));
	buf_release(&sql);
	if (bind(PLAIN, &b, &f))
		fail_msg("%s", f.what);
	assert_int_equal(b.sign_time[SIGN_ALIVE], time);
	assert_int_equal(b.time, time);
	assert_int_equal(b.iso_t, iso_t);
}

static void a_value_of_the_table_tells_how_it_writes_time(void **state)
{
	(void)state;
	assert_time("'2026-01-02 03:04:05'", TIME_TYPE_TEXT, false);
	assert_time("'2026-01-02T03:04:05.000Z'", TIME_TYPE_TEXT, true);
	assert_time("1767323045", TIME_TYPE_EPOCH, false);
	assert_time("1767323045.25", TIME_TYPE_EPOCH, false);
	assert_time("1767323045000", TIME_TYPE_EPOCH_MS, false);
	assert_time("NULL", TIME_TYPE_TEXT, false);
}

static void a_time_type_that_is_given_is_not_guessed(void **state)
{
	struct binding b;
	struct failure f = {0};
	(void)state;
	run("DELETE FROM jobs");
	assert_int_equal(bind(PLAIN "time_type: epoch_ms\n", &b, &f), DEFIB_OK);
	assert_int_equal(b.sign_time[SIGN_ALIVE], TIME_TYPE_EPOCH_MS);
}

static void the_laravel_preset_fits_its_tables(void **state)
{
	struct binding b;
	struct watch_sql sql;
	struct failure f = {0};
	(void)state;
	run("ALTER TABLE jobs RENAME TO plain_jobs");
	run("CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, payload TEXT NOT NULL, "
	    "attempts INTEGER NOT NULL, reserved_at INTEGER, available_at INTEGER NOT NULL, "
	    "created_at INTEGER NOT NULL)");
	run("CREATE TABLE failed_jobs (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, "
	    "connection TEXT NOT NULL, queue TEXT NOT NULL, payload TEXT NOT NULL, "
	    "exception TEXT NOT NULL, failed_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)");
	defib_err err = bind("preset: laravel\n", &b, &f);
	if (!err)
		err = watch_compile(&b, &arena, &sql, &f);
	if (!err)
		err = watch_prepare(&sql, store, &arena, &f);
	if (err)
		fail_msg("%s", f.what);
	run("DROP TABLE jobs");
	run("ALTER TABLE plain_jobs RENAME TO jobs");
}

static void a_statement_that_the_database_refuses_is_named_by_its_remedy(void **state)
{
	struct binding b;
	struct watch_sql sql;
	struct failure f = {0};
	(void)state;
	assert_int_equal(bind(PLAIN "requeue: nothing = 1\n", &b, &f), DEFIB_OK);
	assert_int_equal(watch_compile(&b, &arena, &sql, &f), DEFIB_OK);
	assert_int_equal(watch_prepare(&sql, store, &arena, &f), DEFIB_CONFIG);
	assert_non_null(strstr(f.what, "watch pages, requeue (t.yaml:9:14)"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_missing_table_is_named_with_the_nearest),
		cmocka_unit_test(a_missing_key_column_is_named_with_the_nearest),
		cmocka_unit_test(a_missing_column_to_show_is_named),
		cmocka_unit_test(a_wrong_expression_is_named_by_option_and_place),
		cmocka_unit_test(a_value_of_the_table_tells_how_it_writes_time),
		cmocka_unit_test(a_time_type_that_is_given_is_not_guessed),
		cmocka_unit_test(the_laravel_preset_fits_its_tables),
		cmocka_unit_test(a_statement_that_the_database_refuses_is_named_by_its_remedy),
	};
	return cmocka_run_group_tests(tests, open_all, close_all);
}
