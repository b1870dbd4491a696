/* SPDX-License-Identifier: Apache-2.0 */
/* engine_test.c: turns, claims, common ends, stops and life of the engine, with injected time. */
#include "worker/engine_test.h"

/* ---- turns ---- */

static void the_first_turn_claims_for_every_slot(void **state)
{
	(void)state;
	struct rig r = rig_open(10);
	assert_said(&r, "turn");
	assert_int_equal(rig_part(&r, 0)->room, 10);
	assert_int_equal(rig_part(&r, 0)->claimer, SELF);
	assert_true(rig_part(&r, 0)->promote);
	rig_close(&r);
}

static void one_turn_is_under_way_at_a_time(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_tell(&r, EVENT_WOKEN);
	rig_after(&r, 60 * SECOND);
	assert_said(&r, "turn");
	rig_answer(&r);
	assert_said(&r, "turn"); /* for what came meanwhile */
	rig_close(&r);
}

static void an_end_is_recorded_and_its_slot_filled_in_one_part(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_claim(&r, "a");
	assert_said(&r, "turn, start a");
	assert_int_equal(engine_holding(r.e), 1);
	rig_end(&r, "a");
	assert_said(&r, "turn");
	assert_int_equal(r.turn->nparts, 1);
	assert_int_equal(rig_part(&r, 0)->nends, 1);
	assert_int_equal(rig_part(&r, 0)->worker, SELF);
	assert_int_equal(rig_part(&r, 0)->room, 1);
	assert_false(rig_part(&r, 0)->promote);
	rig_claim(&r, "b");
	assert_said(&r, "settled a, start b");
	rig_close(&r);
}

static void what_ends_during_a_turn_joins_the_next(void **state)
{
	(void)state;
	struct rig r = rig_open(3);
	rig_claim(&r, "abc");
	rig_after(&r, 10 * MILLI);
	rig_forget(&r);
	rig_end(&r, "a");
	rig_end(&r, "b");
	rig_end(&r, "c");
	assert_int_equal(rig_part(&r, 0)->nends, 1);
	rig_accept(&r);
	assert_int_equal(rig_part(&r, 0)->nends, 2);
	rig_close(&r);
}

static void a_part_has_no_more_than_a_thousand_ends(void **state)
{
	(void)state;
	struct rig r = rig_open(1500);
	struct turn_part *p = rig_part(&r, 0);
	struct job *all = NULL;
	p->nclaims = 1500;
	p->claims = ARENA_ARRAY(&r.turn->arena, struct claimed, 1500);
	for (int i = 0; i < 1500; i++)
		p->claims[i] = (struct claimed){.key = arena_printf(&r.turn->arena, "%d", i), .epoch = 1};
	rig_answer(&r);
	assert_int_equal(r.nruns, 1500);
	for (int i = 0; i < 1500; i++) {
		r.runs[i]->queued = all;
		all = r.runs[i];
	}
	r.nruns = 0;
	rig_step(&r, (struct engine_event){.kind = EVENT_ENDED, .job = all});
	assert_int_equal(rig_part(&r, 0)->nends, 1000);
	assert_int_equal(rig_part(&r, 0)->room, 1000);
	rig_accept(&r);
	assert_int_equal(rig_part(&r, 0)->nends, 500);
	rig_close(&r);
}

static void ends_of_an_older_incarnation_have_a_part_of_their_own(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "ab");
	rig_life(&r, SELF + 1, CONTACT_GOOD);
	rig_forget(&r);
	rig_end_as(&r, "a", SETTLE_FAILED);
	assert_int_equal(r.turn->nparts, 1);
	assert_int_equal(rig_part(&r, 0)->worker, SELF);
	assert_int_equal(rig_part(&r, 0)->claimer, 0);
	assert_int_equal(rig_part(&r, 0)->room, 0);
	rig_answer(&r);
	assert_int_equal(rig_part(&r, 0)->worker, SELF + 1); /* its slot is free now */
	rig_close(&r);
}

/* ---- ends that wait for each other ---- */

static void jobs_that_came_together_end_together(void **state)
{
	(void)state;
	struct rig r = rig_open(3);
	r.now += 10 * MILLI;
	rig_claim(&r, "abc");
	rig_forget(&r);
	assert_int_equal(engine_enough(r.e), 3);
	rig_end(&r, "a");
	rig_end(&r, "b");
	assert_said(&r, "");
	assert_int_equal(engine_enough(r.e), 1);
	assert_int_equal(engine_wait_us(r.e, r.now), 5 * MILLI);
	rig_end(&r, "c");
	assert_said(&r, "turn");
	assert_int_equal(rig_part(&r, 0)->nends, 3);
	rig_close(&r);
}

static void company_is_waited_for_no_longer_than_a_turn_takes(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	r.now += 300;
	rig_claim(&r, "ab");
	rig_forget(&r);
	rig_end(&r, "a");
	assert_int_equal(engine_wait_us(r.e, r.now), 300);
	rig_after(&r, 299);
	assert_said(&r, "");
	rig_after(&r, 1);
	assert_said(&r, "turn");
	assert_int_equal(engine_enough(r.e), 0);
	rig_close(&r);
}

