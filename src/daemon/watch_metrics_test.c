/* SPDX-License-Identifier: Apache-2.0
 * watch_metrics_test.c: events on a watch, as numbers. Time is a parameter; nothing here queries a
 * database.
 */
#include "daemon/watch_metrics.h"

#include "base/test.h"
#include "ledger/events.h"

#define S INT64_C(1000000)
#define NOW (1000000 * S)

static struct metrics *all;
static struct watch_metrics meter;
static const struct watch watch = {.name = "pages", .every_us = 60 * S};

static int begin(void **state)
{
	(void)state;
	all = metrics_new();
	watch_metrics_init(&meter, all, "pages", "main");
	return 0;
}

static int end(void **state)
{
	(void)state;
	watch_metrics_release(&meter);
	metrics_free(all);
	return 0;
}

/* A job that was silent for this long with a threshold of an hour. */
static struct candidate silent_for(int64_t us, enum outcome outcome)
{
	return (struct candidate){
		.facts = {.now_us = NOW,
	              .has_sign = {[SIGN_ALIVE] = true},
	              .sign_us = {[SIGN_ALIVE] = NOW - us}},
		.judgement = {.verdict = VERDICT_SILENT,
	                  .sign = SIGN_ALIVE,
	                  .measured = true,
	                  .measured_us = us,
	                  .limit_us = 3600 * S},
		.decision = {.remedy = REMEDY_REQUEUE, .act = true},
		.outcome = outcome,
	};
}

static void pass(const struct scan_result *r)
{
	struct guard_report g = {.rate = 75};
	watch_metrics_pass(&meter,
	                   &(struct watch_metrics_pass){
						   .watch = &watch, .result = r, .guard = &g, .factor = 1, .wall_us = NOW});
}

static double value(enum metric id, const char *last)
{
	double v = -1;
	(void)metrics_value(all, id, LABELS("pages", "main", last), &v, NULL);
	return v;
}

static double recovered(const char *remedy, const char *by)
{
	double v = -1;
	(void)metrics_value(all, METRIC_RECOVERED, LABELS("pages", "main", remedy, by), &v, NULL);
	return v;
}

static double sum(enum metric id)
{
	double count, s = -1;
	(void)metrics_value(all, id, LABELS("pages", "main"), &count, &s);
	return s;
}

static void detection_and_recovery_count_from_the_last_sign_of_life(void **state)
{
	(void)state;
	struct candidate c = silent_for(3700 * S, OUTCOME_RECOVERED);
	watch_metrics_begin(&meter, 0, 1);
	watch_metrics_job(&meter, &c, NOW + 2 * S);
	pass(&(struct scan_result){.found = 1}); /* without a ledger what the pass did is counted */
	assert_true(sum(METRIC_DETECTION) == 3700);
	assert_true(sum(METRIC_RECOVERY) == 3702);
	assert_true(value(METRIC_DETECTED, "silent") == 1);
	assert_true(recovered("requeue", "automation") == 1);
}

static void a_death_that_was_seen_counts_from_the_exit(void **state)
{
	(void)state;
	struct candidate c = silent_for(3700 * S, OUTCOME_RECOVERED);
	c.judgement = (struct judgement){.verdict = VERDICT_DEAD};
	c.facts.has_lost = true;
	c.facts.lost_us = NOW - S / 2;
	watch_metrics_begin(&meter, 0, 1);
	watch_metrics_job(&meter, &c, NOW + S / 2);
	pass(&(struct scan_result){.found = 1});
	assert_true(sum(METRIC_DETECTION) == 0.5);
	assert_true(sum(METRIC_RECOVERY) == 1);
	assert_true(value(METRIC_DETECTED, "dead") == 1);
}

static void one_that_a_guard_holds_is_found_often_and_detected_once(void **state)
{
	(void)state;
	struct scan_result r = {.found = 1, .outcomes = {[OUTCOME_GUARDED] = 1}};
	struct candidate c = silent_for(3700 * S, OUTCOME_GUARDED);
	for (int i = 0; i < 3; i++) {
		watch_metrics_begin(&meter, 0, 1 + i);
		watch_metrics_job(&meter, &c, NOW);
		pass(&r);
	}
	assert_true(value(METRIC_FOUND, NULL) == 3);
	assert_true(value(METRIC_DETECTED, "silent") == 0);
	c.outcome = OUTCOME_RECOVERED;
	watch_metrics_begin(&meter, 0, 4);
	watch_metrics_job(&meter, &c, NOW);
	pass(&r);
	assert_true(value(METRIC_DETECTED, "silent") == 1);
}

