/* SPDX-License-Identifier: Apache-2.0 */
/* store_test.c: what holds for every engine: URLs, cells, and the state of a transaction. */
#include "base/test.h"
#include "store/store.h"

#include <limits.h>

static struct store *open_memory(void)
{
	struct store_options opt = {.url = "sqlite::memory:", .name = "mem"};
	struct store *s = NULL;
	assert_int_equal(store_open(&opt, &s, NULL), DEFIB_OK);
	assert_int_equal(
		store_exec(s, "CREATE TABLE t (id INTEGER PRIMARY KEY)", NULL, 0, NULL, NULL, NULL),
		DEFIB_OK);
	return s;
}

static int64_t count(struct store *s)
{
	struct arena a = ARENA_INIT;
	struct store_rows rows;
	assert_int_equal(store_exec(s, "SELECT count(*) FROM t", NULL, 0, &a, &rows, NULL), DEFIB_OK);
	int64_t n = row_int(&rows, 0, 0, -1);
	arena_release(&a);
	return n;
}

static defib_err run(struct store *s, const char *sql)
{
	return store_exec(s, sql, NULL, 0, NULL, NULL, NULL);
}

static void url_names_its_engine(void **state)
{
	enum store_engine engine;
	struct failure f = {0};
	(void)state;
	assert_true(store_engine_of("postgres://h/db", &engine, &f));
	assert_int_equal(engine, STORE_POSTGRES);
	assert_true(store_engine_of("postgresql:///db?host=/tmp", &engine, &f));
	assert_int_equal(engine, STORE_POSTGRES);
	assert_true(store_engine_of("sqlite:jobs.db", &engine, &f));
	assert_int_equal(engine, STORE_SQLITE);
	assert_false(store_engine_of("mysql://u:s3cret@h/db", &engine, &f));
	assert_int_equal(f.code, DEFIB_CONFIG);
	assert_null(strstr(f.what, "s3cret"));
	assert_false(store_engine_of(NULL, &engine, &f));
}

static void cells_read_as_numbers_and_truths(void **state)
{
	const char *cells[] = {"42", "x", NULL, "-9223372036854775808", "t", "true", "1", "f", "yes"};
	struct store_rows r = {.nrows = 1, .ncols = 9, .cells = cells};
	(void)state;
	assert_int_equal(row_int(&r, 0, 0, 7), 42);
	assert_int_equal(row_int(&r, 0, 1, 7), 7);
	assert_int_equal(row_int(&r, 0, 2, 7), 7);
	assert_int_equal(row_int(&r, 0, 3, 7), INT64_MIN);
	assert_true(row_bool(&r, 0, 4) && row_bool(&r, 0, 5) && row_bool(&r, 0, 6));
	assert_false(row_bool(&r, 0, 7) || row_bool(&r, 0, 8) || row_bool(&r, 0, 2));
}

static void failed_transaction_can_only_be_rolled_back(void **state)
{
	struct store *s = open_memory();
	struct failure f = {0};
	(void)state;
	assert_int_equal(store_begin(s, TX_WRITE, &f), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO t VALUES (1)"), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO t VALUES (1)"), DEFIB_CONSTRAINT);
	assert_int_equal(run(s, "INSERT INTO t VALUES (2)"), DEFIB_DATABASE);
	assert_int_equal(store_commit(s, &f), DEFIB_DATABASE);
	assert_false(s->in_tx);
	assert_int_equal(count(s), 0);
	store_close(s);
}

static void transaction_commits_or_rolls_back_whole(void **state)
{
	struct store *s = open_memory();
	(void)state;
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO t VALUES (1)"), DEFIB_OK);
	store_rollback(s);
	assert_int_equal(count(s), 0);
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO t VALUES (1)"), DEFIB_OK);
	assert_int_equal(store_commit(s, NULL), DEFIB_OK);
	store_rollback(s);
	assert_int_equal(count(s), 1);
	store_close(s);
}