static void a_sleep_until_enough_have_ended_is_no_longer_than_the_wait_for_company(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	r.now += 300;
	rig_claim(&r, "ab");
	rig_forget(&r);
	assert_int_equal(engine_enough(r.e), 2);
	assert_int_equal(engine_wait_us(r.e, r.now), 300);
	rig_after(&r, 300);
	assert_int_equal(engine_enough(r.e), 0);
	rig_end(&r, "a"); /* however long the other one runs */
	assert_said(&r, "turn");
	rig_close(&r);
}

static void one_job_in_hand_never_waits(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	r.now += 10 * MILLI;
	rig_claim(&r, "a");
	rig_forget(&r);
	assert_int_equal(engine_enough(r.e), 0);
	rig_end(&r, "a");
	assert_said(&r, "turn");
	rig_close(&r);
}

static void other_reasons_do_not_wait_for_company(void **state)
{
	(void)state;
	struct rig r = rig_open(3);
	r.now += 10 * MILLI;
	rig_claim(&r, "ab");
	rig_forget(&r);
	rig_end(&r, "a");
	assert_said(&r, "");
	rig_tell(&r, EVENT_WOKEN);
	assert_said(&r, "turn");
	assert_int_equal(rig_part(&r, 0)->nends, 1);
	assert_int_equal(rig_part(&r, 0)->room, 2);
	rig_close(&r);
}

/* ---- polling ---- */

static void an_empty_answer_means_waiting_for_the_next_poll(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "");
	rig_forget(&r);
	assert_int_equal(engine_wait_us(r.e, r.now), SECOND);
	rig_after(&r, SECOND - 1);
	assert_said(&r, "");
	rig_after(&r, 1);
	assert_said(&r, "turn");
	assert_true(rig_part(&r, 0)->promote);
	rig_close(&r);
}

static void a_full_claim_means_that_there_is_more(void **state)
{
	(void)state;
	struct engine_pool pools[] = {{.concurrency = 4, .poll_ms = 1000}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 1});
	rig_claim(&r, "ab"); /* not full */
	rig_after(&r, 10 * MILLI);
	rig_end(&r, "a");
	assert_int_equal(rig_part(&r, 0)->room, 0);
	rig_accept(&r);
	rig_after(&r, SECOND);
	rig_claim(&r, "cde"); /* full */
	rig_end(&r, "cde");
	assert_int_equal(rig_part(&r, 0)->room, 3);
	rig_close(&r);
}

static void a_told_pool_that_is_empty_polls_seldom(void **state)
{
	(void)state;
	struct engine_pool pools[] = {{.concurrency = 2, .poll_ms = 1000, .announced = true}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 1});
	rig_claim(&r, "");
	assert_int_equal(engine_wait_us(r.e, r.now), 4 * SECOND);
	rig_tell(&r, EVENT_WOKEN);
	rig_claim(&r, "a");
	assert_int_equal(engine_wait_us(r.e, r.now), SECOND);
	rig_close(&r);
}

static void a_pool_that_is_woken_without_a_free_slot_remembers_it(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_claim(&r, "a");
	rig_end(&r, "a");
	rig_claim(&r, ""); /* no more */
	rig_after(&r, SECOND);
	rig_claim(&r, "b");
	rig_end(&r, "b");
	rig_claim(&r, "c");
	rig_forget(&r);
	rig_tell(&r, EVENT_WOKEN);
	rig_accept(&r); /* which jobs are to stop */
	rig_forget(&r);
	rig_end(&r, "c");
	assert_int_equal(rig_part(&r, 0)->room, 1);
	rig_close(&r);
}

static void a_batch_bounds_what_a_poll_interval_takes(void **state)
{
	(void)state;
	struct engine_pool pools[] = {{.concurrency = 5, .poll_ms = 1000, .batch = 3}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 1});
	assert_int_equal(rig_part(&r, 0)->room, 3);
	rig_claim(&r, "abc");
	rig_end(&r, "abc");
	assert_int_equal(rig_part(&r, 0)->room, 0);
	rig_accept(&r);
	rig_forget(&r);
	assert_int_equal(engine_wait_us(r.e, r.now), SECOND);
	rig_after(&r, SECOND);
	assert_int_equal(rig_part(&r, 0)->room, 3);
	rig_close(&r);
}

static void a_slot_is_filled_again_only_within_its_burst_limit(void **state)
{
	(void)state;
	struct engine_pool pools[] = {
		{.concurrency = 2, .poll_ms = 1000, .burst_limit = 1, .burst_ms = 60000}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 1});
	rig_claim(&r, "ab");
	rig_end(&r, "ab");
	assert_int_equal(rig_part(&r, 0)->room, 0);
	rig_accept(&r);
	rig_after(&r, 60 * SECOND);
	assert_int_equal(rig_part(&r, 0)->room, 2);
	rig_close(&r);
}

