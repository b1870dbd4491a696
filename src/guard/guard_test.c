/* SPDX-License-Identifier: Apache-2.0
 * guard_test.c: which jobs are held, by what and until when; what is reported about it. The brake
 * has a file of its own.
 */
#include "guard/guard.h"

#include "guard/guard_test.h"

/* ---- two looks ---- */

static void silence_of_a_beating_watch_needs_a_second_look(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, 1, 61);
	struct guard_answer a = ask_of(b, 0);
	assert_by(a, GUARD_LOOK);
	assert_int_equal(a.until_us, at(71));
	end(b);
	assert_sentence(b, "held 1 of 1, because 1 were silent at the first look; the second look "
	                   "follows after 10s");
	fall_silent(b, 1, 70);
	assert_by(ask_of(b, 0), GUARD_LOOK);
	end(b);
	fall_silent(b, 1, 71);
	assert_by(ask_of(b, 0), GUARD_PASS);
	assert_int_equal(report(b).confirmed, 1);
}

static void a_suspect_that_beat_in_between_starts_anew(void **state)
{
	struct bench *b = *state;
	calm(b);
	begin(b, 61);
	assert_by(ask(b, "j", "x0", 0), GUARD_LOOK);
	end(b);
	begin(b, 100);
	assert_by(ask(b, "j", "x0", 1), GUARD_LOOK);
	end(b);
	begin(b, 105);
	assert_by(ask(b, "j", "x1", 1), GUARD_LOOK); /* and so does one with another owner */
	end(b);
	begin(b, 115);
	assert_by(ask(b, "j", "x1", 1), GUARD_PASS);
}

static void what_was_stale_at_the_first_look_needs_no_second(void **state)
{
	struct bench *b = *state;
	begin(b, 0);
	assert_by(ask(b, "old", "gone", -61), GUARD_PASS);
	end(b);
	begin(b, 1);
	assert_by(ask(b, "old too", "gone", -61), GUARD_PASS);
	assert_by(ask(b, "new", "w0", -60), GUARD_LOOK);
}

static void a_watch_without_beats_needs_one_look(void **state)
{
	struct bench *b = *state;
	b->watch.beat_us = 0;
	guard_rules(b->guard, &b->watch);
	calm(b);
	begin(b, 61);
	assert_by(ask(b, "j", NULL, 0), GUARD_PASS);
}

static void time_in_an_outage_does_not_count_between_two_looks(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, 1, 61);
	assert_by(ask_of(b, 0), GUARD_LOOK);
	end(b);
	doubt_well(&b->doubt, at(61));
	doubt_outage(&b->doubt, at(300), "session lost");
	fall_silent(b, 1, 300);
	struct guard_answer a = ask_of(b, 0);
	assert_by(a, GUARD_LOOK);
	assert_int_equal(a.until_us, at(310));
	end(b);
	fall_silent(b, 1, 310);
	assert_by(ask_of(b, 0), GUARD_PASS);
}

static void time_behind_a_lock_does_not_count_between_two_looks(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, 1, 61);
	assert_by(ask_of(b, 0), GUARD_LOOK);
	end(b);
	/* No worker could have written before this pass. */
	begin(b, 61 + BEAT);
	guard_barred(b->guard);
	assert_by(ask_of(b, 0), GUARD_LOOK);
	end(b);
	begin(b, 61 + 2 * BEAT - 1);
	assert_by(ask_of(b, 0), GUARD_LOOK);
	end(b);
	begin(b, 61 + 2 * BEAT);
	assert_by(ask_of(b, 0), GUARD_PASS);
	end(b);
	/* A job that was confirmed, and not written yet, is no longer confirmed. */
	begin(b, 61 + 2 * BEAT + 1);
	guard_barred(b->guard);
	assert_by(ask_of(b, 0), GUARD_LOOK);
}

