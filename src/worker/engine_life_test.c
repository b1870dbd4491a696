/* SPDX-License-Identifier: Apache-2.0
 * engine_life_test.c: what the engine does with jobs in hand when its worker is declared dead, told
 * to stop, or cannot run them; beats, cancels, progress, and jobs that run alone.
 */
#include "worker/engine_test.h"

/* True once if the action was issued, however often. */
static bool says(struct rig *r, const char *what)
{
	bool progress = strstr(buf_text(&r->progress), what) != NULL;
	rig_forget(r);
	return progress;
}

static struct rig rig_of(struct engine_pool pool)
{
	return rig_with((struct engine_options){.pools = &pool, .npools = 1, .grace_ms = 5000});
}

/* Complete turns, with time for those that follow, until none is due soon. */
static void settle_down(struct rig *r)
{
	for (int i = 0; i < 100 && (r->turn || engine_wait_us(r->e, r->now) < 50 * MILLI); i++)
		if (r->turn)
			rig_accept(r);
		else
			rig_after(r, engine_wait_us(r->e, r->now));
	assert_null(r->turn);
}

/* ---- life ---- */

static void jobs_claimed_while_we_were_declared_dead_are_not_started(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_give(&r, 0, "ab");
	rig_life(&r, SELF + 1, CONTACT_GOOD);
	rig_forget(&r);
	rig_answer(&r);
	assert_int_equal(r.nruns, 0);
	assert_true(says(&r, "forgotten a, forgotten b"));
	assert_int_equal(engine_holding(r.e), 0);
	assert_int_equal(rig_part(&r, 0)->claimer, SELF + 1);
	assert_int_equal(rig_part(&r, 0)->room, 2);
	rig_close(&r);
}

static void what_a_dead_incarnation_had_in_hand_is_stopped_as_lost(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "ab");
	rig_forget(&r);
	rig_life(&r, 0, CONTACT_TAKEN);
	assert_said(&r, "stop b, stop a");
	assert_true(r.runs[0]->lost);
	rig_life(&r, SELF + 1, CONTACT_GOOD);
	assert_said(&r, "");
	rig_close(&r);
}

static void the_end_of_a_lost_job_is_still_presented(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_claim(&r, "a");
	rig_life(&r, SELF + 1, CONTACT_GOOD);
	rig_end(&r, "a");
	assert_int_equal(rig_part(&r, 0)->worker, SELF);
	assert_int_equal(rig_part(&r, 0)->ends[0].as, SETTLE_DONE);
	rig_forget(&r);
	rig_answer(&r); /* not accepted */
	assert_true(says(&r, "refused a"));
	rig_close(&r);
}

static void a_claimer_that_is_gone_waits_for_a_new_incarnation(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "a");
	rig_after(&r, SECOND);
	rig_part(&r, 0)->gone = true;
	rig_forget(&r);
	rig_answer(&r);
	assert_said(&r, "stop a");
	rig_life(&r, SELF, CONTACT_GOOD); /* it does not know yet */
	rig_tell(&r, EVENT_WOKEN);
	rig_after(&r, 10 * SECOND);
	assert_said(&r, "");
	rig_life(&r, SELF + 1, CONTACT_GOOD);
	assert_said(&r, "turn");
	rig_close(&r);
}

static void who_is_gone_and_still_proves_to_live_asks_again(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_part(&r, 0)->gone = true;
	rig_answer(&r);
	rig_forget(&r);
	assert_int_equal(engine_wait_us(r.e, r.now), 15 * SECOND);
	rig_after(&r, 15 * SECOND);
	assert_said(&r, "turn");
	assert_int_equal(rig_part(&r, 0)->claimer, SELF);
	rig_close(&r);
}

static void nothing_is_claimed_without_good_contact(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "a");
	rig_life(&r, SELF, CONTACT_LOST);
	rig_tell(&r, EVENT_WOKEN);
	assert_int_equal(rig_part(&r, 0)->room, 0); /* cancels are still asked for */
	rig_accept(&r);
	rig_forget(&r);
	rig_life(&r, SELF, CONTACT_GOOD);
	assert_int_equal(rig_part(&r, 0)->room, 1); /* it remembers that it was woken */
	rig_close(&r);
}

static void only_exclusive_jobs_stop_when_the_lease_has_run_out(void **state)
{
	(void)state;
	struct engine_pool pools[] = {
		{.concurrency = 1, .poll_ms = 1000},
		{.concurrency = 1, .poll_ms = 1000, .exclusive = true, .same_jobs = 1}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 2});
	rig_give(&r, 1, "b");
	rig_claim(&r, "a");
	rig_forget(&r);
	rig_life(&r, SELF, CONTACT_LOST);
	assert_said(&r, "");
	rig_life(&r, SELF, CONTACT_EXPIRED);
	assert_said(&r, "stop b");
	rig_close(&r);
}

