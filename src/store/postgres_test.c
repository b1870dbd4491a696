/* SPDX-License-Identifier: Apache-2.0
 * postgres_test.c: a session with a real server, named by DEFIB_TEST_PG.
 */
#include "store/store_test.h"

static struct store *admin; /* NULL without a server */

static void need_server(void)
{
	need_env("DEFIB_TEST_PG");
}

static pid_t backend_of(struct store *s)
{
	return (pid_t)number(s, "SELECT pg_backend_pid()");
}

/* Waits for its end: pg_terminate_backend() does that itself only since PostgreSQL 14. */
static void terminate(struct store *s)
{
	char sql[96];
	int backend = (int)backend_of(s);
	snprintf(sql, sizeof(sql), "SELECT pg_terminate_backend(%d)::int", backend);
	assert_int_equal(number(admin, sql), 1);
	snprintf(sql, sizeof(sql), "SELECT count(*) FROM pg_stat_activity WHERE pid = %d", backend);
	EVENTUALLY(number(admin, sql) == 0);
}

static int open_admin(void **state)
{
	(void)state;
	if (getenv("DEFIB_TEST_PG")) {
		admin = open_plain();
		assert_int_equal(run(admin, "DROP SCHEMA IF EXISTS store_test CASCADE", NULL), DEFIB_OK);
		assert_int_equal(run(admin, "CREATE SCHEMA store_test", NULL), DEFIB_OK);
		assert_int_equal(
			run(admin, "CREATE TABLE store_test.t (id int PRIMARY KEY, note text)", NULL),
			DEFIB_OK);
		assert_int_equal(run(admin,
		                     "CREATE VIEW store_test.checked AS SELECT * FROM store_test.t "
		                     "WHERE id > 0 WITH CHECK OPTION",
		                     NULL),
		                 DEFIB_OK);
	}
	return 0;
}

static int close_admin(void **state)
{
	(void)state;
	if (admin) {
		assert_int_equal(run(admin, "DROP SCHEMA store_test CASCADE", NULL), DEFIB_OK);
		store_close(admin);
	}
	return 0;
}

static int64_t rows_in_t(void)
{
	return number(admin, "SELECT count(*) FROM store_test.t");
}

static int empty_t(void **state)
{
	(void)state;
	return admin ? (int)run(admin, "DELETE FROM store_test.t", NULL) : 0;
}

static void session_has_our_settings(void **state)
{
	static const struct {
		const char *name, *value;
	} rows[] = {
		{"TimeZone", "UTC"},
		{"statement_timeout", "5s"},
		{"lock_timeout", "2s"},
		{"idle_in_transaction_session_timeout", "10s"},
		{"plan_cache_mode", "force_custom_plan"},
		{"application_name", "defib"},
		{"client_encoding", "UTF8"},
		{"array_nulls", "on"},
		{"extra_float_digits", "1"},
		{"transform_null_equals", "off"},
		{"row_security", "on"},
		{"gin_fuzzy_search_limit", "0"},
		{"exit_on_error", "off"},
		{"session_replication_role", "origin"},
		/* Since 14 and 17. */
		{"idle_session_timeout", "0"},
		{"transaction_timeout", "0"},
	};
	struct arena a = ARENA_INIT;
	struct store *s = NULL;
	(void)state;
	need_server();
	struct store_options o = {
		.url = getenv("DEFIB_TEST_PG"), .connect_ms = TEST_HANGS_MS, .call_ms = TEST_HANGS_MS};
	/* As the defaults of a role. */
	assert_int_equal(setenv("PGOPTIONS",
	                        "-c TimeZone=Asia/Kathmandu -c array_nulls=off -c extra_float_digits=0 "
	                        "-c transform_null_equals=on -c row_security=off -c exit_on_error=on "
	                        "-c gin_fuzzy_search_limit=1 -c session_replication_role=replica",
	                        1),
	                 0);
	defib_err err = store_open(&o, &s, NULL);
	assert_int_equal(unsetenv("PGOPTIONS"), 0);
	assert_int_equal(err, DEFIB_OK);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct store_param name = P_TEXT(rows[i].name);
		struct store_rows r;
		assert_int_equal(store_exec(s, "SELECT current_setting($1, true)", &name, 1, &a, &r, NULL),
		                 DEFIB_OK);
		if (row_text(&r, 0, 0))
			assert_string_equal(row_text(&r, 0, 0), rows[i].value);
	}
	assert_true(s->server_version >= 130000);
	store_close(s);
	arena_release(&a);
}