static void transaction_words_are_refused(void **state)
{
	struct store *s = open_memory();
	(void)state;
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	assert_int_equal(run(s, "INSERT INTO t VALUES (1)"), DEFIB_OK);
	assert_int_equal(run(s, "COMMIT"), DEFIB_BAD_SQL);
	store_rollback(s);
	assert_int_equal(count(s), 0);
	store_close(s);
}

/* Long before a short lease is over, and not at every statement while the server is read-only. */
static void a_session_that_only_reads_is_opened_again_four_times_a_second(void **state)
{
	AUTO_SESSION s = {.options = {.url = "sqlite::memory:"}, .open = store_open};
	(void)state;
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	s.store->only_reads = true;
	s.opened_ms += 1000000;
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(s.opened, 1);
	s.opened_ms -= 1000000 + 250;
	assert_int_equal(session_ready(&s, NULL), DEFIB_OK);
	assert_int_equal(s.opened, 2);
	assert_false(s.store->only_reads);
}

/* ---- rows ---- */

struct member {
	const char *name;
	int small;
	bool has_large, yes;
	int64_t large;
};

static void rows_become_structs_by_the_types_of_their_members(void **state)
{
#define M(member_name) ROW_MEMBER(struct member, member_name)
	static const struct row_member members[] = {M(name), M(small), M(yes),
	                                            ROW_GIVEN(struct member, has_large), M(large)};
#undef M
	AUTO_STORE s = open_memory();
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	int n = 0;
	(void)state;
	assert_int_equal(store_exec(s,
	                            "SELECT 'one', 7, 1, 5000000000 UNION ALL SELECT NULL, NULL, 0, "
	                            "NULL",
	                            NULL, 0, &a, &rows, NULL),
	                 DEFIB_OK);
	struct member *all = ROWS_READ(&rows, members, struct member, &a, &n);
	assert_int_equal(n, 2);
	assert_string_equal(all[0].name, "one");
	assert_true(all[0].small == 7 && all[0].yes && all[0].has_large);
	assert_true(all[0].large == INT64_C(5000000000));
	assert_null(all[1].name);
	assert_true(all[1].small == -1 && !all[1].yes && !all[1].has_large && all[1].large == 0);
}

static void a_row_that_cannot_be_ours_is_left_out(void **state)
{
	static const struct row_member members[] = {
		ROW_NEEDED(struct member, name), ROW_MEMBER(struct member, small),
		ROW_MEMBER(struct member, yes), ROW_WITHIN(struct member, large, 0, 9)};
	AUTO_STORE s = open_memory();
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	int n = 0;
	(void)state;
	assert_int_equal(
		store_exec(
			s,
			"VALUES ('one', 5000000000, 1, 9), (NULL, 1, 1, 1), ('two', 1, 1, 10), ('three', "
			"1, 1, -1), ('four', 1, 1, NULL), ('five', 1, 1, 1e30), ('six', "
			"-5000000000, 1, 0)",
			NULL, 0, &a, &rows, NULL),
		DEFIB_OK);
	struct member *all = ROWS_READ_FROM("t", &rows, members, struct member, &a, &n);
	assert_int_equal(n, 2);
	assert_string_equal(all[0].name, "one");
	assert_true(all[0].large == 9 && all[0].small == INT_MAX);
	assert_string_equal(all[1].name, "six");
	assert_true(all[1].large == 0 && all[1].small == -INT_MAX);
}

static void the_sum_of_two_numbers_that_were_read_does_not_overflow(void **state)
{
	static const struct row_member members[] = {ROW_MEMBER(struct member, large)};
	AUTO_STORE s = open_memory();
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	int n = 0;
	(void)state;
	assert_int_equal(store_exec(s, "VALUES (9223372036854775807), (-9223372036854775808)", NULL, 0,
	                            &a, &rows, NULL),
	                 DEFIB_OK);
	struct member *all = ROWS_READ(&rows, members, struct member, &a, &n);
	assert_int_equal(n, 2);
	assert_true(all[0].large == ROW_INT_MOST && all[1].large == -ROW_INT_MOST);
}

