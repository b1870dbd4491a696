/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/pools.h"

#include "base/test.h"

static struct pool_life running(int64_t now_ms)
{
	struct pool_life l;
	pool_life_init(&l, now_ms);
	assert_int_equal(pool_step(&l, now_ms), POOL_START);
	pool_began(&l, now_ms);
	return l;
}

static void one_that_ends_is_started_again_after_ever_longer_pauses(void **state)
{
	(void)state;
	static const int64_t pauses[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
	struct pool_life l = running(0);
	int64_t now = 0;
	for (size_t i = 0; i < sizeof pauses / sizeof *pauses; i++) {
		pool_ended(&l, now);
		assert_int_equal(pool_due_ms(&l), now + pauses[i]);
		assert_int_equal(pool_step(&l, now + pauses[i] - 1), POOL_NOTHING);
		now += pauses[i];
		assert_int_equal(pool_step(&l, now), POOL_START);
		pool_began(&l, now);
		assert_int_equal(l.restarts, i + 1);
	}
}

static void a_long_life_makes_the_pause_short_again(void **state)
{
	(void)state;
	struct pool_life l = running(0);
	for (int i = 0; i < 5; i++) {
		pool_ended(&l, 0);
		pool_began(&l, 0);
	}
	pool_ended(&l, POOL_LIVED_MS);
	assert_int_equal(pool_due_ms(&l), POOL_LIVED_MS + POOL_PAUSE_MS);
}

static void one_that_cannot_be_started_waits_as_if_it_had_ended(void **state)
{
	(void)state;
	struct pool_life l;
	pool_life_init(&l, 5);
	assert_int_equal(pool_step(&l, 5), POOL_START);
	pool_ended(&l, 5);
	assert_int_equal(pool_step(&l, 5), POOL_NOTHING);
	assert_int_equal(pool_step(&l, 5 + POOL_PAUSE_MS), POOL_START);
}

static void a_stop_asks_once_and_kills_after_the_grace(void **state)
{
	(void)state;
	struct pool_life l = running(0);
	pool_stop(&l, 30000, false, 100);
	assert_int_equal(pool_due_ms(&l), 0);
	assert_int_equal(pool_step(&l, 100), POOL_TERM);
	assert_int_equal(pool_step(&l, 100), POOL_NOTHING);
	assert_int_equal(pool_step(&l, 30099), POOL_NOTHING);
	assert_int_equal(pool_step(&l, 30100), POOL_KILL);
	assert_int_equal(pool_step(&l, 30100), POOL_NOTHING);
	pool_ended(&l, 30101);
	assert_int_equal(l.state, POOL_OVER);
	assert_int_equal(pool_step(&l, 99999), POOL_NOTHING);
}

static void whoever_is_replaced_is_followed_at_once_and_counts_as_no_restart(void **state)
{
	(void)state;
	struct pool_life l = running(0);
	pool_stop(&l, 30000, true, 100);
	assert_int_equal(pool_step(&l, 100), POOL_TERM);
	pool_ended(&l, 200);
	assert_int_equal(pool_step(&l, 200), POOL_START);
	assert_int_equal(l.restarts, 0);
}

static void a_stop_outdoes_a_replacement_that_is_under_way(void **state)
{
	(void)state;
	struct pool_life l = running(0);
	pool_stop(&l, 30000, true, 100);
	pool_stop(&l, 30000, false, 150);
	pool_ended(&l, 200);
	assert_int_equal(l.state, POOL_OVER);
}

static void one_that_waits_for_its_start_is_over_at_once(void **state)
{
	(void)state;
	struct pool_life l = running(0);
	pool_ended(&l, 10);
	pool_stop(&l, 30000, false, 20);
	assert_int_equal(l.state, POOL_OVER);
	assert_int_equal(pool_due_ms(&l), INT64_MAX);
}

static void a_second_request_is_sent_on_and_shortens_the_grace(void **state)
{
	(void)state;
	struct pool_life l = running(0);
	pool_stop(&l, 30000, false, 0);
	assert_int_equal(pool_step(&l, 0), POOL_TERM);
	pool_hurry(&l, 1000);
	assert_int_equal(pool_step(&l, 1000), POOL_TERM);
	assert_int_equal(pool_step(&l, 1000 + POOL_HURRY_MS), POOL_KILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_ends_is_started_again_after_ever_longer_pauses),
		cmocka_unit_test(a_long_life_makes_the_pause_short_again),
		cmocka_unit_test(one_that_cannot_be_started_waits_as_if_it_had_ended),
		cmocka_unit_test(a_stop_asks_once_and_kills_after_the_grace),
		cmocka_unit_test(whoever_is_replaced_is_followed_at_once_and_counts_as_no_restart),
		cmocka_unit_test(a_stop_outdoes_a_replacement_that_is_under_way),
		cmocka_unit_test(one_that_waits_for_its_start_is_over_at_once),
		cmocka_unit_test(a_second_request_is_sent_on_and_shortens_the_grace),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
