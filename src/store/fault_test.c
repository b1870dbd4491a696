/* SPDX-License-Identifier: Apache-2.0 */
/* fault_test.c: each class, before and after the database acts, and the remaining state. */
#include "store/fault_test.h"
#include "base/test.h"

static struct store *open_memory(void)
{
	struct store_options opt = {.url = "sqlite::memory:", .name = "mem"};
	struct store *s = NULL;
	assert_int_equal(store_open(&opt, &s, NULL), DEFIB_OK);
	assert_int_equal(store_exec(s, "CREATE TABLE t (id INTEGER)", NULL, 0, NULL, NULL, NULL),
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

static defib_err insert(struct store *s)
{
	return store_exec(s, "INSERT INTO t VALUES (1)", NULL, 0, NULL, NULL, NULL);
}

static defib_err insert_in_transaction(struct store *s)
{
	defib_err err = store_begin(s, TX_WRITE, NULL);
	if (!err)
		err = insert(s);
	if (!err)
		return store_commit(s, NULL);
	store_rollback(s);
	return err;
}

static bool loses(defib_err code)
{
	return code == DEFIB_CONNECTION || code == DEFIB_UNKNOWN_OUTCOME;
}

/* Every class at every call: the result is that class, and the rows depend on the moment. */
static void assert_fault(enum fault_call call, enum fault_when when, defib_err code, int64_t rows)
{
	struct store *inner = open_memory();
	struct fault_plan plan = {.call = call, .nth = 1, .when = when, .code = code};
	struct store *s = fault_wrap(inner, &plan);
	assert_int_equal(insert_in_transaction(s), code);
	assert_true(plan.fired);
	assert_false(s->in_tx || inner->in_tx);
	assert_int_equal(s->lost, loses(code));
	assert_int_equal(count(inner), rows);
	assert_int_equal(s->only_reads, code == DEFIB_READ_ONLY);
	if (s->lost) {
		assert_int_equal(insert(s), DEFIB_CONNECTION);
		assert_int_equal(store_begin(s, TX_READ, NULL), DEFIB_CONNECTION);
	}
	store_close(s);
}

static const defib_err codes[] = {
	DEFIB_CONNECTION, DEFIB_UNKNOWN_OUTCOME, DEFIB_TIMEOUT, DEFIB_LOCKED, DEFIB_CONSTRAINT,
	DEFIB_PERMISSION, DEFIB_READ_ONLY,       DEFIB_BAD_SQL, DEFIB_FULL,   DEFIB_IO,
};
#define CODES (sizeof(codes) / sizeof(codes[0]))

static void any_class_before_commit_leaves_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < CODES; i++) {
		assert_fault(FAULT_BEGIN, FAULT_BEFORE, codes[i], 0);
		assert_fault(FAULT_BEGIN, FAULT_AFTER, codes[i], 0);
		assert_fault(FAULT_EXEC, FAULT_BEFORE, codes[i], 0);
		assert_fault(FAULT_EXEC, FAULT_AFTER, codes[i], 0);
		assert_fault(FAULT_COMMIT, FAULT_BEFORE, codes[i], 0);
	}
}

static void a_time_limit_ends_with_the_begin_that_failed(void **state)
{
	struct fault_plan plan = {.call = FAULT_BEGIN, .nth = 1, .code = DEFIB_TIMEOUT};
	struct store *s = fault_wrap(open_memory(), &plan);
	(void)state;
	assert_int_equal(store_begin_within(s, 50, NULL), DEFIB_TIMEOUT);
	assert_int_equal(s->within_ms, 0);
	assert_false(s->in_tx);
	assert_int_equal(insert_in_transaction(s), DEFIB_OK);
	store_close(s);
}

static void reply_lost_after_commit_leaves_the_rows(void **state)
{
	(void)state;
	assert_fault(FAULT_COMMIT, FAULT_AFTER, DEFIB_UNKNOWN_OUTCOME, 1);
	assert_fault(FAULT_COMMIT, FAULT_AFTER, DEFIB_CONNECTION, 1);
}

static void write_of_its_own_may_have_been_done(void **state)
{
	struct store *inner = open_memory();
	struct fault_plan plan = {
		.call = FAULT_EXEC, .nth = 1, .when = FAULT_AFTER, .code = DEFIB_UNKNOWN_OUTCOME};
	struct store *s = fault_wrap(inner, &plan);
	(void)state;
	assert_int_equal(insert(s), DEFIB_UNKNOWN_OUTCOME);
	assert_int_equal(count(inner), 1);
	store_close(s);
}

static void only_the_chosen_call_fails(void **state)
{
	struct fault_plan plan = {.call = FAULT_EXEC, .nth = 3, .code = DEFIB_LOCKED};
	struct store *s = fault_wrap(open_memory(), &plan);
	(void)state;
	assert_int_equal(insert(s), DEFIB_OK);
	assert_int_equal(insert(s), DEFIB_OK);
	assert_int_equal(insert(s), DEFIB_LOCKED);
	assert_int_equal(insert(s), DEFIB_OK);
	assert_int_equal(count(s), 3);
	store_close(s);
}

static void time_out_can_lose_the_session_too(void **state)
{
	struct fault_plan plan = {.call = FAULT_EXEC, .nth = 1, .code = DEFIB_TIMEOUT, .lose = true};
	struct store *s = fault_wrap(open_memory(), &plan);
	(void)state;
	assert_int_equal(insert(s), DEFIB_TIMEOUT);
	assert_true(s->lost);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_class_before_commit_leaves_nothing),
		cmocka_unit_test(a_time_limit_ends_with_the_begin_that_failed),
		cmocka_unit_test(reply_lost_after_commit_leaves_the_rows),
		cmocka_unit_test(write_of_its_own_may_have_been_done),
		cmocka_unit_test(only_the_chosen_call_fails),
		cmocka_unit_test(time_out_can_lose_the_session_too),
	};
	return cmocka_run_group_tests_name("store/fault", tests, NULL, NULL);
}
