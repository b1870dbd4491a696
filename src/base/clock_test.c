/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "base/test.h"

static void durations_are_read_exactly(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t us;
	} cases[] = {
		{"90s", 90 * US_PER_S},
		{"60m", 3600 * US_PER_S},
		{"1h30m", 5400 * US_PER_S},
		{"250ms", 250000},
		{"2d", 172800 * US_PER_S},
		{"1.5h", 5400 * US_PER_S},
		{"0.1s", 100000},
		{"0s", 0},
		{"15us", 15},
		{"2h 5m", 7500 * US_PER_S},
		{".5s", 500000},
		{"36525d", INT64_C(36525) * 86400 * US_PER_S},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t us = -1;
		assert_true(duration_parse(cases[i].text, &us));
		assert_int_equal(us, cases[i].us);
	}
}

static void what_is_no_duration_is_refused(void **state)
{
	(void)state;
	static const char *const cases[] = {
		"",
		"5",
		"h",
		"-1s",
		"+1s",
		"1 h",
		" 1h",
		"1h ",
		"1h  5m",
		"1x",
		"1h5",
		"1s1",
		"1H",
		".s",
		"1..5s",
		"1e3s",
		"nan",
		"36526d",
		"1h\n",
		"99999999999999999999s",
		"9223372036854775807d",
		"36525d1s",
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t us = -1;
		if (duration_parse(cases[i], &us))
			fail_msg("\"%s\" was read as %lld us", cases[i], (long long)us);
		assert_int_equal(us, -1);
	}
}

static void durations_for_people_have_at_most_two_units(void **state)
{
	(void)state;
	static const struct {
		int64_t us;
		const char *text;
	} cases[] = {
		{0, "0s"},
		{5, "5us"},
		{250000, "250ms"},
		{45 * US_PER_S + 3000, "45s"},
		{60 * US_PER_S, "1m"},
		{7500 * US_PER_S, "2h 5m"},
		{7200 * US_PER_S + 5 * US_PER_S, "2h"},
		{(3 * 24 + 4) * 3600 * US_PER_S, "3d 4h"},
		{-60 * US_PER_S, "0s"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf b = BUF_INIT;
		duration_text(cases[i].us, &b);
		assert_string_equal(buf_text(&b), cases[i].text);
		buf_release(&b);
	}
}

static void instants_are_iso_with_milliseconds(void **state)
{
	(void)state;
	static const struct {
		int64_t us;
		const char *text;
	} cases[] = {
		{0, "1970-01-01T00:00:00.000Z"},
		{INT64_C(1767323045123456), "2026-01-02T03:04:05.123Z"},
		{-1, "1969-12-31T23:59:59.999Z"},
		{-1000000, "1969-12-31T23:59:59.000Z"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf b = BUF_INIT;
		time_iso(cases[i].us, &b);
		assert_string_equal(buf_text(&b), cases[i].text);
		buf_release(&b);
	}
}

static void an_instant_reads_back_as_it_was_written(void **state)
{
	static const int64_t all[] = {0, INT64_C(1767323045123000), INT64_C(951827696999000)};
	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct buf b = BUF_INIT;
		int64_t us = -1;
		time_iso(all[i], &b);
		assert_true(time_parse(buf_text(&b), &us));
		assert_true(us == all[i]);
		buf_release(&b);
	}
	assert_false(time_parse(NULL, &(int64_t){0}));
	assert_false(time_parse("yesterday", &(int64_t){0}));
}

static void the_boot_clock_never_goes_back(void **state)
{
	(void)state;
	int64_t before = clock_boot_us();
	assert_true(clock_boot_us() >= before);
	assert_true(clock_boot_ms() >= before / 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations_are_read_exactly),
		cmocka_unit_test(what_is_no_duration_is_refused),
		cmocka_unit_test(durations_for_people_have_at_most_two_units),
		cmocka_unit_test(instants_are_iso_with_milliseconds),
		cmocka_unit_test(an_instant_reads_back_as_it_was_written),
		cmocka_unit_test(the_boot_clock_never_goes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
