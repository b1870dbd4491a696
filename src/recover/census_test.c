/* SPDX-License-Identifier: Apache-2.0
 * census_test.c: what is asked about a watch's table, and that a question that failed has no
 * answer.
 */
#include "recover/census.h"

#include "base/clock.h"
#include "recover/bound.h"
#include "recover/recover_test.h"
#include "store/fault_test.h"

static void prepare(struct rig *g)
{
	rig_fill(g, 1);
}

RIG(prepare)

static bool barred(struct rig *g, struct store *s)
{
	struct failure f = {0};
	bool yes = true;
	if (census_barred(s, rig_watch(g, "beat_at", RIG_REQUEUE), &yes, &f))
		fail_msg("%s", f.what);
	return yes;
}

static void a_lock_that_keeps_workers_from_writing_is_seen(void **state)
{
	struct rig *g = rig_of(state);
	struct failure f = {0};
	struct store *s = open_with((struct store_options){.url = g->url});
	assert_false(barred(g, s));
	assert_int_equal(store_begin(g->other, TX_WRITE, &f), DEFIB_OK);
	rig_sql(g, "LOCK TABLE jobs IN SHARE MODE");
	assert_true(barred(g, s));
	store_rollback(g->other);
	assert_false(barred(g, s));
	store_close(s);
}

typedef defib_err question(struct store *, const struct watch *, bool *, struct failure *);

static void fails_if_its_statement_fails(struct rig *g, question *ask)
{
	struct fault_plan plan = {.call = FAULT_EXEC, .nth = 1, .code = DEFIB_BAD_SQL};
	struct store *s = fault_wrap(open_with((struct store_options){.url = g->url}), &plan);
	struct failure f = {0};
	bool yes = true;
	assert_int_equal(ask(s, rig_watch(g, "beat_at", RIG_REQUEUE), &yes, &f), DEFIB_BAD_SQL);
	assert_false(yes);
	store_close(s);
}

static void a_question_that_fails_is_an_error(void **state)
{
	fails_if_its_statement_fails(rig_of(state), census_barred);
	fails_if_its_statement_fails(rig_of(state), row_security);
}

/* What was in them before does not count. */
static void census_with(struct rig *g, struct store *s, const char *more, struct census *out)
{
	struct session session = rig_session(g);
	struct bound bound = {0};
	struct census_sql sql = {.owners = "SELECT 1"};
	struct failure f = {0};
	*out = (struct census){.n = 4711};
	if (bound_open(&bound, &session, rig_watch(g, "beat_at", more), LEDGER_NONE, &f))
		fail_msg("%s", f.what);
	census_compile(&bound.sql, &g->arena, &sql);
	if (census_read(s, &sql, &g->arena, out, &f))
		fail_msg("%s", f.what);
	assert_true(llabs(out->now_us - clock_wall_us()) < TEST_HANGS_MS * 1000LL);
	bound_release(&bound);
	session_close(&session);
}

static void a_census_has_the_owners_of_a_watch_with_beats_and_no_others(void **state)
{
	struct rig *g = rig_of(state);
	struct census c;
	rig_sql(g, "INSERT INTO jobs SELECT 2, status, 'w2', kind, attempts, flag, beat_at, error "
	           "FROM jobs");
	census_with(g, g->other, RIG_REQUEUE "    beat: 30s\n", &c);
	assert_int_equal(c.n, 2);
	census_with(g, g->other, RIG_REQUEUE "    beat: 30s\n    guard: off\n", &c);
	assert_int_equal(c.n, 0);
	census_with(g, g->other, RIG_REQUEUE, &c);
	assert_int_equal(c.n, 0);
}

static void a_database_in_a_file_has_no_such_locks(void **state)
{
	struct rig *g = rig_of(state);
	assert_false(barred(g, g->other));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_POSTGRES(a_lock_that_keeps_workers_from_writing_is_seen),
		ON_POSTGRES(a_question_that_fails_is_an_error),
		BOTH(a_census_has_the_owners_of_a_watch_with_beats_and_no_others),
		ON_SQLITE(a_database_in_a_file_has_no_such_locks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