/*
 * The server says something while it reads, and reads on only when that was read: a client that
 * only sends waits for it without end. Both directions hold more than a socket does.
 */
static void what_the_server_says_during_a_large_send_is_read(void **state)
{
	enum { MENTIONS = 60000, LARGE = 24 << 20 };
	/* Longer than a name may be, so that each mention is answered with a notice. */
	static const char name[] =
		"a_name_of_more_than_sixty_three_letters_is_cut_and_that_is_said_each_time";
	struct arena a = ARENA_INIT;
	struct store *s = NULL;
	struct store_rows rows;
	struct failure f = {0};
	AUTO_BUF sql = BUF_INIT, value = BUF_INIT;
	(void)state;
	need_server();
	struct store_options o = {.url = getenv("DEFIB_TEST_PG"),
	                          .connect_ms = TEST_HANGS_MS,
	                          .call_ms = TEST_HANGS_MS,
	                          .statement_ms = TEST_HANGS_MS};
	assert_int_equal(store_open(&o, &s, &f), DEFIB_OK);
	/* The statement and its values are one message, as through a pooler. */
	s->pooled = true;
	buf_addf(&sql, "SELECT length($1::text) FROM (SELECT 1 AS %s) AS x WHERE $1::text <> ''", name);
	for (int i = 0; i < MENTIONS; i++)
		buf_addf(&sql, " OR x.%s IS NULL", name);
	for (int i = 0; i < LARGE / 16; i++)
		buf_add(&value, "0123456789abcdef");
	struct store_param param = P_TEXT(buf_text(&value));
	if (store_exec(s, buf_text(&sql), &param, 1, &a, &rows, &f))
		fail_msg("%s", f.what);
	assert_int_equal(row_int(&rows, 0, 0, 0), LARGE);
	store_close(s);
	arena_release(&a);
}

static void hostile_text_is_only_a_value(void **state)
{
	static const char *const texts[] = {"",     "'; DROP TABLE t; --", "a\\'b\"", "$1 ?1 :x",
	                                    "NULL", "{a,\"b\"}",           "ünï ✓ 😀", "\x01\x1b\n\t"};
	struct arena a = ARENA_INIT;
	(void)state;
	need_server();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct store_param params[] = {P_TEXT(texts[i]), P_INT(INT64_MIN), P_TEXT(NULL)};
		struct store_rows r;
		assert_int_equal(store_exec(admin, "SELECT $1::text AS t, $2::bigint, $3::text", params, 3,
		                            &a, &r, NULL),
		                 DEFIB_OK);
		assert_string_equal(r.names[0], "t");
		assert_string_equal(row_text(&r, 0, 0), texts[i]);
		assert_int_equal(row_int(&r, 0, 1, 0), INT64_MIN);
		assert_null(row_text(&r, 0, 2));
	}
	arena_release(&a);
}

