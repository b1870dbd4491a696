/* SPDX-License-Identifier: Apache-2.0 */
/* report_test.c: the totals of a report, without a database. */
#include "insight/report.h"

#include "base/clock.h"
#include "base/test.h"

static int64_t at(const char *iso)
{
	int64_t us = 0;
	assert_true(time_parse(iso, &us));
	return us;
}

static void days_are_all_there_over_the_end_of_a_year(void **state)
{
	struct arena a = ARENA_INIT;
	struct report_day *days;
	struct period p = {at("2027-12-30T12:00:00.000Z"), at("2028-01-02T12:00:00.000Z")};
	(void)state;
	assert_int_equal(report_days(&p, &a, &days), 4);
	assert_string_equal(days[0].day, "2027-12-30");
	assert_string_equal(days[2].day, "2028-01-01");
	assert_string_equal(days[3].day, "2028-01-02");
	arena_release(&a);
}

static void a_day_that_only_ends_the_period_is_not_part_of_it(void **state)
{
	struct arena a = ARENA_INIT;
	struct report_day *days;
	struct period p = {at("2028-02-28T00:00:00.000Z"), at("2028-03-01T00:00:00.000Z")};
	(void)state;
	assert_int_equal(report_days(&p, &a, &days), 2);
	assert_string_equal(days[1].day, "2028-02-29");
	arena_release(&a);
}

static void events_count_for_what_they_are(void **state)
{
	static const struct digest_event events[] = {
		{false, "2028-02-28", "REQUEUED", NULL, true, false, 3},
		{false, "2028-02-29", "FAILED", NULL, true, false, 2},
		{false, "2028-02-29", "FAILED", NULL, false, true, 10}, /* jobs that were not stuck */
		{false, "2028-02-29", "HELD", NULL, true, false, 4},
		{false, "2028-02-29", "HELD", NULL, false, true, 5},
		{false, "2028-02-29", "REQUEUED", NULL, true, true, 20},
		{false, "2028-02-29", "ROLLBACK_STARTED", NULL, true, false, 30},
		{false, "2028-02-29", "ROLLBACK_STARTED", NULL, false, false, 40}, /* a step failed */
		{false, "2028-02-29", "ROLLED_BACK", NULL, false, false, 69},
		{false, "2028-02-29", "GUARD_HELD", "brake-holds", false, false, 6},
		{false, "2028-02-29", "GUARD_HELD", "brake-lets-go", false, false, 7},
		{false, "2028-02-29", "SOMETHING_NEW", NULL, true, false, 8},
		{true, "2028-02-27", "RETRY_SCHEDULED", NULL, true, false, 9},
	};
	struct arena a = ARENA_INIT;
	struct report_watch w = {0};
	struct period p = {at("2028-02-28T00:00:00.000Z"), at("2028-03-01T00:00:00.000Z")};
	(void)state;
	w.ndays = report_days(&p, &a, &w.days);
	report_add_up(events, sizeof events / sizeof *events, &w);
	assert_true(w.now.detected == 39 && w.now.recovered == 55 && w.now.recovered_by_hand == 20);
	assert_true(w.now.by_remedy[REMEDY_REQUEUE] == 23 && w.now.by_remedy[REMEDY_FAIL] == 2 &&
	            w.now.by_remedy[REMEDY_ROLLBACK] == 30);
	assert_true(w.now.rolled_back == 69);
	assert_true(w.now.held == 4 && w.now.by_hand == 35 && w.now.brakes == 6);
	assert_true(w.before.recovered == 9 && w.before.by_remedy[REMEDY_RETRY] == 9);
	assert_true(w.days[0].recovered == 3 && w.days[0].held == 0);
	assert_true(w.days[1].recovered == 52 && w.days[1].held == 4);
	arena_release(&a);
}

static void the_total_is_the_sum_over_watches(void **state)
{
	struct report_watch watches[] = {
		{.now = {.recovered = 1, .by_hand = 2}, .before = {.recovered = 3}},
		{.now = {.recovered = 10, .by_hand = 20}, .before = {.recovered = 30}}};
	struct report r = {.nwatches = 2, .watches = watches};
	struct report_numbers now, before;
	(void)state;
	report_total(&r, &now, &before);
	assert_true(now.recovered == 11 && now.by_hand == 22 && before.recovered == 33);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(days_are_all_there_over_the_end_of_a_year),
		cmocka_unit_test(a_day_that_only_ends_the_period_is_not_part_of_it),
		cmocka_unit_test(events_count_for_what_they_are),
		cmocka_unit_test(the_total_is_the_sum_over_watches),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
