/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_test.c: which recoveries were mistakes, how many, and that each is recorded once. */
#include "ledger/counts.h"

#include "ledger/ledger_test.h"
#include "store/fault_test.h"

static void enter(struct place *p, const char *job, const char *event, const char *rule)
{
	append(p, &(struct ledger_entry){.job = job, .event = event, .verdict = "silent", .rule = rule},
	       1, true);
}

static struct mistakes count(struct place *p, const char *watch)
{
	struct failure f = {0};
	struct mistakes m;
	if (mistakes_count(p->store, watch, &m, &f))
		fail_msg("%s", f.what);
	return m;
}

static int candidates(struct place *p, struct recovered **out)
{
	struct failure f = {0};
	int n = -1;
	if (mistakes_candidates(p->store, "pages", DAY, 100, &p->arena, out, &n, &f))
		fail_msg("%s", f.what);
	return n;
}

static int64_t note(struct place *p, const char *job)
{
	struct ledger_entry e = {.job = job, .event = "LATE_COMPLETION", .rule = "late-when"};
	struct failure f = {0};
	int64_t noted = -1;
	if (mistakes_note(p->store, &context, &e, 1, DAY, &p->arena, &noted, &f))
		fail_msg("%s", f.what);
	return noted;
}

static void a_late_completion_makes_its_recovery_a_mistake(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	enter(&p, "1", "REQUEUED", "default");
	enter(&p, "2", "FAILED", "default");
	enter(&p, "3", "RETRY_SCHEDULED", "default");
	enter(&p, "1", "LATE_COMPLETION", NULL);
	struct mistakes m = count(&p, "pages");
	assert_true(m.day.recoveries == 3 && m.day.mistakes == 1);
	assert_true(m.week.recoveries == 3 && m.week.mistakes == 1);
	m = count(&p, "other");
	assert_true(m.week.recoveries == 0 && m.week.mistakes == 0);
	close_place(&p);
}

static void only_the_last_recovery_before_it_is_blamed_and_once(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	enter(&p, "1", "REQUEUED", "default");
	enter(&p, "1", "REQUEUED", "default");
	enter(&p, "1", "LATE_COMPLETION", NULL);
	enter(&p, "1", "LATE_COMPLETION", NULL);
	enter(&p, "1", "REQUEUED", "default");
	struct mistakes m = count(&p, "pages");
	assert_true(m.day.recoveries == 3 && m.day.mistakes == 1);
	close_place(&p);
}

static void old_ones_are_not_of_today(enum store_engine engine)
{
	struct recovered *out;
	struct place p;
	open_place(&p, engine);
	enter(&p, "1", "REQUEUED", "default");
	enter(&p, "2", "REQUEUED", "default");
	make_older(&p, 8, "job = '1'");
	make_older(&p, 2, "job = '2'");
	enter(&p, "2", "LATE_COMPLETION", NULL);
	enter(&p, "3", "REQUEUED", "default");
	struct mistakes m = count(&p, "pages");
	assert_true(m.day.recoveries == 1 && m.day.mistakes == 0);
	assert_true(m.week.recoveries == 2 && m.week.mistakes == 1);
	assert_int_equal(candidates(&p, &out), 1);
	close_place(&p);
}

static void what_a_person_did_is_no_verdict(enum store_engine engine)
{
	struct recovered *out;
	struct place p;
	open_place(&p, engine);
	enter(&p, "1", "REQUEUED", "chosen-by-hand");
	enter(&p, "1", "LATE_COMPLETION", NULL);
	enter(&p, "2", "FAILED", "chosen-by-hand");
	assert_true(count(&p, "pages").day.recoveries == 0);
	assert_int_equal(candidates(&p, &out), 0);
	close_place(&p);
}

static void a_late_completion_without_a_recovery_counts_for_nothing(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	enter(&p, "1", "LATE_COMPLETION", NULL);
	enter(&p, "1", "REQUEUED", "default");
	assert_true(count(&p, "pages").day.mistakes == 0);
	close_place(&p);
}

static void the_last_recovery_of_a_job_is_looked_at_until_it_is_noted(enum store_engine engine)
{
	struct recovered *out;
	struct place p;
	open_place(&p, engine);
	enter(&p, "1", "REQUEUED", "default");
	enter(&p, "1", "REQUEUED", "default");
	enter(&p, "2", "FAILED", "default");
	enter(&p, "3", "HELD", "default");
	assert_int_equal(candidates(&p, &out), 2);
	assert_string_equal(out[0].job, "2");
	assert_string_equal(out[1].job, "1");
	assert_int_equal(note(&p, "1"), 1);
	assert_int_equal(candidates(&p, &out), 1);
	close_place(&p);
}

static void what_another_has_noted_meanwhile_is_not_noted_again(enum store_engine engine)
{
	struct place p;
	open_place(&p, engine);
	enter(&p, "1", "REQUEUED", "default");
	assert_int_equal(note(&p, "1"), 1);
	assert_int_equal(note(&p, "1"), 0);
	assert_int_equal(note(&p, "unknown"), 0);
	assert_string_equal(cell(&p, "SELECT count(*) FROM %s WHERE event = 'LATE_COMPLETION'"), "1");
	close_place(&p);
}

/* Whatever fails, before the database has done it. */
static void what_could_not_be_noted_is_an_error_and_still_a_candidate(enum store_engine engine)
{
	struct recovered *out;
	struct place p;
	open_place(&p, engine);
	for (int call = 0; call < FAULT_CALLS; call++) {
		enter(&p, "1", "REQUEUED", "default");
		for (int nth = 1, fired = 1; fired; nth++) {
			struct fault_plan plan = {
				.call = (enum fault_call)call, .nth = nth, .code = DEFIB_TIMEOUT};
			struct fault_store *s = (struct fault_store *)fault_wrap(p.store, &plan);
			struct ledger_entry e = {.job = "1", .event = "LATE_COMPLETION", .rule = "late-when"};
			struct failure f = {0};
			int64_t noted = -1;
			defib_err err = mistakes_note(&s->base, &context, &e, 1, DAY, &p.arena, &noted, &f);
			fired = plan.fired;
			assert_int_equal(err, fired ? DEFIB_TIMEOUT : DEFIB_OK);
			assert_int_equal(noted, !fired);
			assert_int_equal(candidates(&p, &out), fired);
			free(s);
		}
	}
	close_place(&p);
}

#define BEHAVIOURS(X)                                                                              \
	X(a_late_completion_makes_its_recovery_a_mistake)                                              \
	X(only_the_last_recovery_before_it_is_blamed_and_once)                                         \
	X(old_ones_are_not_of_today)                                                                   \
	X(what_a_person_did_is_no_verdict)                                                             \
	X(a_late_completion_without_a_recovery_counts_for_nothing)                                     \
	X(the_last_recovery_of_a_job_is_looked_at_until_it_is_noted)                                   \
	X(what_another_has_noted_meanwhile_is_not_noted_again)                                         \
	X(what_could_not_be_noted_is_an_error_and_still_a_candidate)
BEHAVIOURS(ON_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {BEHAVIOURS(ROWS_OF)};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