static void a_database_clock_set_forward_is_no_second_look(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, 1, 61);
	assert_by(ask_of(b, 0), GUARD_LOOK);
	end(b);
	b->ahead_s = 30;
	fall_silent(b, 1, 62);
	assert_by(ask_of(b, 0), GUARD_LOOK);
	end(b);
	fall_silent(b, 1, 71);
	assert_by(ask_of(b, 0), GUARD_PASS);
}

static void a_database_clock_set_back_costs_one_more_beat(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, 1, 90);
	assert_by(ask_of(b, 0), GUARD_LOOK);
	end(b);
	b->ahead_s = -20;
	fall_silent(b, 1, 95);
	assert_by(ask_of(b, 0), GUARD_LOOK);
	end(b);
	fall_silent(b, 1, 105);
	assert_by(ask_of(b, 0), GUARD_PASS);
}

static void suspects_that_are_not_asked_about_are_handed_out_once(void **state)
{
	struct bench *b = *state;
	calm(b);
	begin(b, 61);
	assert_by(ask(b, "a", "x0", 0), GUARD_LOOK);
	assert_by(ask(b, "b", "x1", 0), GUARD_LOOK);
	end(b);
	assert_int_equal(b->ngone, 0);
	assert_int_equal(report(b).suspects, 2);
	begin(b, 65);
	assert_by(ask(b, "a", "x0", 0), GUARD_LOOK);
	end(b);
	assert_int_equal(b->ngone, 1);
	assert_string_equal(b->gone[0].job, "b");
	begin(b, 66);
	end(b);
	assert_int_equal(b->ngone, 1);
	assert_string_equal(b->gone[0].job, "a");
	begin(b, 67);
	end(b);
	assert_int_equal(b->ngone, 0);
}

static void who_looks_well_by_a_clock_set_back_was_not_heard_again(void **state)
{
	struct bench *b = *state;
	calm(b);
	begin(b, 61);
	assert_by(ask(b, "a", "x0", 0), GUARD_LOOK);
	end(b);
	b->ahead_s = -30; /* now its sign of life is only 32 s old */
	begin(b, 62);
	end(b);
	assert_int_equal(b->ngone, 1);
	struct facts now = {.job = "a", .owner = "x0", .owner_alive = KNOWN_NOT};
	now.has_sign[SIGN_ALIVE] = true;
	now.sign_us[SIGN_ALIVE] = at(0);
	assert_false(is_near_miss(&b->gone[0], &now));
	now.sign_us[SIGN_ALIVE] = at(-1); /* written by the new clock */
	assert_true(is_near_miss(&b->gone[0], &now));
	now.sign_us[SIGN_ALIVE] = at(0);
	now.owner = "x1";
	assert_true(is_near_miss(&b->gone[0], &now));
}

static void a_suspect_that_was_let_through_is_not_missed(void **state)
{
	struct bench *b = *state;
	calm(b);
	begin(b, 61);
	assert_by(ask(b, "a", "x0", 0), GUARD_LOOK);
	end(b);
	begin(b, 71);
	assert_by(ask(b, "a", "x0", 0), GUARD_PASS);
	end(b);
	begin(b, 72);
	end(b);
	assert_int_equal(b->ngone, 0);
}

static void a_confirmed_job_that_could_not_be_written_passes_again(void **state)
{
	struct bench *b = *state;
	calm(b);
	begin(b, 61);
	assert_by(ask(b, "a", "x0", 0), GUARD_LOOK);
	end(b);
	for (int64_t s = 71; s < 75; s++) {
		begin(b, s);
		assert_by(ask(b, "a", "x0", 0), GUARD_PASS);
		guard_give_back(b->guard);
		end(b);
	}
	assert_int_equal(report(b).confirmed, 1);
}

static void a_pass_that_broke_off_forgets_nobody(void **state)
{
	struct bench *b = *state;
	calm(b);
	begin(b, 61);
	assert_by(ask(b, "a", "x0", 0), GUARD_LOOK);
	end(b);
	begin(b, 62);
	assert_by(ask(b, "b", "x0", 0), GUARD_LOOK);
	begin(b, 72);
	assert_by(ask(b, "a", "x0", 0), GUARD_PASS);
	assert_by(ask(b, "b", "x0", 0), GUARD_PASS);
	end(b);
	assert_int_equal(b->ngone, 0);
}

