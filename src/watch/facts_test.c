/* SPDX-License-Identifier: Apache-2.0 */
/* facts_test.c: which changes between two readings mean that a job is no longer as judged. */
#include "watch/facts.h"

#include "base/test.h"

static const struct watch watch = {.name = "w", .alive_at.text = "a", .started_at.text = "s"};

static struct facts judged(void)
{
	struct facts f = {.running = true,
	                  .owner_alive = KNOWN_NOT,
	                  .owner = "w-1",
	                  .kind = "crawl",
	                  .has_attempts = true,
	                  .attempts = 2,
	                  .now_us = 100,
	                  .when = 1};
	f.has_sign[SIGN_ALIVE] = true;
	f.sign_us[SIGN_ALIVE] = 50;
	return f;
}

static bool same(struct facts now)
{
	struct facts before = judged();
	return facts_same(&watch, &before, &now);
}

static void the_clock_alone_changes_nothing(void **state)
{
	struct facts now = judged();
	(void)state;
	now.now_us = 999;
	now.position = "elsewhere";
	now.before = "{}";
	assert_true(same(now));
}

static void a_job_that_no_longer_runs_has_changed(void **state)
{
	struct facts now = judged();
	(void)state;
	now.running = false;
	assert_false(same(now));
}

static void another_owner_or_none_is_a_change(void **state)
{
	struct facts now = judged();
	(void)state;
	now.owner = "w-2";
	assert_false(same(now));
	now.owner = NULL;
	assert_false(same(now));
}

static void an_owner_that_came_back_to_life_is_a_change(void **state)
{
	struct facts now = judged();
	(void)state;
	now.owner_alive = KNOWN_YES;
	assert_false(same(now));
}

static void another_state_is_a_change(void **state)
{
	struct facts now = judged();
	(void)state;
	now.state = "cancelling";
	assert_false(same(now));
}

static void progress_is_a_change(void **state)
{
	struct facts now = judged();
	(void)state;
	now.progress = "42 %";
	assert_false(same(now));
}

static void another_time_out_is_a_change(void **state)
{
	struct facts now = judged();
	(void)state;
	now.has_own[SIGN_STARTED] = true;
	assert_false(same(now));
}

static void another_attempt_is_a_change(void **state)
{
	struct facts now = judged();
	(void)state;
	now.attempts = 3;
	assert_false(same(now));
	now = judged();
	now.has_attempts = false;
	assert_false(same(now));
}

static void another_bound_on_attempts_is_a_change(void **state)
{
	struct facts now = judged();
	(void)state;
	now.has_max_attempts = true;
	assert_false(same(now));
	now = judged();
	now.max_attempts = 9;
	assert_false(same(now));
}

/* A claim that changes nothing else: the same worker, the same second. */
static void another_epoch_is_a_change(void **state)
{
	struct facts now = judged();
	(void)state;
	now.has_epoch = true;
	assert_false(same(now));
	now = judged();
	now.epoch = 8;
	assert_false(same(now));
}

static void another_kind_is_a_change(void **state)
{
	struct facts now = judged();
	(void)state;
	now.kind = "scrape";
	assert_false(same(now));
}

static void a_new_sign_of_life_is_a_change(void **state)
{
	struct facts now = judged();
	(void)state;
	now.sign_us[SIGN_ALIVE]++;
	assert_false(same(now));
	now = judged();
	now.has_sign[SIGN_ALIVE] = false;
	assert_false(same(now));
	now = judged();
	now.has_sign[SIGN_STARTED] = true;
	assert_false(same(now));
}

static void a_sign_that_the_watch_does_not_use_is_no_change(void **state)
{
	struct facts now = judged();
	(void)state;
	now.has_sign[SIGN_EXPIRES] = true;
	assert_true(same(now));
}

static void another_condition_of_a_rule_is_a_change(void **state)
{
	struct facts now = judged();
	(void)state;
	now.when = 3;
	assert_false(same(now));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_clock_alone_changes_nothing),
		cmocka_unit_test(a_job_that_no_longer_runs_has_changed),
		cmocka_unit_test(another_owner_or_none_is_a_change),
		cmocka_unit_test(an_owner_that_came_back_to_life_is_a_change),
		cmocka_unit_test(another_state_is_a_change),
		cmocka_unit_test(another_time_out_is_a_change),
		cmocka_unit_test(progress_is_a_change),
		cmocka_unit_test(another_attempt_is_a_change),
		cmocka_unit_test(another_bound_on_attempts_is_a_change),
		cmocka_unit_test(another_epoch_is_a_change),
		cmocka_unit_test(another_kind_is_a_change),
		cmocka_unit_test(a_new_sign_of_life_is_a_change),
		cmocka_unit_test(a_sign_that_the_watch_does_not_use_is_no_change),
		cmocka_unit_test(another_condition_of_a_rule_is_a_change),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
