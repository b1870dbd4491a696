/* SPDX-License-Identifier: Apache-2.0 */
/* engine_ahead_test.c: jobs that are claimed before a slot is free for them. */
#include "worker/engine_test.h"

#define SHORT_RUNS 8 /* as the engine has it */

static struct rig open_ahead(int64_t slots, int64_t ahead)
{
	struct engine_pool pool = {.concurrency = slots, .poll_ms = 1000, .ahead = ahead};
	return rig_with((struct engine_options){.pools = &pool, .npools = 1, .grace_ms = 5000});
}

static void end_after(struct rig *r, char key, int64_t ran_ms)
{
	for (int i = 0; i < r->nruns; i++)
		if (r->runs[i]->claim.key[0] == key)
			r->runs[i]->ran_ms = ran_ms;
	rig_end(r, (char[]){key, '\0'});
}

/* Jobs ran one after the other for this long; the last, z, has ended and is in the turn. */
static struct rig open_ran(int64_t ahead, int64_t ran_ms)
{
	struct rig r = open_ahead(1, ahead);
	for (int i = 1; i < SHORT_RUNS; i++) {
		rig_claim(&r, "a");
		end_after(&r, 'a', ran_ms);
		assert_int_equal(rig_part(&r, 0)->room, 1);
	}
	rig_claim(&r, "z");
	end_after(&r, 'z', ran_ms);
	rig_forget(&r);
	return r;
}

static struct rig open_short(int64_t ahead)
{
	return open_ran(ahead, 1);
}

static void short_jobs_are_claimed_ahead(void **state)
{
	(void)state;
	struct rig r = open_short(2);
	assert_int_equal(rig_part(&r, 0)->nends, 1);
	assert_int_equal(rig_part(&r, 0)->room, 3);
	rig_claim(&r, "bcd");
	assert_said(&r, "settled z, start b, start c, start d");
	rig_close(&r);
}

static void what_is_claimed_ahead_begins_within_20_ms(void **state)
{
	(void)state;
	static const int64_t ran_ms[] = {0, 1, 5, 20, 21}, ahead[] = {16, 16, 4, 1, 0};
	for (size_t i = 0; i < sizeof(ran_ms) / sizeof(ran_ms[0]); i++) {
		struct rig r = open_ran(16, ran_ms[i]);
		assert_int_equal(rig_part(&r, 0)->room, 1 + ahead[i]);
		rig_close(&r);
	}
}

static void with_more_slots_longer_jobs_are_claimed_ahead(void **state)
{
	(void)state;
	static const int64_t ran_ms[] = {40, 100, 101}, ahead[] = {4, 1, 0};
	for (size_t i = 0; i < sizeof(ran_ms) / sizeof(ran_ms[0]); i++) {
		struct rig r = open_ahead(SHORT_RUNS, 16);
		r.now += 5 * MILLI; /* duration of the claim: ends wait this long for each other */
		rig_claim(&r, "abcdefgh");
		for (char key = 'a'; key <= 'h'; key++)
			end_after(&r, key, ran_ms[i]);
		assert_int_equal(rig_part(&r, 0)->nends, SHORT_RUNS);
		assert_int_equal(rig_part(&r, 0)->room, SHORT_RUNS + ahead[i]);
		rig_close(&r);
	}
}

static void no_more_is_in_hand_than_slots_and_what_is_ahead(void **state)
{
	(void)state;
	struct rig r = open_short(2);
	rig_claim(&r, "bcd");
	end_after(&r, 'b', 1);
	assert_int_equal(rig_part(&r, 0)->nends, 1);
	assert_int_equal(rig_part(&r, 0)->room, 1);
	end_after(&r, 'c', 1); /* it has begun meanwhile, without a slot of its own */
	rig_claim(&r, "e");
	assert_int_equal(rig_part(&r, 0)->nends, 1);
	assert_int_equal(rig_part(&r, 0)->room, 1);
	assert_int_equal(engine_holding(r.e), 3);
	rig_close(&r);
}