static void errors_have_their_class(void **state)
{
	static const struct {
		const char *sql;
		defib_err class;
		const char *sqlstate;
		enum failure_reason reason;
	} rows[] = {
		{"SELECT nothing FROM store_test.t", DEFIB_BAD_SQL, "42703", REASON_NONE},
		{"SELECT 1 FROM store_test.nowhere", DEFIB_BAD_SQL, "42P01", REASON_NO_NAME},
		{"SELEC 1", DEFIB_BAD_SQL, "42601", REASON_NONE},
		{"SELECT 1; SELECT 2", DEFIB_BAD_SQL, "42601", REASON_NONE},
		{"-- nothing", DEFIB_BAD_SQL, "", REASON_NONE},
		{"SELECT 'x'::int", DEFIB_BAD_VALUE, "22P02", REASON_NOT_OF_TYPE},
		{"SELECT 1 FROM nowhere.t", DEFIB_BAD_SQL, "42P01", REASON_NO_NAME},
		{"SELECT nowhere.f()", DEFIB_BAD_SQL, "3F000", REASON_NO_SCHEMA},
		{"SELECT $1::int", DEFIB_BAD_SQL, "08P01", REASON_PROTOCOL}, /* a parameter is missing */
		{"INSERT INTO store_test.t VALUES (1), (1)", DEFIB_CONSTRAINT, "23505", REASON_TAKEN},
		{"INSERT INTO store_test.t VALUES (NULL)", DEFIB_CONSTRAINT, "23502", REASON_NONE},
		{"DO $$ BEGIN RAISE 'no' USING HINT = 'try'; END $$", DEFIB_CONSTRAINT, "P0001",
	     REASON_NONE},
		{"DO $$ BEGIN RAISE 'no' USING ERRCODE = 'SHOP1'; END $$", DEFIB_CONSTRAINT, "SHOP1",
	     REASON_NONE},
		{"DO $$ BEGIN RAISE 'no' USING ERRCODE = '42501'; END $$", DEFIB_CONSTRAINT, "42501",
	     REASON_NONE},
		{"DO $$ BEGIN RAISE 'no' USING ERRCODE = '22P02'; END $$", DEFIB_CONSTRAINT, "22P02",
	     REASON_NONE},
		{"DO $$ BEGIN RAISE 'again' USING ERRCODE = '40001'; END $$", DEFIB_LOCKED, "40001",
	     REASON_SERIALIZATION},
		{"INSERT INTO store_test.checked VALUES (-1)", DEFIB_CONSTRAINT, "44000", REASON_NONE},
		{"SELECT 1;", DEFIB_OK, "", REASON_NONE},
	};
	(void)state;
	need_server();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct failure f = {0};
		assert_int_equal(run(admin, rows[i].sql, &f), rows[i].class);
		assert_string_equal(f.sqlstate, rows[i].sqlstate);
		assert_int_equal(f.reason, rows[i].reason);
		assert_null(strchr(f.what, '\n'));
		assert_false(admin->lost);
	}
	struct failure f = {0};
	assert_int_equal(run(admin, "DO $$ BEGIN RAISE 'no' USING HINT = 'try'; END $$", &f),
	                 DEFIB_CONSTRAINT);
	assert_string_equal(f.what, "pg: no");
	assert_string_equal(f.next, "try");
}

static void copy_is_refused(void **state)
{
	(void)state;
	need_server();
	struct store *s = open_plain();
	assert_int_equal(run(s, "COPY store_test.t FROM STDIN", NULL), DEFIB_BAD_SQL);
	store_close(s);
}

static void missing_privilege_is_permission(void **state)
{
	(void)state;
	need_server();
	struct store *s = open_plain();
	/* pg_monitor exists everywhere and owns nothing of ours. */
	assert_int_equal(run(s, "SET ROLE pg_monitor", NULL), DEFIB_OK);
	assert_int_equal(run(s, "SELECT * FROM store_test.t", NULL), DEFIB_PERMISSION);
	store_close(s);
}

static void statement_timeout_is_timeout_and_keeps_the_session(void **state)
{
	(void)state;
	need_server();
	struct store *s = open_with((struct store_options){.statement_ms = 50});
	assert_int_equal(run(s, "SELECT pg_sleep(3600)", NULL), DEFIB_TIMEOUT);
	assert_false(s->lost);
	EVENTUALLY(run(s, "SELECT 7", NULL) == DEFIB_OK); /* which also has only 50 ms */
	assert_false(s->lost);
	store_close(s);
}

