/* SPDX-License-Identifier: Apache-2.0
 * excuse_test.c: what an excuse keeps of a job, and each change that ends it or does not.
 */
#include "recover/excuse.h"

#include "base/clock.h"
#include "base/test.h"
#include "recover/decide.h"
#include "recover/judge.h"

#define NOW (INT64_C(1767323045) * US_PER_S)
#define MINUTE (60 * US_PER_S)

/* All signs, one limit each; states and progress are remembered, where they have no time. */
static struct watch all_signs(void)
{
	struct watch w = {.name = "jobs"};
	w.alive_at.text = "beat";
	w.started_at.text = "began";
	w.owner_alive.text = "lives";
	w.stuck_after = (struct threshold){.given = true, .standard_us = MINUTE};
	w.overdue_after = (struct threshold){.given = true, .standard_us = 60 * MINUTE};
	return w;
}

static struct facts job(void)
{
	struct facts f = {.job = "1",
	                  .running = true,
	                  .owner = "w1",
	                  .state = "running",
	                  .owner_alive = KNOWN_NOT,
	                  .has_attempts = true,
	                  .attempts = 1,
	                  .now_us = NOW};
	f.has_sign[SIGN_ALIVE] = f.has_sign[SIGN_STARTED] = true;
	f.sign_us[SIGN_ALIVE] = NOW - 10 * US_PER_S;
	f.sign_us[SIGN_STARTED] = NOW - 10 * MINUTE;
	return f;
}

/* Excused as it is; what the ledger has of it then. */
static struct history excuse(const struct watch *w, const struct facts *f)
{
	struct judgement j = judge(w, f);
	struct hold h;
	excuse_of(w, f, &j, "cli:ana", &h);
	assert_int_not_equal(j.verdict, VERDICT_NONE);
	assert_string_equal(h.cause, HOLD_EXCUSE);
	return (struct history){.held = true,
	                        .hold_owner = h.owner,
	                        .hold_has_sign = h.has_sign,
	                        .hold_sign_us = h.sign_us,
	                        .hold_watch = w->name,
	                        .hold_at_us = NOW,
	                        .excuse = h.excuse};
}

static bool still(const struct watch *w, const struct history *h, struct facts f)
{
	f.excused = excuse_covers(w, h, &f);
	struct judgement j = judge(w, &f);
	return judged_excused(&f, &j);
}

static struct facts moved(struct facts f, enum sign s, int64_t by_us)
{
	f.sign_us[s] += by_us;
	return f;
}

static struct facts late(enum sign s)
{
	return moved(job(), s, -120 * MINUTE);
}

static void a_silent_job_is_excused_until_it_beats(void **state)
{
	struct watch w = all_signs();
	struct facts f = late(SIGN_ALIVE);
	struct history h = excuse(&w, &f);
	(void)state;
	assert_string_equal(h.excuse.sign, "alive");
	assert_true(still(&w, &h, f));
	assert_false(still(&w, &h, moved(f, SIGN_ALIVE, 1)));
	/* Not when another sign moves. */
	assert_true(still(&w, &h, moved(f, SIGN_STARTED, MINUTE)));
}

static void an_overdue_job_is_excused_over_beats_until_it_starts_again(void **state)
{
	struct watch w = all_signs();
	struct facts f = late(SIGN_STARTED);
	struct history h = excuse(&w, &f);
	(void)state;
	assert_true(still(&w, &h, moved(f, SIGN_ALIVE, 5 * US_PER_S)));
	assert_false(still(&w, &h, moved(f, SIGN_STARTED, 1)));
	/* Silence is another verdict. */
	assert_false(still(&w, &h, moved(f, SIGN_ALIVE, -5 * MINUTE)));
}

static void owner_and_attempt_are_the_run(void **state)
{
	struct watch w = all_signs();
	struct facts f = late(SIGN_ALIVE), other = f;
	struct history h = excuse(&w, &f);
	(void)state;
	other.owner = "w2";
	assert_false(still(&w, &h, other));
	other = f;
	other.attempts = 2;
	assert_false(still(&w, &h, other));
	other.has_attempts = false;
	assert_false(still(&w, &h, other));
	other = f;
	other.running = false;
	assert_int_equal(excuse_covers(&w, &h, &other), VERDICT_NONE);
}

static void a_dead_worker_s_job_is_excused_for_its_run(void **state)
{
	struct watch w = all_signs();
	struct facts f = job();
	f.owner_alive = KNOWN_NO;
	struct history h = excuse(&w, &f);
	(void)state;
	assert_true(still(&w, &h, moved(f, SIGN_ALIVE, 5 * US_PER_S)));
	assert_false(still(&w, &h, moved(f, SIGN_STARTED, MINUTE)));
}