static void one_long_job_ends_claiming_ahead(void **state)
{
	(void)state;
	struct rig r = open_short(2);
	rig_claim(&r, "bcd");
	end_after(&r, 'b', 1000);
	assert_int_equal(rig_part(&r, 0)->nends, 1);
	assert_int_equal(rig_part(&r, 0)->room, 0);
	rig_accept(&r);
	assert_int_equal(engine_holding(r.e), 2);
	rig_close(&r);
}

static void what_runs_in_a_thread_is_not_claimed_ahead(void **state)
{
	(void)state;
	struct rig r = open_ahead(1, 2);
	for (int i = 0; i < 2 * SHORT_RUNS; i++) {
		rig_claim(&r, "a");
		rig_end(&r, "a"); /* how long it ran is not known */
		assert_int_equal(rig_part(&r, 0)->room, 1);
	}
	rig_close(&r);
}

static void what_waits_behind_a_long_job_is_handed_back(void **state)
{
	(void)state;
	struct rig r = open_short(2);
	rig_claim(&r, "bcd");
	rig_forget(&r);
	assert_int_equal(engine_wait_us(r.e, r.now), 100 * MILLI);
	rig_after(&r, 100 * MILLI - 1);
	assert_said(&r, "");
	rig_after(&r, 1);
	assert_said(&r, "return");
	rig_end_as(&r, "cd", SETTLE_RELEASED);
	assert_said(&r, "turn");
	assert_int_equal(rig_part(&r, 0)->nends, 2);
	assert_int_equal(rig_part(&r, 0)->ends[0].as, SETTLE_RELEASED);
	assert_int_equal(rig_part(&r, 0)->room, 0);
	rig_accept(&r);
	rig_forget(&r);
	rig_after(&r, 500 * MILLI);
	assert_said(&r, ""); /* once */
	rig_close(&r);
}

static void what_waits_is_handed_back_again_behind_the_next_long_job(void **state)
{
	(void)state;
	struct rig r = open_short(2);
	for (int i = 0; i < 2; i++) {
		rig_claim(&r, "bcd");
		rig_forget(&r);
		rig_after(&r, 100 * MILLI);
		assert_said(&r, "return");
		rig_end_as(&r, "cd", SETTLE_RELEASED);
		rig_accept(&r);
		end_after(&r, 'b', 101);
		for (int k = 0; k < SHORT_RUNS; k++) {
			assert_int_equal(rig_part(&r, 0)->room, 1);
			rig_claim(&r, "a");
			end_after(&r, 'a', 1);
		}
		assert_int_equal(rig_part(&r, 0)->room, 3);
	}
	rig_close(&r);
}

static void ends_wait_for_half_of_what_is_ahead(void **state)
{
	(void)state;
	struct rig r = open_short(4);
	rig_claim(&r, "bcdef");
	rig_forget(&r);
	assert_int_equal(engine_enough(r.e), 1); /* the first one begins the wait */
	end_after(&r, 'b', 1);
	assert_said(&r, "");
	assert_int_equal(engine_enough(r.e), 1);
	assert_in_range(engine_wait_us(r.e, r.now), 1, 5 * MILLI);
	end_after(&r, 'c', 1);
	assert_said(&r, "turn");
	assert_int_equal(rig_part(&r, 0)->nends, 2);
	assert_int_equal(rig_part(&r, 0)->room, 2);
	rig_close(&r);
}

static void ends_do_not_wait_while_turns_take_as_long_as_what_is_ahead(void **state)
{
	(void)state;
	struct rig r = open_short(4);
	r.now += 2 * MILLI; /* duration of the turn: until the next one completes, all four may begin */
	rig_claim(&r, "bcdef");
	rig_forget(&r);
	end_after(&r, 'b', 1);
	assert_said(&r, "turn");
	assert_int_equal(rig_part(&r, 0)->nends, 1);
	rig_close(&r);
}

static void ends_wait_for_others_no_longer_than_five_milliseconds(void **state)
{
	(void)state;
	struct rig r = open_short(4);
	rig_claim(&r, "bcdef");
	rig_forget(&r);
	end_after(&r, 'b', 1);
	rig_after(&r, 5 * MILLI);
	assert_said(&r, "turn");
	rig_close(&r);
}

