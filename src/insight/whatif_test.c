/* SPDX-License-Identifier: Apache-2.0 */
/* whatif_test.c: the records, evaluated with another threshold. */
#include "insight/whatif.h"

#include "base/clock.h"
#include "base/test.h"

#define S US_PER_S
#define MIN (60 * US_PER_S)

static const struct watch aged = {.name = "jobs",
                                  .alive_at = {.text = "updated_at"},
                                  .stuck_after = {.given = true, .standard_us = 10 * MIN}};

static struct whatif weigh(const struct whatif_record *record, int64_t then_us)
{
	struct whatif x;
	whatif_weigh(&aged, &aged.stuck_after, then_us, record, &x);
	return x;
}

static void advises(const struct whatif_record *record, int64_t then_us, const char *sentence)
{
	struct whatif x = weigh(record, then_us);
	struct buf text = BUF_INIT;
	whatif_advice(&aged, false, then_us, record, &x, &text);
	assert_string_equal(buf_text(&text), sentence);
	buf_release(&text);
}

static void lost_jobs_would_be_noticed_sooner(void **state)
{
	struct past_recovery past[] = {
		{.job = "1", .measured_us = 11 * MIN, .limit_us = 10 * MIN},
		{.job = "2", .measured_us = 15 * MIN, .limit_us = 10 * MIN},
	};
	struct whatif_record record = {.ledger = true, .nrecoveries = 2, .recoveries = past};
	struct whatif x = weigh(&record, 2 * MIN);
	(void)state;
	assert_true(x.today.recovered == 2 && x.then.recovered == 2 && x.then.wrongly == 0);
	assert_true(x.today.mean_us == 13 * MIN && x.today.worst_us == 15 * MIN);
	/* Scans would have the same delay after it. */
	assert_true(x.then.mean_us == 5 * MIN && x.then.worst_us == 7 * MIN);
	advises(&record, 2 * MIN,
	        "no more jobs of live workers would have been recovered; 2 lost jobs would have been "
	        "detected 8m sooner on average");
}

static void a_mistake_is_spared_by_a_threshold_that_it_did_not_outlast(void **state)
{
	struct past_recovery past[] = {
		{.job = "1",
	     .measured_us = 11 * MIN,
	     .limit_us = 10 * MIN,
	     .late = true,
	     .lived_us = 18 * MIN},
		{.job = "2", .measured_us = 11 * MIN, .limit_us = 10 * MIN},
	};
	struct whatif_record record = {.ledger = true, .nrecoveries = 2, .recoveries = past};
	struct whatif same = weigh(&record, 17 * MIN), spared = weigh(&record, 20 * MIN);
	(void)state;
	assert_true(same.then.recovered == 2 && same.then.wrongly == 1);
	assert_true(spared.then.recovered == 1 && spared.then.wrongly == 0);
	advises(&record, 20 * MIN,
	        "it would have spared 1 job of live workers; 1 lost job would have been detected 10m "
	        "later on average");
}

static void runs_that_took_longer_would_have_been_recovered_alive(void **state)
{
	static struct finished_run runs[200];
	struct whatif_record record = {
		.runs_known = true, .runs_apply = true, .nruns = 200, .runs = runs};
	(void)state;
	for (int i = 0; i < 200; i++)
		runs[i] = (struct finished_run){.job = "x", .took_us = i < 190 ? 20 * S : 100 * S};
	runs[0].took_us = 11 * MIN;
	struct whatif x = weigh(&record, MIN);
	assert_true(x.today.wrongly == 1 && x.then.wrongly == 11);
	assert_true(x.has_safe && x.safe_us >= 11 * MIN);
	advises(&record, MIN,
	        "too short: it would have recovered 10 more jobs of live workers than the current "
	        "threshold; 11m leaves room");
	assert_true(weigh(&record, 12 * MIN).then.wrongly == 0);
}

static void a_run_that_the_ledger_has_as_a_mistake_counts_once(void **state)
{
	struct past_recovery past = {.job = "7",
	                             .measured_us = 11 * MIN,
	                             .limit_us = 10 * MIN,
	                             .late = true,
	                             .lived_us = 18 * MIN};
	struct finished_run run = {.job = "7", .took_us = 18 * MIN};
	struct whatif_record record = {.ledger = true,
	                               .nrecoveries = 1,
	                               .recoveries = &past,
	                               .runs_known = true,
	                               .runs_apply = true,
	                               .nruns = 1,
	                               .runs = &run};
	(void)state;
	assert_true(weigh(&record, 5 * MIN).then.wrongly == 1);
	assert_true(weigh(&record, 5 * MIN).today.wrongly == 1);
}

static void under_twice_the_beat_it_says_no(void **state)
{
	struct watch beating = aged;
	struct whatif_record record = {0};
	struct whatif x;
	struct buf text = BUF_INIT;
	(void)state;
	beating.beat_us = 30 * S;
	whatif_weigh(&beating, &beating.stuck_after, 59 * S, &record, &x);
	whatif_advice(&beating, false, 59 * S, &record, &x, &text);
	assert_string_equal(
		buf_text(&text),
		"too short: under twice the beat of 30s, so live workers would be declared dead");
	buf_release(&text);
}

static void without_a_record_nothing_is_said(void **state)
{
	struct whatif_record record = {.ledger = true, .runs_known = true, .runs_apply = true};
	(void)state;
	advises(&record, MIN, "there are no records for that time");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lost_jobs_would_be_noticed_sooner),
		cmocka_unit_test(a_mistake_is_spared_by_a_threshold_that_it_did_not_outlast),
		cmocka_unit_test(runs_that_took_longer_would_have_been_recovered_alive),
		cmocka_unit_test(a_run_that_the_ledger_has_as_a_mistake_counts_once),
		cmocka_unit_test(under_twice_the_beat_it_says_no),
		cmocka_unit_test(without_a_record_nothing_is_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
