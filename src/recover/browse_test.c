/* SPDX-License-Identifier: Apache-2.0
 * browse_test.c: that a list has every job once, in order, and says whether the limit cut it.
 */
#include "recover/browse.h"

#include "recover/recover_test.h"

#define JOBS 150 /* more than a list has room for at first */

static void prepare(struct rig *g)
{
	rig_fill(g, 1);
	rig_sql(g, "INSERT INTO jobs WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n "
	           "WHERE i < 150) SELECT i, 'running', 'w', 'a', 1, 0, 1577836800, NULL FROM n");
}

RIG(prepare)

/* How many; each is at its place, from job `first` on. */
static int list(struct rig *g, const struct browse *o, int first, bool *more)
{
	struct binding binding;
	struct watch_sql sql;
	struct ledger ledger;
	struct browsed *rows;
	struct failure f = {0};
	int n = -1;
	const struct watch *w = rig_watch(g, "beat_at", RIG_REQUEUE);
	assert_int_equal(watch_bind(w, g->other, &g->arena, &binding, &f), DEFIB_OK);
	assert_int_equal(watch_compile(&binding, &g->arena, &sql, &f), DEFIB_OK);
	assert_int_equal(ledger_open(g->other, false, &ledger, &f), DEFIB_OK);
	if (browse_jobs(&(struct look){g->other, &sql, &ledger, &g->arena}, o, &rows, &n, more, &f))
		fail_msg("%s", f.what);
	for (int i = 0; i < n; i++)
		assert_int_equal(strtol(rows[i].job, NULL, 10), first + i);
	return n;
}

static void a_long_list_has_each_job_once_and_in_order(void **state)
{
	struct rig *g = rig_of(state);
	bool more = true;
	assert_int_equal(list(g, &(struct browse){.sort = LIST_BY_KEY}, 1, &more), JOBS);
	assert_false(more);
}

static void a_list_says_whether_its_limit_left_jobs_out(void **state)
{
	struct rig *g = rig_of(state);
	bool more = false;
	assert_int_equal(list(g, &(struct browse){.limit = 1}, 1, &more), 1);
	assert_true(more);
	assert_int_equal(list(g, &(struct browse){.limit = JOBS - 1}, 1, &more), JOBS - 1);
	assert_true(more);
	assert_int_equal(list(g, &(struct browse){.limit = JOBS}, 1, &more), JOBS);
	assert_false(more);
}

static void a_page_begins_after_the_last_row_of_the_one_before(void **state)
{
	struct rig *g = rig_of(state);
	struct browse_position after = {.key = {"100"}};
	bool more = true;
	assert_int_equal(list(g, &(struct browse){.after = &after}, 101, &more), JOBS - 100);
	assert_false(more);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_long_list_has_each_job_once_and_in_order),
		BOTH(a_list_says_whether_its_limit_left_jobs_out),
		BOTH(a_page_begins_after_the_last_row_of_the_one_before),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
