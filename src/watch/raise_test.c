/* SPDX-License-Identifier: Apache-2.0
 * raise_test.c: hours of high load: where they begin and end, across midnight, and which one
 * applies if several do.
 */
#include "base/clock.h"
#include "watch/watch_test.h"

#define KEYS "table: pages\nkey: id\nrunning: a\nalive_at: b\nstuck_after: 60m\nrequeue: c = 1\n"

/* 2026-01-05 was a Monday. */
#define MONDAY (INT64_C(20458) * 86400 * US_PER_S)
#define AT(day, hour, minute)                                                                      \
	(MONDAY + (INT64_C(60) * (INT64_C(24) * (day) + (hour)) + (minute)) * 60 * US_PER_S)
enum { MON, TUE, WED, THU, FRI, SAT, SUN, NEXT_MON };

static double factor_of(const char *raise, int64_t now_us)
{
	struct reading r;
	struct buf keys = BUF_INIT;
	buf_addf(&keys, KEYS "raise: %s\n", raise);
	reading_open_watch(&r, "sqlite:x.db", buf_text(&keys));
	assert_clean(&r);
	double factor = watch_raise(&r.settings.watches[0], now_us);
	reading_release(&r);
	buf_release(&keys);
	return factor;
}

static void without_hours_nothing_is_raised(void **state)
{
	(void)state;
	assert_true(factor_of("[]", AT(MON, 12, 0)) == 1);
}

static void a_span_holds_from_its_first_moment_to_before_its_last(void **state)
{
	static const char span[] = "[{days: [fri, sat], from: '18:00', to: '23:30', factor: 2.5}]";
	(void)state;
	assert_true(factor_of(span, AT(FRI, 18, 0) - 1) == 1);
	assert_true(factor_of(span, AT(FRI, 18, 0)) == 2.5);
	assert_true(factor_of(span, AT(SAT, 23, 30) - 1) == 2.5);
	assert_true(factor_of(span, AT(SAT, 23, 30)) == 1);
	assert_true(factor_of(span, AT(THU, 20, 0)) == 1);
	assert_true(factor_of(span, AT(SUN, 20, 0)) == 1);
}

static void a_span_over_midnight_belongs_to_the_day_it_begins_on(void **state)
{
	static const char span[] = "[{days: [sun], from: '22:00', to: '02:00', factor: 3}]";
	(void)state;
	assert_true(factor_of(span, AT(SUN, 1, 0)) == 1);
	assert_true(factor_of(span, AT(SUN, 22, 0)) == 3);
	assert_true(factor_of(span, AT(NEXT_MON, 0, 0)) == 3);
	assert_true(factor_of(span, AT(NEXT_MON, 2, 0) - 1) == 3);
	assert_true(factor_of(span, AT(NEXT_MON, 2, 0)) == 1);
	assert_true(factor_of(span, AT(NEXT_MON, 22, 0)) == 1);
}

static void without_days_it_is_every_day_and_without_times_all_day(void **state)
{
	(void)state;
	for (int day = MON; day <= SUN; day++) {
		assert_true(factor_of("[{from: '10:00', to: '11:00', factor: 2}]", AT(day, 10, 30)) == 2);
		assert_true(factor_of("[{factor: 4}]", AT(day, 0, 0)) == 4);
		assert_true(factor_of("[{factor: 4}]", AT(day, 24, 0) - 1) == 4);
	}
}

static void of_several_that_hold_the_greatest_counts(void **state)
{
	static const char spans[] = "[{from: '08:00', to: '12:00', factor: 5}, "
								"{from: '10:00', to: '14:00', factor: 2}]";
	(void)state;
	assert_true(factor_of(spans, AT(TUE, 9, 0)) == 5);
	assert_true(factor_of(spans, AT(TUE, 11, 0)) == 5);
	assert_true(factor_of(spans, AT(TUE, 13, 0)) == 2);
	assert_true(factor_of(spans, AT(TUE, 15, 0)) == 1);
}

static void what_cannot_be_meant_is_refused(void **state)
{
	static const struct {
		const char *raise, *words;
	} demands[] = {
		{"[{factor: 0.5}]", "factor is from 1 to 100"},
		{"[{factor: 101}]", "factor is from 1 to 100"},
		{"[{from: '18:00', to: '20:00'}]", "factor"},
		{"[{days: [freitag], factor: 2}]", "\"freitag\" is not a day"},
		{"[{from: '6pm', factor: 2}]", "times of the day in UTC"},
		{"[{from: '18:60', factor: 2}]", "times of the day in UTC"},
		{"[{to: '24:01', factor: 2}]", "times of the day in UTC"},
		{"[{from: '18:00', to: '18:00', factor: 2}]", "the same moment"},
		{"[{form: '18:00', factor: 2}]", "from"},
		{"2.5", "expects a list"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof demands / sizeof *demands; i++) {
		struct reading r;
		struct buf keys = BUF_INIT;
		buf_addf(&keys, KEYS "raise: %s\n", demands[i].raise);
		reading_open_watch(&r, "sqlite:x.db", buf_text(&keys));
		if (r.reader.nerrors != 1 || !reading_said(&r, demands[i].words, false)) {
			print_problems(&r);
			fail_msg("%s: not just \"%s\"", demands[i].raise, demands[i].words);
		}
		reading_release(&r);
		buf_release(&keys);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_hours_nothing_is_raised),
		cmocka_unit_test(a_span_holds_from_its_first_moment_to_before_its_last),
		cmocka_unit_test(a_span_over_midnight_belongs_to_the_day_it_begins_on),
		cmocka_unit_test(without_days_it_is_every_day_and_without_times_all_day),
		cmocka_unit_test(of_several_that_hold_the_greatest_counts),
		cmocka_unit_test(what_cannot_be_meant_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