static void a_read_within_a_time_fails_alone_and_leaves_the_session_its_own(void **state)
{
	(void)state;
	need_server();
	struct store *s = open_plain();
	assert_int_equal(store_begin_within(s, 50, NULL), DEFIB_OK);
	assert_int_equal(run(s, "SELECT pg_sleep(3600)", NULL), DEFIB_TIMEOUT);
	store_rollback(s);
	assert_false(s->lost);
	assert_int_equal(store_begin(s, TX_READ, NULL), DEFIB_OK);
	assert_int_equal(run(s, "SELECT pg_sleep(0.2)", NULL), DEFIB_OK);
	store_rollback(s);
	store_close(s);
}

static void lock_timeout_is_locked(void **state)
{
	(void)state;
	need_server();
	struct store *s = open_with((struct store_options){.lock_ms = 50});
	assert_int_equal(store_begin(admin, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(run(admin, "LOCK TABLE store_test.t", NULL), DEFIB_OK);
	assert_int_equal(run(s, "UPDATE store_test.t SET note = 'x'", NULL), DEFIB_LOCKED);
	store_rollback(admin);
	assert_int_equal(run(s, "UPDATE store_test.t SET note = 'x'", NULL), DEFIB_OK);
	store_close(s);
}

static void read_transaction_refuses_to_write(void **state)
{
	(void)state;
	need_server();
	assert_int_equal(store_begin(admin, TX_READ, NULL), DEFIB_OK);
	assert_int_equal(run(admin, "INSERT INTO store_test.t VALUES (1)", NULL), DEFIB_READ_ONLY);
	store_rollback(admin);
	struct store *s = open_with((struct store_options){.read_only = true});
	assert_int_equal(run(s, "INSERT INTO store_test.t VALUES (1)", NULL), DEFIB_READ_ONLY);
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO store_test.t VALUES (1)", NULL), DEFIB_READ_ONLY);
	store_rollback(s);
	store_close(s);
	assert_int_equal(rows_in_t(), 0);
}

static void transaction_commits_or_rolls_back_whole(void **state)
{
	(void)state;
	need_server();
	struct store *s = open_plain();
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO store_test.t VALUES (1)", NULL), DEFIB_OK);
	store_rollback(s);
	assert_int_equal(rows_in_t(), 0);
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO store_test.t VALUES (1)", NULL), DEFIB_OK);
	assert_int_equal(store_commit(s, NULL), DEFIB_OK);
	assert_int_equal(rows_in_t(), 1);
	store_close(s);
}

static void rows_written_are_counted(void **state)
{
	struct arena a = ARENA_INIT;
	struct store_rows r;
	(void)state;
	need_server();
	assert_int_equal(store_exec(admin, "INSERT INTO store_test.t VALUES (1), (2) RETURNING id",
	                            NULL, 0, &a, &r, NULL),
	                 DEFIB_OK);
	assert_int_equal(r.affected, 2);
	assert_int_equal(r.nrows, 2);
	assert_int_equal(store_exec(admin, "SELECT * FROM store_test.t", NULL, 0, &a, &r, NULL),
	                 DEFIB_OK);
	assert_int_equal(r.affected, 0);
	arena_release(&a);
}

static void terminated_session_is_connection(void **state)
{
	struct failure f = {0};
	(void)state;
	need_server();
	struct store *s = open_plain();
	terminate(s);
	assert_int_equal(run(s, "SELECT 1", &f), DEFIB_CONNECTION);
	assert_true(s->lost);
	assert_int_equal(run(s, "SELECT 1", &f), DEFIB_CONNECTION);
	store_close(s);
}

static void terminated_session_in_a_transaction_is_connection(void **state)
{
	(void)state;
	need_server();
	struct store *s = open_plain();
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO store_test.t VALUES (1)", NULL), DEFIB_OK);
	terminate(s);
	assert_int_equal(run(s, "INSERT INTO store_test.t VALUES (2)", NULL), DEFIB_CONNECTION);
	assert_false(s->in_tx);
	store_close(s);
	assert_int_equal(rows_in_t(), 0);
}

static void terminated_session_leaves_a_commit_unknown(void **state)
{
	(void)state;
	need_server();
	struct store *s = open_plain();
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO store_test.t VALUES (1)", NULL), DEFIB_OK);
	terminate(s);
	assert_int_equal(store_commit(s, NULL), DEFIB_UNKNOWN_OUTCOME);
	assert_true(s->lost);
	store_close(s);
}

static void deferred_constraint_at_commit_is_constraint(void **state)
{
	(void)state;
	need_server();
	assert_int_equal(
		run(admin, "CREATE TABLE store_test.d (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)", NULL),
		DEFIB_OK);
	assert_int_equal(store_begin(admin, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(run(admin, "INSERT INTO store_test.d VALUES (1), (1)", NULL), DEFIB_OK);
	assert_int_equal(store_commit(admin, NULL), DEFIB_CONSTRAINT);
	assert_false(admin->in_tx || admin->lost);
	assert_int_equal(number(admin, "SELECT count(*) FROM store_test.d"), 0);
}

static void more_statements_than_slots_still_run(void **state)
{
	(void)state;
	need_server();
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 100; i++) {
			char sql[32];
			snprintf(sql, sizeof(sql), "SELECT %d", i);
			assert_int_equal(number(admin, sql), i);
		}
	}
	assert_in_range(number(admin, "SELECT count(*) FROM pg_prepared_statements"), 1, 64);
}

static void altered_table_is_prepared_again(void **state)
{
	static const char query[] = "SELECT * FROM store_test.a";
	(void)state;
	need_server();
	assert_int_equal(run(admin, "CREATE TABLE store_test.a AS SELECT 1 AS one", NULL), DEFIB_OK);
	assert_int_equal(number(admin, query), 1);
	assert_int_equal(run(admin, "ALTER TABLE store_test.a ADD two int", NULL), DEFIB_OK);
	assert_int_equal(number(admin, query), 1);
	assert_int_equal(run(admin, "ALTER TABLE store_test.a ADD three int", NULL), DEFIB_OK);
	assert_int_equal(store_begin(admin, TX_READ, NULL), DEFIB_OK);
	assert_int_equal(run(admin, query, NULL), DEFIB_LOCKED);
	store_rollback(admin);
	assert_int_equal(run(admin, "DEALLOCATE ALL", NULL), DEFIB_OK);
	assert_int_equal(number(admin, query), 1);
}

static defib_err add_then(struct store *s, const char *id, const char *then)
{
	struct store_param param = P_TEXT(id);
	struct failure f = {0};
	return store_exec_then(s, "INSERT INTO store_test.t VALUES ($1)", &param, 1, then, NULL, NULL,
	                       &f);
}

/* The first pair prepares, the second is sent together; likewise below. */
static void what_follows_is_done_after_the_commit_whatever_became_of_it(void **state)
{
	static const char seen[] = "INSERT INTO store_test.t SELECT 100 + count(*) FROM store_test.t";
	(void)state;
	need_server();
	assert_int_equal(add_then(admin, "1", seen), DEFIB_OK);
	assert_int_equal(add_then(admin, "2", seen), DEFIB_OK);
	assert_int_equal(number(admin, "SELECT sum(id) FROM store_test.t"), 1 + 101 + 2 + 103);
	assert_int_equal(add_then(admin, "2", "SELECT 1"), DEFIB_CONSTRAINT);
	assert_int_equal(add_then(admin, "2", seen), DEFIB_CONSTRAINT);
	assert_int_equal(add_then(admin, "3", "SELECT 1 / 0"), DEFIB_OK);
	assert_int_equal(add_then(admin, "4", "SELECT 1 / 0"), DEFIB_OK);
	assert_int_equal(run(admin, "DEALLOCATE ALL", NULL), DEFIB_OK);
	assert_int_equal(add_then(admin, "5", seen), DEFIB_OK);
	assert_int_equal(number(admin, "SELECT count(*) FROM store_test.t WHERE id < 100"), 5);
}

static void a_session_that_ends_in_what_follows_has_done_the_first(void **state)
{
	static const char end[] = "SELECT pg_terminate_backend(pg_backend_pid()) WHERE EXISTS "
							  "(SELECT 1 FROM store_test.t WHERE id = 2)";
	(void)state;
	need_server();
	struct store *s = open_plain();
	assert_int_equal(add_then(s, "1", end), DEFIB_OK);
	assert_int_equal(add_then(s, "2", end), DEFIB_OK);
	assert_true(s->lost);
	store_close(s);
	assert_int_equal(rows_in_t(), 2);
}

static void a_transaction_on_a_session_that_has_ended_does_not_begin(void **state)
{
	(void)state;
	need_server();
	struct store *s = open_plain();
	struct failure f = {0};
	terminate(s);
	assert_int_equal(store_begin(s, TX_WRITE, &f), DEFIB_CONNECTION);
	assert_true(s->lost);
	assert_false(s->in_tx);
	assert_true(f.what[0]);
	store_close(s);
}

static void describe_names_types_and_what_they_stand_on(void **state)
{
	static const struct {
		const char *name, *type, *base;
	} want[] = {
		{"i", "bigint", "int8"},
		{"tz", "timestamp with time zone", "timestamptz"},
		{"ts", "timestamp(3) without time zone", "timestamp"},
		{"dom", "integer", "int4"},
		{"mood", "store_test.mood", "mood"},
		{"arr", "text[]", "_text"},
		{"n", "numeric(10,2)", "numeric"},
		{"p", "integer", "int4"},
	};
	struct arena a = ARENA_INIT;
	struct store_column *cols;
	int n;
	(void)state;
	need_server();
	assert_int_equal(run(admin, "CREATE DOMAIN store_test.inner_d AS int", NULL), DEFIB_OK);
	assert_int_equal(run(admin, "CREATE DOMAIN store_test.outer_d AS store_test.inner_d", NULL),
	                 DEFIB_OK);
	assert_int_equal(run(admin, "CREATE TYPE store_test.mood AS ENUM ('ok')", NULL), DEFIB_OK);
	assert_int_equal(
		run(admin,
	        "CREATE TABLE store_test.types (i bigint, tz timestamptz, ts timestamp(3), "
	        "dom store_test.outer_d, mood store_test.mood, arr text[], n numeric(10,2))",
	        NULL),
		DEFIB_OK);
	assert_int_equal(
		store_describe(admin, "SELECT *, $1::int AS p FROM store_test.types", &a, &cols, &n, NULL),
		DEFIB_OK);
	assert_int_equal(n, 8);
	for (int i = 0; i < n; i++) {
		assert_string_equal(cols[i].name, want[i].name);
		assert_string_equal(cols[i].type, want[i].type);
		assert_string_equal(cols[i].base, want[i].base);
	}
	assert_int_equal(
		store_describe(admin, "SELECT nope FROM store_test.types", &a, &cols, &n, NULL),
		DEFIB_BAD_SQL);
	arena_release(&a);
}

#define TEST(name) cmocka_unit_test_setup(name, empty_t)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(session_has_our_settings),
		TEST(what_the_server_says_during_a_large_send_is_read),
		TEST(hostile_text_is_only_a_value),
		TEST(errors_have_their_class),
		TEST(copy_is_refused),
		TEST(missing_privilege_is_permission),
		TEST(statement_timeout_is_timeout_and_keeps_the_session),
		TEST(a_read_within_a_time_fails_alone_and_leaves_the_session_its_own),
		TEST(lock_timeout_is_locked),
		TEST(read_transaction_refuses_to_write),
		TEST(transaction_commits_or_rolls_back_whole),
		TEST(rows_written_are_counted),
		TEST(terminated_session_is_connection),
		TEST(terminated_session_in_a_transaction_is_connection),
		TEST(terminated_session_leaves_a_commit_unknown),
		TEST(deferred_constraint_at_commit_is_constraint),
		TEST(more_statements_than_slots_still_run),
		TEST(altered_table_is_prepared_again),
		TEST(what_follows_is_done_after_the_commit_whatever_became_of_it),
		TEST(a_session_that_ends_in_what_follows_has_done_the_first),
		TEST(a_transaction_on_a_session_that_has_ended_does_not_begin),
		TEST(describe_names_types_and_what_they_stand_on),
	};
	return cmocka_run_group_tests_name("store/postgres", tests, open_admin, close_admin);
}