static void a_failed_call_returns_no_rows(void **state)
{
	AUTO_STORE s = open_memory();
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows = {.nrows = 1};
	(void)state;
	assert_int_not_equal(store_read(s, "SELECT no_such_column", NULL, 0, &a, &rows, NULL),
	                     DEFIB_OK);
	assert_int_equal(rows.nrows, 0);
	assert_null(row_text(&rows, 0, 0));
	assert_int_equal(row_int(&rows, 0, 0, 9), 9);
	/* Of a failed transaction, not even the first is read. */
	rows.nrows = 1;
	assert_int_equal(store_begin(s, TX_WRITE, NULL), DEFIB_OK);
	assert_int_not_equal(store_exec(s, "SELECT no_such_column", NULL, 0, &a, NULL, NULL), DEFIB_OK);
	assert_int_not_equal(store_exec(s, "SELECT 1", NULL, 0, &a, &rows, NULL), DEFIB_OK);
	assert_int_equal(rows.nrows, 0);
	store_rollback(s);
}

/* ---- statements ---- */

static void put(struct prepared_set *all, const char *sql)
{
	struct prepared *slot = prepared_victim(all);
	if (slot->sql)
		prepared_forget(slot);
	prepared_put(all, slot, sql, NULL);
}

static void put_numbered(struct prepared_set *all, int number)
{
	char sql[32];
	snprintf(sql, sizeof(sql), "SELECT %d", number);
	put(all, sql);
}

static void release(struct prepared_set *all)
{
	for (int i = 0; i < PREPARED_MAX; i++)
		prepared_forget(&all->slots[i]);
}

static void finds_what_was_put_by_its_text(void **state)
{
	struct prepared_set all = {0};
	(void)state;
	put(&all, "SELECT 1");
	assert_non_null(prepared_find(&all, "SELECT 1"));
	assert_null(prepared_find(&all, "select 1"));
	release(&all);
}

static void least_recently_used_makes_room(void **state)
{
	struct prepared_set all = {0};
	(void)state;
	for (int i = 0; i < PREPARED_MAX; i++)
		put_numbered(&all, i);
	assert_non_null(prepared_find(&all, "SELECT 0"));
	put_numbered(&all, 1000);
	assert_non_null(prepared_find(&all, "SELECT 0"));
	assert_null(prepared_find(&all, "SELECT 1"));
	assert_non_null(prepared_find(&all, "SELECT 1000"));
	release(&all);
}

static void ids_are_never_given_twice(void **state)
{
	struct prepared_set all = {0};
	(void)state;
	put(&all, "a");
	uint64_t first = prepared_find(&all, "a")->id;
	prepared_forget(prepared_find(&all, "a"));
	uint64_t announced = prepared_next_id(&all);
	put(&all, "a");
	assert_int_equal(prepared_find(&all, "a")->id, announced);
	assert_int_not_equal(announced, first);
	release(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_become_structs_by_the_types_of_their_members),
		cmocka_unit_test(a_row_that_cannot_be_ours_is_left_out),
		cmocka_unit_test(the_sum_of_two_numbers_that_were_read_does_not_overflow),
		cmocka_unit_test(a_failed_call_returns_no_rows),
		cmocka_unit_test(url_names_its_engine),
		cmocka_unit_test(cells_read_as_numbers_and_truths),
		cmocka_unit_test(failed_transaction_can_only_be_rolled_back),
		cmocka_unit_test(transaction_commits_or_rolls_back_whole),
		cmocka_unit_test(transaction_words_are_refused),
		cmocka_unit_test(a_session_that_only_reads_is_opened_again_four_times_a_second),
		cmocka_unit_test(finds_what_was_put_by_its_text),
		cmocka_unit_test(least_recently_used_makes_room),
		cmocka_unit_test(ids_are_never_given_twice),
	};
	return cmocka_run_group_tests_name("store/store", tests, NULL, NULL);
}
