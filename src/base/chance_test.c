/* SPDX-License-Identifier: Apache-2.0 */
/* chance_test.c: draws are spread over [0, 1), told by their seed, and differ between seeds. */
#include "base/clock.h"

#include "base/test.h"

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
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(draws_are_spread_evenly_from_any_seed),
		cmocka_unit_test(a_seed_tells_what_is_drawn_and_the_next_seed_draws_otherwise),
		cmocka_unit_test(seeds_and_bytes_differ_each_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