/* Other processes may write entries too: a daemon's own passes are counted from the ledger. */
static void where_there_is_a_ledger_its_entries_are_counted_whoever_wrote_them(void **state)
{
	static const struct event_count entries[] = {
		{"pages", "REQUEUED", "silent", false, COUNTS_DETECTED | COUNTS_RECOVERED, 3},
		{"pages", "REQUEUED", "silent", true, COUNTS_RECOVERED, 2},
		{"pages", "HELD", "silent", false, COUNTS_DETECTED | COUNTS_HELD, 4},
		{"pages", "ROLLBACK_STARTED", NULL, false, 0, 9},
		{"pages", "ROLLED_BACK", NULL, false, COUNTS_ROLLED_BACK, 5},
		{"pages", "RETRIED", NULL, false, 0, 6},
		{"pages", "SOMETHING_NEW", "silent", false, 0, 7},
	};
	(void)state;
	struct candidate c = silent_for(3700 * S, OUTCOME_RECOVERED);
	watch_metrics_begin(&meter, 0, 1);
	watch_metrics_job(&meter, &c, NOW);
	pass(&(struct scan_result){.found = 1, .ledger = true, .outcomes = {[OUTCOME_RECOVERED] = 1}});
	assert_true(value(METRIC_DETECTED, "silent") == 0);
	assert_true(recovered("requeue", "automation") == 0);
	assert_true(sum(METRIC_DETECTION) == 0);
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
		watch_metrics_entries(&meter, &entries[i]);
	watch_metrics_times(&meter, &(struct detection_count){"pages", {2, -1}, {7500, 0}, 7});
	assert_true(sum(METRIC_DETECTION) == 7.5 && sum(METRIC_RECOVERY) == 0);
	assert_true(value(METRIC_DETECTED, "silent") == 7);
	assert_true(recovered("requeue", "automation") == 3 && recovered("requeue", "person") == 2);
	assert_true(recovered("rollback", "automation") == 0);
	assert_true(value(METRIC_HELD, "automation") == 4 && value(METRIC_HELD, "person") == 0);
	assert_true(value(METRIC_ROLLED_BACK, NULL) == 5 && value(METRIC_RETRIES_FIRED, NULL) == 6);
	assert_true(value(METRIC_EVENTS, "SOMETHING_NEW") == 7);
}

static void a_report_counts_once_and_a_hold_when_it_is_made(void **state)
{
	(void)state;
	struct candidate c = silent_for(3700 * S, OUTCOME_LEFT);
	c.decision = (struct decision){.remedy = REMEDY_REPORT};
	watch_metrics_begin(&meter, 0, 1);
	watch_metrics_job(&meter, &c, NOW);
	c.facts.noted = true;
	watch_metrics_job(&meter, &c, NOW);
	c = silent_for(3700 * S, OUTCOME_HELD);
	c.decision.act = false; /* already on hold */
	watch_metrics_job(&meter, &c, NOW);
	pass(&(struct scan_result){.found = 3});
	assert_true(value(METRIC_DETECTED, "silent") == 1);
	assert_true(recovered("requeue", "automation") == 0);
	watch_metrics_begin(&meter, 0, 2);
	watch_metrics_job(&meter, &c, NOW);
	pass(&(struct scan_result){.found = 1});
	assert_true(value(METRIC_STUCK_OLDEST, NULL) == 0);
}

static void stuck_is_counted_before_anything_was_done(void **state)
{
	(void)state;
	struct scan_result r = {.found = 12,
	                        .outcomes = {[OUTCOME_RECOVERED] = 7, [OUTCOME_HELD] = 3},
	                        .held_before = 1,
	                        .near_misses = 2};
	struct candidate c = silent_for(7200 * S, OUTCOME_RECOVERED);
	watch_metrics_begin(&meter, 0, 1);
	watch_metrics_job(&meter, &c, NOW);
	pass(&r);
	assert_true(value(METRIC_STUCK, NULL) == 12);
	assert_true(value(METRIC_STUCK_OLDEST, NULL) == 7200);
	assert_true(value(METRIC_HELD, "automation") == 2);
	assert_true(value(METRIC_NEAR_MISSES, NULL) == 2);
	assert_true(value(METRIC_PASS_JOBS, "recovered") == 7);
}