static void exclusive_jobs_that_come_after_the_lease_ran_out_are_handed_back(void **state)
{
	(void)state;
	struct rig r =
		rig_of((struct engine_pool){.concurrency = 1, .poll_ms = 1000, .exclusive = true});
	rig_give(&r, 0, "a");
	rig_life(&r, SELF, CONTACT_EXPIRED);
	rig_forget(&r);
	rig_answer(&r);
	assert_said(&r, "turn");
	assert_int_equal(rig_part(&r, 0)->ends[0].as, SETTLE_RELEASED);
	rig_close(&r);
}

/* ---- stops ---- */

static void a_stop_lets_jobs_finish_until_their_grace_is_over(void **state)
{
	struct engine_pool pools[] = {
		{.concurrency = 1, .poll_ms = 1000},
		{.concurrency = 1, .poll_ms = 1000, .own_grace = true, .grace_ms = 1000, .same_jobs = 1}};
	(void)state;
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 2, .grace_ms = 5000});
	rig_give(&r, 1, "b");
	rig_claim(&r, "a");
	rig_forget(&r);
	rig_tell(&r, EVENT_STOP);
	rig_after(&r, SECOND - 1);
	assert_said(&r, "");
	rig_after(&r, 1);
	assert_true(says(&r, "stop b"));
	settle_down(&r);
	r.now += 3 * SECOND + 900 * MILLI;
	settle_down(&r);
	rig_forget(&r);
	rig_after(&r, 200 * MILLI);
	assert_true(says(&r, "stop a"));
	assert_false(engine_finished(r.e));
	rig_close(&r);
}

static void the_second_stop_is_at_once_and_ends_are_recorded_first(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "ab");
	rig_tell(&r, EVENT_STOP);
	rig_forget(&r);
	rig_tell(&r, EVENT_STOP);
	assert_said(&r, "stop b, stop a");
	rig_end_as(&r, "a", SETTLE_FAILED);
	rig_end(&r, "b");
	rig_after(&r, 10 * MILLI);
	struct turn_part *p = rig_part(&r, 0);
	assert_int_equal(p->room, 0);
	assert_int_equal(p->nends, 1);
	assert_int_equal(p->ends[0].as, SETTLE_STOPPED); /* released */
	rig_accept(&r);
	assert_int_equal(rig_part(&r, 0)->ends[0].as, SETTLE_DONE);
	assert_false(engine_finished(r.e));
	rig_accept(&r);
	assert_true(engine_finished(r.e));
	rig_close(&r);
}

static void what_was_claimed_while_a_stop_came_is_handed_back(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_give(&r, 0, "a");
	rig_tell(&r, EVENT_STOP);
	assert_false(engine_finished(r.e));
	rig_forget(&r);
	rig_answer(&r);
	assert_said(&r, "turn");
	assert_int_equal(rig_part(&r, 0)->ends[0].as, SETTLE_RELEASED);
	rig_accept(&r);
	assert_true(engine_finished(r.e));
	rig_close(&r);
}

static void a_job_that_its_handler_settled_is_forgotten_and_counted(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	struct engine_counts c;
	rig_claim(&r, "a");
	rig_forget(&r);
	r.runs[0]->settled = true;
	rig_end(&r, "a");
	assert_said(&r, "forgotten a, turn");
	assert_int_equal(rig_part(&r, 0)->nends, 0);
	assert_int_equal(rig_part(&r, 0)->room, 1);
	engine_counts(r.e, &c);
	assert_int_equal(c.settled, 1);
	rig_close(&r);
}

/* ---- sessions, and what the host lacks ---- */

static void tell_times(struct rig *r, enum engine_event_kind kind, bool yes, int n)
{
	for (int i = 0; i < n; i++)
		rig_step(r, (struct engine_event){.kind = kind, .yes = yes});
}