static void a_remembered_value_is_what_was_judged(void **state)
{
	struct watch w = all_signs();
	struct facts f = job(), other;
	(void)state;
	w.progress.text = "pages";
	w.stalled_after = (struct threshold){.given = true, .standard_us = 5 * MINUTE};
	f.progress = "12";
	f.has_sign[SIGN_PROGRESS] = true;
	f.sign_us[SIGN_PROGRESS] = NOW - 6 * MINUTE;
	struct history h = excuse(&w, &f);
	assert_string_equal(h.excuse.progress, "12");
	/* A memory that began anew says nothing about the job. */
	assert_true(still(&w, &h, moved(moved(f, SIGN_PROGRESS, US_PER_S), SIGN_ALIVE, US_PER_S)));
	other = f;
	other.progress = "13";
	assert_false(still(&w, &h, other));
	assert_false(still(&w, &h, moved(f, SIGN_STARTED, US_PER_S)));
}

static void a_limit_of_a_state_is_for_that_state(void **state)
{
	static const char *names[] = {"running"};
	static int64_t us[] = {1};
	struct watch w = all_signs();
	struct facts f = job(), other = f;
	(void)state;
	w.stuck_after.states = (struct state_limits){.n = 1, .names = names, .values = names, .us = us};
	struct history h = excuse(&w, &f);
	assert_string_equal(h.excuse.state, "running");
	assert_true(still(&w, &h, f));
	other.state = "closing";
	assert_int_equal(excuse_covers(&w, &h, &other), VERDICT_NONE);
}

static void another_watch_respects_it_until_it_sees_something_newer(void **state)
{
	struct watch w = all_signs(), other = all_signs();
	struct facts f = late(SIGN_STARTED), seen = f;
	struct history h = excuse(&w, &f);
	(void)state;
	other.name = "others";
	seen.owner = "as the other watch names it";
	seen.sign_us[SIGN_STARTED] -= MINUTE;
	assert_true(still(&other, &h, seen));
	assert_true(still(&other, &h, moved(seen, SIGN_ALIVE, 5 * US_PER_S)));
	seen.sign_us[SIGN_STARTED] = NOW + 1;
	seen.now_us = NOW + 120 * MINUTE;
	seen.sign_us[SIGN_ALIVE] = seen.now_us;
	assert_int_equal(excuse_covers(&other, &h, &seen), VERDICT_NONE);
}

static void what_is_no_verdict_excuses_nothing(void **state)
{
	struct watch w = all_signs();
	struct facts f = late(SIGN_ALIVE);
	struct history h = excuse(&w, &f);
	(void)state;
	h.excuse.verdict = "of another kind";
	assert_int_equal(excuse_covers(&w, &h, &f), VERDICT_NONE);
	h.excuse.verdict = "none";
	assert_int_equal(excuse_covers(&w, &h, &f), VERDICT_NONE);
	h.excuse.verdict = NULL;
	assert_int_equal(excuse_covers(&w, &h, &f), VERDICT_NONE);
}

static void nothing_is_done_to_an_excused_job_and_people_see_it_as_not_stuck(void **state)
{
	struct watch w = all_signs();
	struct facts f = late(SIGN_ALIVE);
	struct decide_options o = {.ledger = true};
	(void)state;
	w.actions[REMEDY_REQUEUE].form = ACTION_SET;
	f.excused = VERDICT_SILENT;
	struct judgement j = judge(&w, &f);
	struct decision d = decide(&w, &f, &j, &o);
	assert_string_equal(d.rule, "excused");
	assert_false(d.act);
	j = judge_shown(&w, &f);
	assert_int_equal(j.verdict, VERDICT_NONE);
	assert_true(shown_excused(&f, &j));
	f.excused = VERDICT_OVERDUE;
	j = judge_shown(&w, &f);
	assert_int_equal(j.verdict, VERDICT_SILENT);
	assert_true(decide(&w, &f, &j, &o).act);
	assert_false(shown_excused(&f, &j));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_silent_job_is_excused_until_it_beats),
		cmocka_unit_test(an_overdue_job_is_excused_over_beats_until_it_starts_again),
		cmocka_unit_test(owner_and_attempt_are_the_run),
		cmocka_unit_test(a_dead_worker_s_job_is_excused_for_its_run),
		cmocka_unit_test(a_remembered_value_is_what_was_judged),
		cmocka_unit_test(a_limit_of_a_state_is_for_that_state),
		cmocka_unit_test(another_watch_respects_it_until_it_sees_something_newer),
		cmocka_unit_test(what_is_no_verdict_excuses_nothing),
		cmocka_unit_test(nothing_is_done_to_an_excused_job_and_people_see_it_as_not_stuck),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
