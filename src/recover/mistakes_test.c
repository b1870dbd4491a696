/* SPDX-License-Identifier: Apache-2.0
 * mistakes_test.c: which recovered jobs late_when shows to have been finished by their old worker.
 */
#include "recover/mistakes.h"

#include "recover/recover_test.h"

#define JOBS 3
#define DONE_LATE RIG_REQUEUE "    late_when: status = 'done'\n"

static void prepare(struct rig *g)
{
	rig_fill(g, JOBS);
}

RIG(prepare)

/* The ledger says that jobs 1…3 of the watch were requeued. */
static void requeue_all(struct rig *g)
{
	static const struct ledger_context context = {"jobs", "batch-1", "test"};
	struct ledger_entry entries[JOBS];
	struct failure f = {0};
	static const char *const ids[JOBS] = {"1", "2", "3"};
	for (int i = 0; i < JOBS; i++)
		entries[i] = (struct ledger_entry){.job = ids[i], .event = "REQUEUED", .verdict = "silent"};
	assert_int_equal(store_begin(g->other, TX_WRITE, &f), DEFIB_OK);
	assert_int_equal(ledger_append(g->other, &context, entries, JOBS, &g->arena, &f), DEFIB_OK);
	assert_int_equal(store_commit(g->other, &f), DEFIB_OK);
}

static int64_t check(struct rig *g, const struct watch *w)
{
	struct binding binding;
	struct failure f = {0};
	int64_t noted = -1;
	assert_int_equal(watch_bind(w, g->other, &g->arena, &binding, &f), DEFIB_OK);
	if (late_check(g->other, &binding, "test", &noted, &f))
		fail_msg("%s", f.what);
	return noted;
}

static int64_t recorded(struct rig *g, const char *job)
{
	char sql[200];
	snprintf(sql, sizeof sql,
	         "SELECT count(*) FROM %s WHERE event = 'LATE_COMPLETION' AND job = '%s'",
	         g->engine == STORE_POSTGRES ? "defib.ledger" : "defib_ledger", job);
	return number(g->other, sql);
}

static void a_recovered_job_for_which_late_when_holds_is_recorded_once(void **state)
{
	struct rig *g = rig_of(state);
	const struct watch *w = rig_watch(g, "beat_at", DONE_LATE);
	requeue_all(g);
	assert_int_equal(check(g, w), 0);
	rig_sql(g, "UPDATE jobs SET status = 'done' WHERE id = 2");
	assert_int_equal(check(g, w), 1);
	assert_int_equal(check(g, w), 0);
	assert_int_equal(recorded(g, "2"), 1);
	assert_int_equal(recorded(g, "1") + recorded(g, "3"), 0);
}

static void a_job_that_was_not_recovered_is_not_looked_for(void **state)
{
	struct rig *g = rig_of(state);
	const struct watch *w = rig_watch(g, "beat_at", DONE_LATE);
	rig_sql(g, "UPDATE jobs SET status = 'done'");
	assert_int_equal(check(g, w), 0);
}

static void without_late_when_nothing_is_recorded(void **state)
{
	struct rig *g = rig_of(state);
	const struct watch *w = rig_watch(g, "beat_at", RIG_REQUEUE);
	requeue_all(g);
	rig_sql(g, "UPDATE jobs SET status = 'done'");
	assert_int_equal(check(g, w), 0);
}

/* From before the watch's key was changed. */
static void entries_with_a_key_of_another_shape_are_passed_over(void **state)
{
	struct rig *g = rig_of(state);
	struct watch two = *rig_watch(g, "beat_at", DONE_LATE);
	const char *columns[] = {"id", "kind", NULL};
	two.key = (struct text_list){.n = 2, .items = columns};
	requeue_all(g);
	rig_sql(g, "UPDATE jobs SET status = 'done'");
	assert_int_equal(check(g, &two), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_recovered_job_for_which_late_when_holds_is_recorded_once),
		BOTH(a_job_that_was_not_recovered_is_not_looked_for),
		BOTH(without_late_when_nothing_is_recorded),
		BOTH(entries_with_a_key_of_another_shape_are_passed_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