static void while_jobs_get_no_session_one_at_a_time_is_tried(void **state)
{
	(void)state;
	struct rig r = rig_open(8);
	r.chance = 0.9;
	rig_claim(&r, "abcde");
	rig_forget(&r);
	tell_times(&r, EVENT_SERVED, false, 5);
	assert_said(&r, "breaker opens");
	rig_tell(&r, EVENT_WOKEN);
	while (!r.turn || rig_part(&r, 0)->room == 0)
		if (r.turn)
			rig_accept(&r);
		else
			rig_after(&r, engine_wait_us(r.e, r.now));
	assert_int_equal(rig_part(&r, 0)->room, 1);
	rig_claim(&r, "p");
	rig_tell(&r, EVENT_WOKEN);
	if (r.turn)
		assert_int_equal(rig_part(&r, 0)->room,
		                 0); /* until the probe's result, or the end of its pause */
	settle_down(&r);
	rig_forget(&r);
	tell_times(&r, EVENT_SERVED, true, 1);
	assert_true(says(&r, "breaker closes, turn"));
	assert_int_equal(rig_part(&r, 0)->room, 2);
	rig_close(&r);
}

static void what_the_host_lacks_pauses_claims_and_jobs_are_handed_back(void **state)
{
	(void)state;
	struct rig r = rig_open(4);
	struct engine_counts c;
	r.chance = 0.5;
	rig_claim(&r, "abcd");
	rig_forget(&r);
	tell_times(&r, EVENT_LACKS, true, 1);
	assert_said(&r, "breaker opens");
	rig_end_as(&r, "abcd", SETTLE_RELEASED);
	assert_int_equal(rig_part(&r, 0)->room, 0);
	rig_accept(&r);
	assert_true(says(&r, "settled"));
	engine_counts(r.e, &c);
	assert_true(c.paused);
	assert_int_equal(c.lacking, 1);
	rig_after(&r, 501 * MILLI);
	assert_int_equal(rig_part(&r, 0)->room, 1);
	rig_claim(&r, "e");
	rig_forget(&r);
	tell_times(&r, EVENT_LACKS, false, 1);
	assert_true(says(&r, "breaker closes"));
	rig_close(&r);
}

/* ---- alone ---- */

static void claim_alone(struct rig *r, const char *keys, int which)
{
	rig_give(r, 0, keys);
	rig_part(r, 0)->claims[which].alone = true;
	rig_accept(r);
}

/*
 * A worker that is lost with it in hand is blamed: so it is not in hand together with others at
 * all.
 */
static void a_job_that_is_to_be_alone_is_handed_back_while_others_run(void **state)
{
	(void)state;
	struct rig r = rig_open(4);
	rig_forget(&r);
	claim_alone(&r, "abc", 0);
	assert_said(&r, "start b, start c, turn");
	assert_int_equal(rig_part(&r, 0)->nends, 1);
	assert_string_equal(rig_part(&r, 0)->ends[0].key, "a");
	assert_int_equal(rig_part(&r, 0)->ends[0].as, SETTLE_RELEASED);
	assert_int_equal(rig_part(&r, 0)->ends[0].delay_ms, -1);
	assert_int_equal(rig_part(&r, 0)->room, 0);
	rig_accept(&r);
	rig_tell(&r, EVENT_WOKEN);
	settle_down(&r);
	assert_int_equal(engine_holding(r.e), 2);
	rig_close(&r);
}

static void it_is_claimed_by_itself_when_nothing_else_is_in_hand(void **state)
{
	(void)state;
	struct rig r = rig_open(4);
	claim_alone(&r, "abc", 0);
	rig_accept(&r);
	rig_end(&r, "bc");
	if (!r.turn)
		rig_after(&r, 10 * MILLI);
	assert_int_equal(rig_part(&r, 0)->room, 1);
	rig_forget(&r);
	claim_alone(&r, "a", 0);
	assert_true(says(&r, "start a"));
	rig_tell(&r, EVENT_WOKEN);
	settle_down(&r);
	assert_int_equal(engine_holding(r.e), 1); /* nothing is claimed while it runs */
	rig_end(&r, "a");
	assert_int_equal(rig_part(&r, 0)->room, 1); /* there may be more like it */
	rig_claim(&r, "d");
	rig_tell(&r, EVENT_WOKEN);
	assert_int_equal(rig_part(&r, 0)->room, 3); /* there are not */
	rig_close(&r);
}

/* How long it ran says nothing about how long others kept it waiting. */
static void after_a_long_run_alone_the_next_one_is_waited_for_too(void **state)
{
	(void)state;
	struct rig r = rig_open(4);
	claim_alone(&r, "abc", 0);
	rig_accept(&r);
	rig_end(&r, "bc");
	if (!r.turn)
		rig_after(&r, 10 * MILLI);
	claim_alone(&r, "a", 0);
	settle_down(&r);
	r.now += 100 * SECOND;
	rig_end(&r, "a");
	assert_int_equal(rig_part(&r, 0)->room, 1);
	rig_close(&r);
}