static void a_pass_that_broke_off_before_it_met_anybody_leaves_no_trace(void **state)
{
	struct bench *b = *state;
	calm(b);
	begin(b, 60);
	begin(b, 61);
	assert_by(ask(b, "a", "x0", 0), GUARD_LOOK);
	end(b);
	assert_int_equal(b->ngone, 0);
	assert_int_equal(report(b).suspects, 1);
}

static void who_finds_no_room_among_the_suspects_is_judged_by_age(void **state)
{
	struct bench *b = *state;
	calm(b);
	begin(b, 61);
	for (int i = 0; i < SUSPECTS_MOST; i++) {
		char job[16];
		(void)snprintf(job, sizeof job, "j%d", i);
		assert_by(ask(b, job, NULL, 0), GUARD_LOOK);
	}
	struct guard_answer a = ask(b, "one more", NULL, 0);
	assert_by(a, GUARD_LOOK);
	assert_int_equal(a.until_us, at(70));
	assert_by(ask(b, "older", NULL, -9), GUARD_PASS);
	assert_int_equal(report(b).suspects, SUSPECTS_MOST);
}

/* ---- doubt ---- */

static void silence_behind_an_outage_is_doubted_for_two_beats(void **state)
{
	struct bench *b = *state;
	calm(b);
	doubt_well(&b->doubt, at(50));
	doubt_outage(&b->doubt, at(100), "session lost");
	begin(b, 100);
	struct guard_answer a = ask_of(b, 0);
	assert_by(a, GUARD_DOUBT);
	assert_int_equal(a.until_us, at(120));
	struct guard_report r = report(b);
	assert_true(r.doubting && r.doubt_until_us == at(120) && r.again_us == at(120));
	assert_string_equal(r.doubt_cause, "session lost");
	assert_false(r.braking); /* a silence that doubt excuses does not count yet */
	assert_sentence(
		b, "held 1 of 1, because the observer itself was away (session lost); 1 are judged "
		   "again by 03:06:05Z");
	end(b);
	fall_silent(b, 1, 120);
	assert_by(ask_of(b, 0), GUARD_LOOK);
	r = report(b);
	assert_true(!r.doubting && r.doubt_until_us == 0 && !r.doubt_cause);
}

static void without_beats_quiet_is_thirty_seconds(void **state)
{
	struct bench *b = *state;
	b->watch.beat_us = 0;
	guard_rules(b->guard, &b->watch);
	calm(b);
	doubt_well(&b->doubt, at(50));
	doubt_outage(&b->doubt, at(100), "paused");
	begin(b, 100);
	assert_int_equal(ask(b, "j", NULL, 0).until_us, at(130));
	assert_by(ask(b, "stuck before", NULL, -10), GUARD_PASS);
}

static void a_deadline_without_slack_is_doubted_for_all_of_quiet(void **state)
{
	struct bench *b = *state;
	calm(b);
	doubt_well(&b->doubt, at(50));
	doubt_outage(&b->doubt, at(100), "session lost");
	begin(b, 100);
	struct guard_answer a = ask_as(b, "j", "w0", at(60), VERDICT_SILENT, SIGN_EXPIRES);
	assert_by(a, GUARD_DOUBT);
	assert_int_equal(a.until_us, at(120));
	a = ask_as(b, "before", "w1", at(49), VERDICT_SILENT, SIGN_EXPIRES);
	assert_by(a, GUARD_LOOK);
}

static void we_doubt_after_an_outage_even_when_nobody_is_asked_about(void **state)
{
	struct bench *b = *state;
	doubt_well(&b->doubt, at(0));
	doubt_outage(&b->doubt, at(10), "paused");
	begin(b, 10);
	assert_true(report(b).doubting);
	assert_sentence(b, "nothing is held back: nothing is stuck");
	end(b);
	begin(b, 30);
	assert_false(report(b).doubting);
}

/* ---- pace, pause, override, verdicts ---- */