static void what_waits_behind_the_pace_is_stuck_too(void **state)
{
	(void)state;
	struct scan_result r = {.found = 101,
	                        .left = 900,
	                        .outcomes = {[OUTCOME_RECOVERED] = 100, [OUTCOME_GUARDED] = 1},
	                        .guarded = {[GUARD_PACE] = 1}};
	watch_metrics_begin(&meter, 0, 1);
	pass(&r);
	assert_true(value(METRIC_STUCK, NULL) == 1000);
	assert_true(value(METRIC_PACE_WAITING, NULL) == 900);
	assert_true(value(METRIC_GUARDED, "pace") == 1);
}

static void a_pass_that_failed_leaves_what_was_seen_and_the_last_finished_one(void **state)
{
	(void)state;
	struct scan_result good = {.found = 4}, bad = {.failure = {.code = DEFIB_TIMEOUT}};
	watch_metrics_begin(&meter, 0, 1);
	pass(&good);
	watch_metrics_begin(&meter, 0, 2);
	watch_metrics_pass(&meter,
	                   &(struct watch_metrics_pass){
						   .watch = &watch,
						   .result = &bad,
						   .guard = &(struct guard_report){.braking = true, .doubting = true},
						   .wall_us = NOW + 60 * S});
	assert_true(value(METRIC_STUCK, NULL) == 4);
	assert_true(value(METRIC_LAST_PASS, NULL) == 1e6);
	assert_true(value(METRIC_PASSES, "ok") == 1 && value(METRIC_PASSES, "failed") == 1);
	assert_true(value(METRIC_BRAKE, NULL) == 1);
	assert_true(value(METRIC_DOUBT, NULL) == 1);
}

static void lag_is_how_late_a_pass_began_and_interval_what_lies_between(void **state)
{
	(void)state;
	watch_metrics_begin(&meter, 1000, 1250);
	assert_true(sum(METRIC_LAG) == 0.25);
	assert_true(value(METRIC_INTERVAL, NULL) == -1);
	watch_metrics_begin(&meter, 0, 3250); /* it was requested: not late */
	assert_true(sum(METRIC_LAG) == 0.25);
	assert_true(value(METRIC_INTERVAL, NULL) == 2);
}

static void what_another_leads_he_shows_and_an_outage_leaves_what_was_seen(void **state)
{
	(void)state;
	struct scan_result r = {.found = 4};
	watch_metrics_leads(&meter, true);
	assert_true(value(METRIC_LEADER, NULL) == 1);
	watch_metrics_begin(&meter, 0, 1);
	pass(&r);
	watch_metrics_away(&meter);
	assert_true(value(METRIC_LEADER, NULL) == 0);
	assert_true(value(METRIC_STUCK, NULL) == 4 && value(METRIC_LAST_PASS, NULL) == 1e6);
	watch_metrics_leads(&meter, false); /* the database is back, and another daemon was first */
	assert_true(value(METRIC_STUCK, NULL) == -1 && value(METRIC_LAST_PASS, NULL) == -1);
	assert_true(value(METRIC_FOUND, NULL) == 4);
}

static void a_watch_that_is_gone_leaves_nothing(void **state)
{
	(void)state;
	struct buf out = BUF_INIT;
	watch_metrics_begin(&meter, 0, 1);
	pass(&(struct scan_result){.found = 1});
	watch_metrics_end(&meter);
	metrics_write(all, NULL, false, &out);
	assert_string_equal(buf_text(&out), "");
	buf_release(&out);
}

static void nobody_counts_without_a_registry(void **state)
{
	(void)state;
	struct watch_metrics none;
	struct candidate c = silent_for(3700 * S, OUTCOME_RECOVERED);
	watch_metrics_init(&none, NULL, "pages", "main");
	watch_metrics_begin(&none, 1, 2);
	watch_metrics_job(&none, &c, NOW);
	watch_metrics_leads(&none, true);
	watch_metrics_end(&none);
	watch_metrics_release(&none);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(detection_and_recovery_count_from_the_last_sign_of_life),
		TEST(a_death_that_was_seen_counts_from_the_exit),
		TEST(one_that_a_guard_holds_is_found_often_and_detected_once),
		TEST(where_there_is_a_ledger_its_entries_are_counted_whoever_wrote_them),
		TEST(a_report_counts_once_and_a_hold_when_it_is_made),
		TEST(stuck_is_counted_before_anything_was_done),
		TEST(what_waits_behind_the_pace_is_stuck_too),
		TEST(a_pass_that_failed_leaves_what_was_seen_and_the_last_finished_one),
		TEST(lag_is_how_late_a_pass_began_and_interval_what_lies_between),
		TEST(what_another_leads_he_shows_and_an_outage_leaves_what_was_seen),
		TEST(a_watch_that_is_gone_leaves_nothing),
		TEST(nobody_counts_without_a_registry),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