static void of_several_that_are_to_be_alone_none_is_kept(void **state)
{
	(void)state;
	struct rig r = rig_open(4);
	rig_give(&r, 0, "ab");
	rig_part(&r, 0)->claims[0].alone = rig_part(&r, 0)->claims[1].alone = true;
	rig_forget(&r);
	rig_answer(&r);
	assert_said(&r, "turn");
	assert_int_equal(rig_part(&r, 0)->nends, 2);
	assert_int_equal(rig_part(&r, 0)->room, 1);
	claim_alone(&r, "a", 0);
	assert_true(says(&r, "start a"));
	rig_close(&r);
}

static void the_only_job_of_a_claim_runs_alone_at_once(void **state)
{
	(void)state;
	struct rig r = rig_open(4);
	rig_forget(&r);
	claim_alone(&r, "a", 0);
	assert_said(&r, "start a");
	rig_close(&r);
}

/* Claims continue after 30 s without success, and do not wait for it again so soon. */
static void claims_do_not_wait_for_ever_for_a_job_that_is_to_be_alone(void **state)
{
	(void)state;
	struct rig r = rig_open(4);
	claim_alone(&r, "ab", 0);
	settle_down(&r);
	int64_t began = r.now;
	while (!r.turn || rig_part(&r, 0)->room == 0) {
		settle_down(&r);
		r.now += engine_wait_us(r.e, r.now);
		rig_tell(&r, EVENT_TICK);
	}
	assert_true(r.now - began >= 29 * SECOND && r.now - began <= 31 * SECOND);
	assert_int_equal(rig_part(&r, 0)->room, 3);
	claim_alone(&r, "ac", 0);
	struct turn_part *p = rig_part(&r, 0);
	assert_int_equal(p->nends, 1);
	assert_int_equal(p->ends[0].as, SETTLE_RELEASED);
	assert_int_equal(p->ends[0].delay_ms, 1000);
	rig_accept(&r);
	rig_tell(&r, EVENT_WOKEN);
	assert_int_equal(rig_part(&r, 0)->room, 2);
	rig_close(&r);
}

/* ---- cancels, beats, progress, sizes ---- */

static void cancelled_jobs_are_looked_for_every_second_and_when_woken(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_claim(&r, "a");
	rig_after(&r, SECOND - 1);
	assert_null(r.turn);
	rig_after(&r, 1);
	assert_true(rig_part(&r, 0)->cancels);
	rig_accept(&r);
	rig_after(&r, 100 * MILLI);
	rig_tell(&r, EVENT_WOKEN);
	struct turn_part *p = rig_part(&r, 0);
	assert_true(p->cancels);
	p->cancelling = rig_keys(&r, "a", &p->ncancelling);
	rig_forget(&r);
	rig_answer(&r);
	assert_said(&r, "stop a");
	assert_false(r.runs[0]->lost);
	rig_close(&r);
}

static struct rig rig_that_beats(int64_t beat_ms)
{
	return rig_of((struct engine_pool){.concurrency = 2, .poll_ms = 60000, .beat_ms = beat_ms});
}

/* The next turn that beats. */
static struct turn_part *next_beat(struct rig *r)
{
	while (!r->turn || rig_part(r, 0)->nbeats == 0) {
		if (r->turn)
			rig_accept(r);
		else
			rig_after(r, engine_wait_us(r->e, r->now));
		assert_true(r->now < 1000 * SECOND);
	}
	return rig_part(r, 0);
}

static void jobs_in_hand_beat_and_those_that_are_lost_stop(void **state)
{
	(void)state;
	struct rig r = rig_that_beats(10000);
	rig_claim(&r, "ab");
	int64_t since = r.now;
	job_say(r.runs[0], "two", "half");
	struct turn_part *p = next_beat(&r);
	assert_int_equal(r.now - since, 10 * SECOND);
	assert_int_equal(p->nbeats, 2);
	assert_string_equal(p->beats[1].step, "two");
	assert_null(p->beats[0].step);
	p->beats[1].lost = true;
	rig_forget(&r);
	rig_accept(&r);
	assert_said(&r, "stop a");
	assert_int_equal(next_beat(&r)->nbeats, 1);
	rig_close(&r);
}

static void a_beat_that_failed_is_tried_again_soon_and_not_for_ever(void **state)
{
	(void)state;
	struct rig r = rig_that_beats(60000);
	rig_claim(&r, "a");
	static const char *const progress[] = {"no beat 1", "no beat 2", "no beat 3",
	                                       "no beat 4, given up"};
	static const int64_t then_s[] = {5, 5, 5, 60};
	for (int i = 0; i < 4; i++) {
		next_beat(&r)->beat_err = DEFIB_TIMEOUT;
		int64_t failed = r.now;
		rig_forget(&r);
		rig_accept(&r);
		assert_true(says(&r, progress[i]));
		next_beat(&r);
		assert_int_equal(r.now - failed, then_s[i] * SECOND);
	}
	rig_close(&r);
}