static void dead_is_neither_held_nor_paced(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, OWNERS, 61);
	for (int i = 0; i < 1000; i++)
		assert_by(ask_as(b, "j", "w0", at(0), VERDICT_DEAD, SIGN_ALIVE), GUARD_PASS);
}

static void what_went_without_paying_gives_nothing_back(void **state)
{
	struct bench *b = *state;
	begin(b, 0);
	for (int i = 0; i < 100; i++)
		assert_by(ask(b, "old", "gone", -1000), GUARD_PASS);
	end(b);
	begin(b, 0);
	assert_by(ask_as(b, "j", "w0", at(0), VERDICT_DEAD, SIGN_ALIVE), GUARD_PASS);
	guard_give_back(b->guard);
	assert_by(ask(b, "old", "gone", -1000), GUARD_PACE);
}

static void overdue_and_orphan_are_paced_only(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, OWNERS, 61);
	for (int i = 0; i < 100; i++)
		assert_by(
			ask_as(b, "j", "w0", at(0), i % 2 ? VERDICT_OVERDUE : VERDICT_ORPHAN, SIGN_STARTED),
			GUARD_PASS);
	struct guard_answer a = ask_as(b, "j", "w0", at(0), VERDICT_OVERDUE, SIGN_STARTED);
	assert_by(a, GUARD_PACE);
	assert_in_range(a.until_us, at(61) + S / 50, at(61) + S / 50 + 1);
}

static void a_stale_backlog_is_paced_with_the_eta_of_its_turn(void **state)
{
	struct bench *b = *state;
	begin(b, 0);
	for (int i = 0; i < 231; i++) {
		struct guard_answer a = ask(b, "old", "gone", -1000);
		assert_by(a, i < 100 ? GUARD_PASS : GUARD_PACE);
		if (i == 199)
			assert_in_range(a.until_us, at(2), at(2) + 1);
	}
	assert_in_range(report(b).again_us, at(1), at(1) + 1);
	assert_sentence(b, "held 131 of 231, because 131 wait for the pace of 50 per second, "
	                   "the last in 2s");
	end(b);
	begin(b, 1);
	assert_by(ask(b, "old", "gone", -1000), GUARD_PASS);
	assert_int_equal(report(b).held[GUARD_PASS], 1);
}

static void the_time_of_a_batch_fills_the_bucket_and_its_success_the_rate(void **state)
{
	struct bench *b = *state;
	begin(b, 0);
	for (int i = 0; i < 100; i++)
		assert_by(ask(b, "old", "gone", -1000), GUARD_PASS);
	assert_by(ask(b, "old", "gone", -1000), GUARD_PACE);
	guard_batch(b->guard, 100, S / 10, false);
	assert_true(report(b).rate == 75);
	for (int i = 0; i < 7; i++)
		assert_by(ask(b, "old", "gone", -1000), GUARD_PASS);
	assert_by(ask(b, "old", "gone", -1000), GUARD_PACE);
}

/* How many of this many old jobs pass at s. */
static int gone_of(struct bench *b, int64_t s, int jobs)
{
	int gone = 0;
	begin(b, s);
	for (int i = 0; i < jobs; i++)
		gone += ask(b, "old", NULL, -1000).by == GUARD_PASS;
	end(b);
	return gone;
}

/* A watch is read again at each reload: unchanged options must not fill the bucket again. */
static void a_reload_gives_a_new_burst_only_where_the_pace_is_another(void **state)
{
	struct bench *b = *state;
	assert_int_equal(gone_of(b, 0, 200), 100);
	guard_rules(b->guard, &b->watch);
	assert_int_equal(gone_of(b, 0, 200), 0);
	b->watch.guard.pace_burst = 30;
	guard_rules(b->guard, &b->watch);
	assert_int_equal(gone_of(b, 0, 200), 30);
	b->watch.guard.pace_per_s = 10;
	guard_rules(b->guard, &b->watch);
	assert_int_equal(gone_of(b, 0, 200), 30);
}