static void a_pool_that_waits_first_claims_after_an_interval(void **state)
{
	(void)state;
	struct engine_pool pools[] = {{.concurrency = 1, .poll_ms = 1000, .wait_first = true}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 1});
	rig_after(&r, SECOND - 1);
	assert_said(&r, "");
	rig_after(&r, 1);
	assert_said(&r, "turn");
	rig_close(&r);
}

static void a_step_that_ended_makes_its_job_ready_again(void **state)
{
	(void)state;
	struct engine_pool pools[] = {{.concurrency = 1, .poll_ms = 1000}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 1, .drain = true});
	struct step_end end = {.side = STEP_SIDE_RUN, .name = "one", .more = true};
	rig_claim(&r, "a");
	rig_end(&r, "a");
	rig_claim(&r, "b");
	job_at_step(r.runs[0], &end);
	rig_life(&r, SELF, CONTACT_LOST); /* so that nothing is claimed with its end */
	rig_end(&r, "b");
	rig_accept(&r);
	assert_false(engine_finished(r.e));
	rig_forget(&r);
	rig_life(&r, SELF, CONTACT_GOOD);
	assert_said(&r, "turn");
	rig_claim(&r, "");
	rig_claim(&r, "");
	assert_true(engine_finished(r.e));
	rig_close(&r);
}

static void a_drain_is_finished_when_every_pool_was_answered_empty(void **state)
{
	(void)state;
	struct engine_pool pools[] = {{.concurrency = 1, .poll_ms = 1000},
	                              {.concurrency = 1, .poll_ms = 1000, .same_jobs = 1}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 2, .drain = true});
	assert_false(engine_finished(r.e));
	rig_claim(&r, "a");
	assert_false(engine_finished(r.e));
	rig_end(&r, "a");
	assert_false(engine_finished(r.e));
	rig_claim(&r, "");
	rig_claim(&r, "");
	assert_true(engine_finished(r.e));
	rig_tell(&r, EVENT_WOKEN);
	assert_false(engine_finished(r.e));
	rig_claim(&r, "");
	assert_true(engine_finished(r.e));
	rig_close(&r);
}

/* Due jobs are made ready one page at a time: after a claimed page there is the next. */
static void a_drain_ends_with_an_answer_for_which_what_is_due_was_made_ready(void **state)
{
	(void)state;
	struct engine_pool pools[] = {{.concurrency = 1, .poll_ms = 3600 * 1000}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 1, .drain = true});
	assert_true(rig_part(&r, 0)->promote);
	rig_claim(&r, "a");
	rig_end(&r, "a");
	assert_false(rig_part(&r, 0)->promote); /* the last claim was full */
	rig_claim(&r, "");
	assert_false(engine_finished(r.e));
	assert_true(rig_part(&r, 0)->promote);
	rig_claim(&r, "");
	assert_true(engine_finished(r.e));
	rig_close(&r);
}

static void a_drain_waits_for_no_poll_after_a_claim_that_was_not_full(void **state)
{
	(void)state;
	struct engine_pool pools[] = {{.concurrency = 2, .poll_ms = 3600 * 1000}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 1, .drain = true});
	rig_claim(&r, "a");
	rig_claim(&r, "");
	rig_end(&r, "a");
	rig_accept(&r);
	assert_true(engine_finished(r.e));
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_turn_claims_for_every_slot),
		cmocka_unit_test(one_turn_is_under_way_at_a_time),
		cmocka_unit_test(an_end_is_recorded_and_its_slot_filled_in_one_part),
		cmocka_unit_test(what_ends_during_a_turn_joins_the_next),
		cmocka_unit_test(a_part_has_no_more_than_a_thousand_ends),
		cmocka_unit_test(ends_of_an_older_incarnation_have_a_part_of_their_own),
		cmocka_unit_test(jobs_that_came_together_end_together),
		cmocka_unit_test(company_is_waited_for_no_longer_than_a_turn_takes),
		cmocka_unit_test(a_sleep_until_enough_have_ended_is_no_longer_than_the_wait_for_company),
		cmocka_unit_test(one_job_in_hand_never_waits),
		cmocka_unit_test(other_reasons_do_not_wait_for_company),
		cmocka_unit_test(an_empty_answer_means_waiting_for_the_next_poll),
		cmocka_unit_test(a_full_claim_means_that_there_is_more),
		cmocka_unit_test(a_told_pool_that_is_empty_polls_seldom),
		cmocka_unit_test(a_pool_that_is_woken_without_a_free_slot_remembers_it),
		cmocka_unit_test(a_batch_bounds_what_a_poll_interval_takes),
		cmocka_unit_test(a_slot_is_filled_again_only_within_its_burst_limit),
		cmocka_unit_test(a_pool_that_waits_first_claims_after_an_interval),
		cmocka_unit_test(a_step_that_ended_makes_its_job_ready_again),
		cmocka_unit_test(a_drain_is_finished_when_every_pool_was_answered_empty),
		cmocka_unit_test(a_drain_ends_with_an_answer_for_which_what_is_due_was_made_ready),
		cmocka_unit_test(a_drain_waits_for_no_poll_after_a_claim_that_was_not_full),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