static void the_first_pool_beats_for_all_with_the_same_jobs(void **state)
{
	struct engine_pool pools[] = {
		{.concurrency = 1, .poll_ms = 60000, .beat_ms = 500},
		{.concurrency = 1, .poll_ms = 60000, .beat_ms = 500, .same_jobs = 0}};
	(void)state;
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 2});
	rig_give(&r, 1, "b");
	rig_claim(&r, "a");
	rig_after(&r, 500 * MILLI);
	assert_int_equal(r.turn->nparts, 1);
	assert_int_equal(rig_part(&r, 0)->nbeats, 2);
	rig_close(&r);
}

static void progress_is_told_every_half_second_at_most(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "ab");
	for (int i = 0; i < 2; i++) {
		job_say(r.runs[0], "one", "10");
		rig_tell(&r, EVENT_PROGRESS);
		if (i > 0)
			assert_null(r.turn);
		rig_after(&r, i * 500 * MILLI);
		assert_int_equal(r.turn->nprogress, 1);
		free(job_take_progress(r.turn->progress[0].job));
		r.turn->progress[0].lost = i > 0;
		rig_forget(&r);
		rig_accept(&r);
	}
	assert_said(&r, "stop a");
	rig_close(&r);
}

static void a_smaller_pool_lets_what_runs_finish(void **state)
{
	(void)state;
	struct rig r = rig_open(3);
	rig_claim(&r, "abc");
	rig_after(&r, 10 * MILLI);
	rig_step(&r, (struct engine_event){.kind = EVENT_RESIZE, .concurrency = 1, .poll_ms = 50});
	rig_end(&r, "a");
	assert_int_equal(rig_part(&r, 0)->room, 0);
	rig_accept(&r);
	rig_end(&r, "bc");
	assert_int_equal(rig_part(&r, 0)->room, 1);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs_claimed_while_we_were_declared_dead_are_not_started),
		cmocka_unit_test(what_a_dead_incarnation_had_in_hand_is_stopped_as_lost),
		cmocka_unit_test(the_end_of_a_lost_job_is_still_presented),
		cmocka_unit_test(a_claimer_that_is_gone_waits_for_a_new_incarnation),
		cmocka_unit_test(who_is_gone_and_still_proves_to_live_asks_again),
		cmocka_unit_test(nothing_is_claimed_without_good_contact),
		cmocka_unit_test(only_exclusive_jobs_stop_when_the_lease_has_run_out),
		cmocka_unit_test(exclusive_jobs_that_come_after_the_lease_ran_out_are_handed_back),
		cmocka_unit_test(a_stop_lets_jobs_finish_until_their_grace_is_over),
		cmocka_unit_test(the_second_stop_is_at_once_and_ends_are_recorded_first),
		cmocka_unit_test(what_was_claimed_while_a_stop_came_is_handed_back),
		cmocka_unit_test(a_job_that_its_handler_settled_is_forgotten_and_counted),
		cmocka_unit_test(while_jobs_get_no_session_one_at_a_time_is_tried),
		cmocka_unit_test(what_the_host_lacks_pauses_claims_and_jobs_are_handed_back),
		cmocka_unit_test(a_job_that_is_to_be_alone_is_handed_back_while_others_run),
		cmocka_unit_test(it_is_claimed_by_itself_when_nothing_else_is_in_hand),
		cmocka_unit_test(after_a_long_run_alone_the_next_one_is_waited_for_too),
		cmocka_unit_test(of_several_that_are_to_be_alone_none_is_kept),
		cmocka_unit_test(the_only_job_of_a_claim_runs_alone_at_once),
		cmocka_unit_test(claims_do_not_wait_for_ever_for_a_job_that_is_to_be_alone),
		cmocka_unit_test(cancelled_jobs_are_looked_for_every_second_and_when_woken),
		cmocka_unit_test(jobs_in_hand_beat_and_those_that_are_lost_stop),
		cmocka_unit_test(a_beat_that_failed_is_tried_again_soon_and_not_for_ever),
		cmocka_unit_test(the_first_pool_beats_for_all_with_the_same_jobs),
		cmocka_unit_test(progress_is_told_every_half_second_at_most),
		cmocka_unit_test(a_smaller_pool_lets_what_runs_finish),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
