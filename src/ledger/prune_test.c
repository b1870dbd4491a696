/* SPDX-License-Identifier: Apache-2.0 */
/* prune_test.c: the ledger only grows, except for retention. */
#include "ledger/prune.h"
#include "ledger/retention.h"

#include "ledger/ledger_test.h"
#include "store/fault_test.h"

static const struct ledger_context pruner = {"", "prune-1", "cli:test"};

static void fill(struct place *p, int old, int young)
{
	struct ledger_entry e = {.job = "old", .event = "REQUEUED"};
	for (int i = 0; i < old; i++)
		append(p, &e, 1, true);
	if (old)
		make_older(p, 100, "true");
	e.job = "young";
	for (int i = 0; i < young; i++)
		append(p, &e, 1, true);
}

static struct prune_plan planned(struct place *p)
{
	struct prune_plan plan;
	struct failure f = {0};
	if (prune_plan(p->store, 90 * DAY, &p->arena, &plan, &f))
		fail_msg("%s", f.what);
	return plan;
}

/* Remove all parts of a plan; returns how many there were. */
static int carry_out(struct place *p, const struct prune_plan *plan, int64_t limit)
{
	struct failure f = {0};
	int64_t removed = 0;
	bool over = false;
	int parts = 0;
	for (; !over && removed < plan->count; parts++)
		if (prune_part(p->store, plan, &pruner, limit, &removed, &over, &f))
			fail_msg("%s", f.what);
	return parts;
}

static void refused(struct place *p, const char *fmt)
{
	struct failure f = {0};
	const char *sql = on_table(p, fmt);
	if (!store_exec(p->store, sql, NULL, 0, &p->arena, NULL, &f))
		fail_msg("%s was not refused", sql);
	if (!strstr(f.what, "append-only"))
		fail_msg("%s", f.what);
}

static void entries_can_be_neither_changed_nor_deleted(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p, 0, 2);
	refused(&p, "UPDATE %s SET reason = 'x'");
	refused(&p, "DELETE FROM %s");
	refused(&p, "DELETE FROM %s WHERE id = 1");
	if (engine == STORE_POSTGRES)
		refused(&p, "TRUNCATE %s");
	assert_string_equal(cell(&p, "SELECT count(*) FROM %s WHERE reason IS NULL"), "2");
	close_place(&p);
}

static void the_old_go_and_the_young_stay(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p, 5, 2);
	struct prune_plan plan = planned(&p);
	assert_int_equal(plan.count, 5);
	assert_int_equal(carry_out(&p, &plan, 2), 3);
	assert_string_equal(cell(&p, "SELECT count(*) FROM %s WHERE job = 'old'"), "0");
	assert_string_equal(cell(&p, "SELECT count(*) FROM %s WHERE job = 'young'"), "2");
	close_place(&p);
}

static void what_was_removed_is_an_entry_of_its_own(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p, 5, 0);
	struct prune_plan plan = planned(&p);
	carry_out(&p, &plan, 10);
	assert_string_equal(cell(&p, "SELECT count(*) FROM %s"), "1");
	assert_string_equal(cell(&p, "SELECT event FROM %s WHERE batch = 'prune-1'"), "PRUNED");
	assert_non_null(strstr(cell(&p, "SELECT evidence FROM %s"), "\"count\": 5"));
	assert_non_null(strstr(cell(&p, "SELECT evidence FROM %s"), "\"last_id\": 5"));
	assert_non_null(strstr(cell(&p, "SELECT evidence FROM %s"), "\"seal\": \""));
	assert_non_null(strstr(cell(&p, "SELECT evidence FROM %s"), plan.cutoff));
	close_place(&p);
}

static void nothing_old_is_a_plan_of_nothing(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	assert_int_equal(planned(&p).count, 0);
	fill(&p, 0, 3);
	assert_int_equal(planned(&p).count, 0);
	close_place(&p);
}

static void the_door_is_shut_again_afterwards(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p, 1, 1);
	struct prune_plan plan = planned(&p);
	carry_out(&p, &plan, 10);
	refused(&p, "DELETE FROM %s");
	close_place(&p);
}

static void a_plan_that_somebody_else_carried_out_is_over(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p, 3, 1);
	struct prune_plan plan = planned(&p);
	carry_out(&p, &plan, 10);
	assert_int_equal(carry_out(&p, &plan, 10), 1);
	assert_string_equal(cell(&p, "SELECT count(*) FROM %s WHERE event = 'PRUNED'"), "1");
	close_place(&p);
}

/* Whichever statement fails: it is an error, and the ledger is as it was. */
static void a_prune_whose_statement_fails_removes_nothing(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	fill(&p, 3, 2);
	for (int nth = 1, fired = 1; fired; nth++) {
		struct fault_plan faults = {.call = FAULT_EXEC, .nth = nth, .code = DEFIB_BAD_SQL};
		struct fault_store *s = (struct fault_store *)fault_wrap(p.store, &faults);
		struct prune_plan plan;
		struct failure f = {0};
		int64_t removed = 0;
		bool over = false;
		defib_err err = prune_plan(&s->base, 90 * DAY, &p.arena, &plan, &f);
		if (!err)
			err = prune_part(&s->base, &plan, &pruner, 10, &removed, &over, &f);
		fired = faults.fired;
		assert_int_equal(err, fired ? DEFIB_BAD_SQL : DEFIB_OK);
		assert_string_equal(cell(&p, "SELECT count(*) FROM %s WHERE job = 'old'"),
		                    fired ? "3" : "0");
		assert_string_equal(cell(&p, "SELECT count(*) FROM %s WHERE job = 'young'"), "2");
		free(s);
	}
	close_place(&p);
}

#define BEHAVIOURS(X)                                                                              \
	X(entries_can_be_neither_changed_nor_deleted)                                                  \
	X(the_old_go_and_the_young_stay)                                                               \
	X(what_was_removed_is_an_entry_of_its_own)                                                     \
	X(nothing_old_is_a_plan_of_nothing)                                                            \
	X(the_door_is_shut_again_afterwards)                                                           \
	X(a_plan_that_somebody_else_carried_out_is_over)                                               \
	X(a_prune_whose_statement_fails_removes_nothing)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {BEHAVIOURS(ROWS_OF)};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