static void a_pause_stops_everything_until_it_is_over(void **state)
{
	struct bench *b = *state;
	guard_pause(b->guard, true);
	begin(b, 0);
	assert_by(ask(b, "old", "gone", -1000), GUARD_PAUSED);
	assert_by(ask_as(b, "j", "w0", at(0), VERDICT_DEAD, SIGN_ALIVE), GUARD_PAUSED);
	assert_true(report(b).paused);
	assert_sentence(b, "held 2 of 2, because an operator paused recovery of this watch; 2 wait "
	                   "until it is resumed");
	end(b);
	b->watch.guard.pace_per_s = 70; /* new rules do not end it */
	guard_rules(b->guard, &b->watch);
	assert_true(report(b).paused);
	guard_pause(b->guard, false);
	begin(b, 1);
	assert_by(ask(b, "old", "gone", -1000), GUARD_PASS);
	assert_sentence(b, "nothing is held back: all 1 passed");
}

static void a_person_can_go_past_doubt_and_second_look_for_one_pass(void **state)
{
	struct bench *b = *state;
	calm(b);
	doubt_well(&b->doubt, at(50));
	doubt_outage(&b->doubt, at(100), "session lost");
	guard_begin(b->guard, &b->doubt, at(100), 100 * S, b->census, b->n, true);
	b->now_s = 100;
	assert_by(ask_of(b, 0), GUARD_PASS);
	end(b);
	begin(b, 101);
	assert_by(ask_of(b, 1), GUARD_DOUBT);
}

static void guard_off_has_no_pace_but_doubts_and_looks_twice(void **state)
{
	struct bench *b = *state;
	b->watch.guard.off = true;
	guard_rules(b->guard, &b->watch);
	begin(b, 0);
	for (int i = 0; i < 1000; i++)
		assert_by(ask(b, "old", "gone", -1000), GUARD_PASS);
	assert_true(report(b).rate == 0);
	end(b);
	fall_silent(b, OWNERS, 61);
	assert_by(ask_of(b, 0), GUARD_LOOK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(silence_of_a_beating_watch_needs_a_second_look),
		TEST(a_suspect_that_beat_in_between_starts_anew),
		TEST(what_was_stale_at_the_first_look_needs_no_second),
		TEST(a_watch_without_beats_needs_one_look),
		TEST(time_in_an_outage_does_not_count_between_two_looks),
		TEST(time_behind_a_lock_does_not_count_between_two_looks),
		TEST(a_database_clock_set_forward_is_no_second_look),
		TEST(a_database_clock_set_back_costs_one_more_beat),
		TEST(suspects_that_are_not_asked_about_are_handed_out_once),
		TEST(who_looks_well_by_a_clock_set_back_was_not_heard_again),
		TEST(a_suspect_that_was_let_through_is_not_missed),
		TEST(a_confirmed_job_that_could_not_be_written_passes_again),
		TEST(a_pass_that_broke_off_forgets_nobody),
		TEST(a_pass_that_broke_off_before_it_met_anybody_leaves_no_trace),
		TEST(who_finds_no_room_among_the_suspects_is_judged_by_age),
		TEST(silence_behind_an_outage_is_doubted_for_two_beats),
		TEST(without_beats_quiet_is_thirty_seconds),
		TEST(a_deadline_without_slack_is_doubted_for_all_of_quiet),
		TEST(we_doubt_after_an_outage_even_when_nobody_is_asked_about),
		TEST(dead_is_neither_held_nor_paced),
		TEST(what_went_without_paying_gives_nothing_back),
		TEST(overdue_and_orphan_are_paced_only),
		TEST(a_stale_backlog_is_paced_with_the_eta_of_its_turn),
		TEST(the_time_of_a_batch_fills_the_bucket_and_its_success_the_rate),
		TEST(a_reload_gives_a_new_burst_only_where_the_pace_is_another),
		TEST(a_pause_stops_everything_until_it_is_over),
		TEST(a_person_can_go_past_doubt_and_second_look_for_one_pass),
		TEST(guard_off_has_no_pace_but_doubts_and_looks_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
