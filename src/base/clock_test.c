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
		{"15 µs", 15},
		{"1s 250 ms", 1250000},
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
		"1  ms",
		"1 us",
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

/* A limit of 0 is none. */
static void what_is_shorter_than_a_millisecond_is_one(void **state)
{
	(void)state;
	assert_int_equal(ms_from_us(0), 0);
	assert_int_equal(ms_from_us(1), 1);
	assert_int_equal(ms_from_us(1000), 1);
	assert_int_equal(ms_from_us(1001), 2);
	assert_int_equal(ms_from_us(DURATION_MOST_US), DURATION_MOST_US / 1000);
}

static void durations_for_people_have_at_most_two_units(void **state)
{
	(void)state;
	static const struct {
		int64_t us;
		const char *text;
	} cases[] = {
		{0, "0s"},
		{5, "5 µs"},
		{250000, "250 ms"},
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

#define DRAWS 100000

static void draws_are_spread_evenly_from_any_seed(void **state)
{
	static const uint64_t seeds[] = {0, 1, 2, UINT64_MAX, 88172645463325252U};
	(void)state;
	for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s++) {
		struct chance c = {seeds[s]};
		int tenths[10] = {0};
		for (int i = 0; i < DRAWS; i++) {
			double one = chance_draw(&c);
			assert_true(one >= 0 && one < 1);
			tenths[(int)(one * 10)]++;
		}
		for (int i = 0; i < 10; i++)
			assert_in_range(tenths[i], DRAWS / 10 - DRAWS / 100, DRAWS / 10 + DRAWS / 100);
	}
}

static void a_seed_tells_what_is_drawn_and_the_next_seed_draws_otherwise(void **state)
{
	struct chance a = {7}, same = {7}, beside = {8};
	(void)state;
	double first = chance_draw(&a);
	assert_true(first == chance_draw(&same));
	assert_true(first != chance_draw(&beside));
}

static void seeds_and_bytes_differ_each_time(void **state)
{
	struct chance a, b;
	unsigned char some[16], others[16];
	(void)state;
	chance_seed(&a);
	chance_seed(&b);
	assert_true(a.state != b.state);
	assert_true(chance_bytes(some, sizeof some));
	assert_true(chance_bytes(others, sizeof others));
	assert_memory_not_equal(some, others, sizeof some);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations_are_read_exactly),
		cmocka_unit_test(what_is_no_duration_is_refused),
		cmocka_unit_test(what_is_shorter_than_a_millisecond_is_one),
		cmocka_unit_test(durations_for_people_have_at_most_two_units),
		cmocka_unit_test(instants_are_iso_with_milliseconds),
		cmocka_unit_test(an_instant_reads_back_as_it_was_written),
		cmocka_unit_test(the_boot_clock_never_goes_back),
		cmocka_unit_test(draws_are_spread_evenly_from_any_seed),
		cmocka_unit_test(a_seed_tells_what_is_drawn_and_the_next_seed_draws_otherwise),
		cmocka_unit_test(seeds_and_bytes_differ_each_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
