/* SPDX-License-Identifier: Apache-2.0 */
/* builtin_test.c: the watch that ships with defib fits the tables that ship with it. */
#include "watch/compile_write.h"
#include "watch/settings.h"

#include "watch/compile.h"
#include "watch/queue_test.h"

struct built {
	struct arena arena;
	struct binding binding;
	struct watch_sql sql;
};

static void build(struct tables *t, struct built *b)
{
	struct failure f = {0};
	*b = (struct built){.arena = ARENA_INIT};
	const struct watch *w = builtin_watch(t->engine, &b->arena);
	if (watch_bind(w, t->store, &b->arena, &b->binding, &f) ||
	    watch_compile(&b->binding, &b->arena, &b->sql, &f) ||
	    watch_prepare(&b->sql, t->store, &b->arena, &f))
		fail_msg("%s", f.what);
}

static void its_statements_fit_the_queue_s_tables(void **state)
{
	struct built b;
	build(tables_of(state), &b);
	arena_release(&b.arena);
}

static void nothing_is_stuck_in_an_empty_queue(void **state)
{
	struct tables *t = tables_of(state);
	struct built b;
	struct store_param limit = P_INT(10);
	struct store_rows rows;
	struct failure f = {0};
	build(t, &b);
	if (store_exec(t->store, b.sql.look_first, &limit, 1, &b.arena, &rows, &f))
		fail_msg("%s", f.what);
	assert_int_equal(rows.nrows, 0);
	arena_release(&b.arena);
}

static void it_has_remedies_for_jobs_with_and_without_attempts_left(void **state)
{
	static const enum remedy used[] = {REMEDY_REQUEUE, REMEDY_FAIL, REMEDY_HOLD};
	struct built b;
	build(tables_of(state), &b);
	for (size_t i = 0; i < sizeof used / sizeof *used; i++)
		assert_true(b.sql.nwrites[used[i]] >= 1);
	assert_string_equal(b.binding.watch->name, BUILTIN_NAME);
	assert_true(watch_has_attempts(b.binding.watch));
	arena_release(&b.arena);
}

static void its_jobs_need_no_lease_beside_them(void **state)
{
	struct built b;
	build(tables_of(state), &b);
	assert_null(b.sql.free_leases);
	arena_release(&b.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_POSTGRES(its_statements_fit_the_queue_s_tables),
		ON_SQLITE(its_statements_fit_the_queue_s_tables),
		ON_POSTGRES(nothing_is_stuck_in_an_empty_queue),
		ON_SQLITE(nothing_is_stuck_in_an_empty_queue),
		ON_POSTGRES(it_has_remedies_for_jobs_with_and_without_attempts_left),
		ON_SQLITE(it_has_remedies_for_jobs_with_and_without_attempts_left),
		ON_POSTGRES(its_jobs_need_no_lease_beside_them),
		ON_SQLITE(its_jobs_need_no_lease_beside_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