static void the_last_end_waits_for_nobody(void **state)
{
	(void)state;
	struct rig r = open_short(4);
	rig_claim(&r, "b");
	rig_forget(&r);
	end_after(&r, 'b', 1);
	assert_said(&r, "turn");
	rig_close(&r);
}

static void a_job_that_is_to_run_alone_is_not_claimed_ahead(void **state)
{
	(void)state;
	struct rig r = open_short(2);
	rig_give(&r, 0, "bcd");
	rig_part(&r, 0)->claims[2].alone = true;
	rig_accept(&r);
	assert_said(&r, "settled z, start b, start c, turn");
	assert_int_equal(rig_part(&r, 0)->ends[0].as, SETTLE_RELEASED);
	assert_int_equal(rig_part(&r, 0)->room, 0);
	rig_close(&r);
}

/* A second, in which turns are completed and nothing more is claimed. */
static void rig_second(struct rig *r)
{
	rig_after(r, SECOND);
	while (r->turn && rig_part(r, 0)->nends == 0)
		rig_accept(r);
}

/* The pool became smaller while they were being claimed. */
static void what_gets_no_slot_is_released_after_half_a_minute(void **state)
{
	(void)state;
	struct rig r = open_ahead(3, 0);
	rig_step(&r, (struct engine_event){.kind = EVENT_RESIZE, .concurrency = 1, .poll_ms = 1000});
	rig_forget(&r);
	rig_claim(&r, "abc");
	assert_said(&r, "start a");
	rig_second(&r);
	rig_forget(&r);
	rig_end(&r, "a");
	rig_accept(&r);
	assert_said(&r, "turn, settled a, start c");
	for (int i = 1; i < 29; i++)
		rig_second(&r);
	assert_int_equal(engine_holding(r.e), 2);
	assert_null(r.turn);
	/* Until then the engine sleeps. */
	assert_in_range(engine_wait_us(r.e, r.now), 1, SECOND);
	rig_second(&r);
	assert_int_equal(rig_part(&r, 0)->nends, 1);
	assert_string_equal(rig_part(&r, 0)->ends[0].key, "b");
	assert_int_equal(rig_part(&r, 0)->ends[0].as, SETTLE_RELEASED);
	assert_int_equal(rig_part(&r, 0)->ends[0].delay_ms, 1000);
	rig_close(&r);
}

static void a_stop_gives_back_what_is_held(void **state)
{
	(void)state;
	struct rig r = open_short(2);
	rig_tell(&r, EVENT_STOP);
	rig_claim(&r, "bcd");
	assert_said(&r, "settled z, turn");
	assert_int_equal(rig_part(&r, 0)->nends, 3);
	assert_int_equal(rig_part(&r, 0)->ends[0].as, SETTLE_RELEASED);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_jobs_are_claimed_ahead),
		cmocka_unit_test(what_is_claimed_ahead_begins_within_20_ms),
		cmocka_unit_test(with_more_slots_longer_jobs_are_claimed_ahead),
		cmocka_unit_test(no_more_is_in_hand_than_slots_and_what_is_ahead),
		cmocka_unit_test(one_long_job_ends_claiming_ahead),
		cmocka_unit_test(what_runs_in_a_thread_is_not_claimed_ahead),
		cmocka_unit_test(what_waits_behind_a_long_job_is_handed_back),
		cmocka_unit_test(what_waits_is_handed_back_again_behind_the_next_long_job),
		cmocka_unit_test(ends_wait_for_half_of_what_is_ahead),
		cmocka_unit_test(ends_do_not_wait_while_turns_take_as_long_as_what_is_ahead),
		cmocka_unit_test(ends_wait_for_others_no_longer_than_five_milliseconds),
		cmocka_unit_test(the_last_end_waits_for_nobody),
		cmocka_unit_test(a_job_that_is_to_run_alone_is_not_claimed_ahead),
		cmocka_unit_test(what_gets_no_slot_is_released_after_half_a_minute),
		cmocka_unit_test(a_stop_gives_back_what_is_held),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
