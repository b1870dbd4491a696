/* SPDX-License-Identifier: Apache-2.0 */
/* lost_job_test.c: the outcome for a job of a lost worker is logged once per change. */
#include "worker/lost_job.h"

#include "base/test.h"

static const struct watch jobs = {.name = "jobs", .alive_at = {.text = "updated_at"}};

static struct candidate lost(enum outcome outcome)
{
	struct candidate c = {.facts = {.job = "1", .owner = "w1"}, .outcome = outcome};
	c.facts.has_sign[SIGN_ALIVE] = true;
	c.facts.sign_us[SIGN_ALIVE] = 1;
	c.decision.act = true;
	return c;
}

static void the_same_is_said_once(void **state)
{
	static struct lost_jobs logged;
	struct candidate c = lost(OUTCOME_REFUSED);
	(void)state;
	assert_true(lost_job_is_new(&logged, &jobs, &c));
	assert_false(lost_job_is_new(&logged, &jobs, &c));
	c.facts.job = "2";
	assert_true(lost_job_is_new(&logged, &jobs, &c));
}

static void another_outcome_owner_or_run_is_news(void **state)
{
	static struct lost_jobs logged;
	struct candidate c = lost(OUTCOME_LOCKED);
	(void)state;
	assert_true(lost_job_is_new(&logged, &jobs, &c));
	c.outcome = OUTCOME_RECOVERED;
	assert_true(lost_job_is_new(&logged, &jobs, &c));
	c.facts.owner = "w2";
	assert_true(lost_job_is_new(&logged, &jobs, &c));
	c.facts.sign_us[SIGN_ALIVE] = 2;
	assert_true(lost_job_is_new(&logged, &jobs, &c));
	assert_false(lost_job_is_new(&logged, &jobs, &c));
}

static void a_hold_is_news_for_who_makes_it(void **state)
{
	static struct lost_jobs logged;
	struct candidate c = lost(OUTCOME_HELD);
	(void)state;
	assert_true(lost_job_is_new(&logged, &jobs, &c));
	c.decision.act = false;
	assert_false(lost_job_is_new(&logged, &jobs, &c));
	c.facts.job = "2"; /* held before this worker began */
	assert_false(lost_job_is_new(&logged, &jobs, &c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_is_said_once),
		cmocka_unit_test(another_outcome_owner_or_run_is_news),
		cmocka_unit_test(a_hold_is_news_for_who_makes_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
