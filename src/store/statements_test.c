/* SPDX-License-Identifier: Apache-2.0 */
/* statements_test.c: the list of prepared statements finds, forgets and replaces. */
#include "base/test.h"
#include "store/statements.h"

static void put(struct statements *all, const char *sql)
{
	struct statement *slot = statements_victim(all);
	if (slot->sql)
		statements_forget(slot);
	statements_put(all, slot, sql, NULL);
}

static void put_numbered(struct statements *all, int number)
{
	char sql[32];
	snprintf(sql, sizeof(sql), "SELECT %d", number);
	put(all, sql);
}

static void release(struct statements *all)
{
	for (int i = 0; i < STATEMENTS_MAX; i++)
		statements_forget(&all->slots[i]);
}

static void finds_what_was_put_by_its_text(void **state)
{
	struct statements all = {0};
	(void)state;
	put(&all, "SELECT 1");
	assert_non_null(statements_find(&all, "SELECT 1"));
	assert_null(statements_find(&all, "select 1"));
	release(&all);
}

static void least_recently_used_makes_room(void **state)
{
	struct statements all = {0};
	(void)state;
	for (int i = 0; i < STATEMENTS_MAX; i++)
		put_numbered(&all, i);
	assert_non_null(statements_find(&all, "SELECT 0"));
	put_numbered(&all, 1000);
	assert_non_null(statements_find(&all, "SELECT 0"));
	assert_null(statements_find(&all, "SELECT 1"));
	assert_non_null(statements_find(&all, "SELECT 1000"));
	release(&all);
}

static void ids_are_never_given_twice(void **state)
{
	struct statements all = {0};
	(void)state;
	put(&all, "a");
	uint64_t first = statements_find(&all, "a")->id;
	statements_forget(statements_find(&all, "a"));
	uint64_t announced = statements_next_id(&all);
	put(&all, "a");
	assert_int_equal(statements_find(&all, "a")->id, announced);
	assert_int_not_equal(announced, first);
	release(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_was_put_by_its_text),
		cmocka_unit_test(least_recently_used_makes_room),
		cmocka_unit_test(ids_are_never_given_twice),
	};
	return cmocka_run_group_tests_name("store/statements", tests, NULL, NULL);
}
