/* SPDX-License-Identifier: Apache-2.0
 * brake_test.c: when the brake engages, which owners it holds, and that it releases them: through
 * the guard, as the daemon uses it.
 */
#include "guard/brake.h"

#include "guard/guard_test.h"

/* How many of the owners' silent jobs the brake holds in this pass. */
static int held_of(struct bench *b, int silent)
{
	int held = 0;
	for (int i = 0; i < silent; i++)
		held += ask_of(b, i).by == GUARD_BRAKE;
	return held;
}

static void most_of_those_who_beat_fell_silent_at_once(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, 19, 61);
	assert_int_equal(held_of(b, 19), 19);
	assert_int_equal(ask_of(b, 0).until_us, at(61 + CEILING));
	struct guard_report r = report(b);
	assert_true(r.braking);
	assert_int_equal(r.brake_silent, 19);
	assert_int_equal(r.brake_beating, 1);
	assert_int_equal(r.brake_since_us, at(61));
	assert_int_equal(r.brake_until_us, at(61 + CEILING));
	assert_int_equal(r.brakes, 1);
	assert_sentence(b,
	                "held 20 of 20, because 19 of 20 owners fell silent within 1m; releases when "
	                "they return or their end is known, at 03:15:06Z at the latest");
}

static void two_of_twenty_are_no_mass(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, 2, 61);
	assert_int_equal(held_of(b, 2), 0);
	assert_false(report(b).braking);
	end(b);
	fall_silent(b, 2, 71);
	assert_by(ask_of(b, 0), GUARD_PASS);
	assert_by(ask_of(b, 1), GUARD_PASS);
}

static void two_owners_are_never_a_mass(void **state)
{
	struct bench *b = *state;
	b->n = 2;
	calm(b);
	begin(b, 61);
	assert_int_equal(held_of(b, 2), 0);
}

static void ten_of_twenty_are_too_few(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, 10, 61);
	assert_int_equal(held_of(b, 10), 0);
}

static void eleven_of_twenty_are_enough(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, 11, 61);
	assert_int_equal(held_of(b, 11), 11);
}

static void owners_that_we_never_saw_beating_are_exempt(void **state)
{
	struct bench *b = *state;
	for (int i = 0; i < OWNERS; i++)
		b->census[i].sign_us = at(-61);
	calm(b);
	begin(b, 10);
	for (int i = 0; i < OWNERS; i++)
		assert_by(ask_of(b, i), GUARD_PASS);
	assert_false(report(b).braking);
}

static void those_who_fell_long_before_the_newest_are_not_of_the_mass(void **state)
{
	struct bench *b = *state;
	calm(b); /* 0..9 fall at 0; 10..18 at 61, one limit and a second later */
	beat(b, 10, OWNERS, 61);
	begin(b, 61);
	end(b);
	beat(b, 19, OWNERS, 122);
	begin(b, 122);
	assert_true(report(b).braking); /* 9 of 10 */
	assert_int_equal(report(b).brake_silent, 9);
	assert_by(ask_of(b, 0), GUARD_LOOK);
	assert_by(ask_of(b, 10), GUARD_BRAKE);
}

static void whoever_falls_while_it_holds_is_held_too(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, 15, 61);
	end(b);
	begin(b, 200);
	assert_int_equal(held_of(b, OWNERS), OWNERS);
	assert_int_equal(report(b).brakes, 1);
}

static void owners_whose_end_is_known_do_not_count(void **state)
{
	struct bench *b = *state;
	calm(b);
	for (int i = 0; i < 19; i++)
		b->census[i].dead = true;
	fall_silent(b, 19, 61);
	assert_false(report(b).braking);
}

static void owners_that_are_idle_simply_leave(void **state)
{
	struct bench *b = *state;
	calm(b);
	b->n = 0;
	begin(b, 61);
	assert_false(report(b).braking);
	end(b);
	b->n = OWNERS; /* and when they are back, they are as new */
	begin(b, 62);
	assert_false(report(b).braking);
}

static void it_lets_go_when_owners_return(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, 12, 61);
	assert_int_equal(held_of(b, 12), 12);
	end(b);
	beat(b, 2, OWNERS, 80); /* two stay silent */
	begin(b, 80);
	assert_int_equal(held_of(b, 2), 2); /* they may be slightly behind the others */
	end(b);
	beat(b, 2, OWNERS, 140);
	begin(b, 140);
	assert_false(report(b).braking);
	assert_string_equal(report(b).brake_ended, "returned");
	assert_by(ask_of(b, 0), GUARD_PASS); /* it was seen first under the brake */
}

static void it_lets_go_when_their_end_is_known(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, 19, 61);
	assert_int_equal(held_of(b, 19), 19);
	end(b);
	for (int i = 0; i < 17; i++)
		b->census[i].dead = true;
	fall_silent(b, 19, 62);
	assert_false(report(b).braking);
	assert_string_equal(report(b).brake_ended, "evidence");
}

static void it_lets_go_at_its_ceiling_and_is_not_engaged_by_the_same_again(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, OWNERS, 61);
	assert_int_equal(held_of(b, OWNERS), OWNERS);
	end(b);
	begin(b, 61 + CEILING - 1);
	assert_int_equal(held_of(b, OWNERS), OWNERS);
	end(b);
	for (int64_t s = 61 + CEILING; s < 61 + CEILING + 5; s++) {
		begin(b, s);
		assert_false(report(b).braking);
		for (int i = 0; i < OWNERS; i++)
			assert_by(ask_of(b, i), GUARD_PASS);
		assert_string_equal(report(b).brake_ended, "ceiling");
		end(b);
	}
}

static void it_engages_again_for_owners_that_beat_in_between(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, OWNERS, 61);
	end(b);
	begin(b, 61 + CEILING);
	end(b);
	beat(b, 0, OWNERS, 700);
	begin(b, 700);
	end(b);
	begin(b, 761);
	assert_true(report(b).braking);
	assert_int_equal(report(b).brakes, 2);
}

static void the_ceiling_is_on_our_own_clock(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, OWNERS, 61);
	end(b);
	b->ahead_s = -400; /* the database's clock is set back, but not to where they were fresh */
	for (int i = 0; i < OWNERS; i++)
		b->census[i].sign_us = at(0);
	begin(b, 61 + CEILING - 1);
	assert_int_equal(report(b).brake_until_us, at(61 + CEILING - 400));
	assert_true(report(b).braking);
	end(b);
	begin(b, 61 + CEILING);
	assert_false(report(b).braking);
}

/* Their signs look fresh by the clock, but none of them has beaten. */
static void a_clock_that_is_set_back_is_not_their_return(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, OWNERS, 61);
	end(b);
	b->ahead_s = -30;
	begin(b, 62);
	assert_true(report(b).braking);
	end(b);
	begin(b, 95);
	assert_int_equal(held_of(b, OWNERS), OWNERS);
	assert_int_equal(report(b).brakes, 1);
}

static void an_outage_of_ours_is_not_their_return(void **state)
{
	struct bench *b = *state;
	calm(b);
	fall_silent(b, OWNERS, 61);
	end(b);
	doubt_well(&b->doubt, at(50));
	doubt_outage(&b->doubt, at(62), "the session was lost");
	begin(b, 62);
	assert_true(report(b).braking);
	end(b);
	begin(b, 120);
	assert_int_equal(held_of(b, OWNERS), OWNERS);
}

static void a_person_can_go_past_it(void **state)
{
	struct bench *b = *state;
	calm(b);
	b->now_s = 61;
	guard_begin(b->guard, &b->doubt, at(61), 61 * S, b->census, b->n, true);
	assert_by(ask_of(b, 0), GUARD_PASS);
	end(b);
	begin(b, 62);
	assert_by(ask_of(b, 0), GUARD_BRAKE);
}

static void guard_off_and_watches_without_census_have_none(void **state)
{
	struct bench *b = *state;
	calm(b);
	begin(b, 61);
	assert_true(report(b).braking);
	end(b);
	guard_begin(b->guard, &b->doubt, at(62), 62 * S, NULL, 0, false);
	assert_false(report(b).braking);
	end(b);
	b->watch.guard.off = true;
	guard_rules(b->guard, &b->watch);
	beat(b, 0, OWNERS, 63);
	begin(b, 63);
	end(b);
	begin(b, 124);
	assert_false(report(b).braking);
}

static void a_row_of_the_census_without_an_owner_is_left_out(void **state)
{
	struct bench *b = *state;
	b->census[0].owner = NULL;
	calm(b);
	begin(b, 61);
	assert_int_equal(report(b).brake_silent, OWNERS - 1);
	assert_by(ask(b, "j", NULL, 0), GUARD_LOOK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(most_of_those_who_beat_fell_silent_at_once),
		TEST(two_of_twenty_are_no_mass),
		TEST(two_owners_are_never_a_mass),
		TEST(ten_of_twenty_are_too_few),
		TEST(eleven_of_twenty_are_enough),
		TEST(owners_that_we_never_saw_beating_are_exempt),
		TEST(those_who_fell_long_before_the_newest_are_not_of_the_mass),
		TEST(whoever_falls_while_it_holds_is_held_too),
		TEST(owners_whose_end_is_known_do_not_count),
		TEST(owners_that_are_idle_simply_leave),
		TEST(it_lets_go_when_owners_return),
		TEST(it_lets_go_when_their_end_is_known),
		TEST(it_lets_go_at_its_ceiling_and_is_not_engaged_by_the_same_again),
		TEST(it_engages_again_for_owners_that_beat_in_between),
		TEST(the_ceiling_is_on_our_own_clock),
		TEST(a_clock_that_is_set_back_is_not_their_return),
		TEST(an_outage_of_ours_is_not_their_return),
		TEST(a_person_can_go_past_it),
		TEST(guard_off_and_watches_without_census_have_none),
		TEST(a_row_of_the_census_without_an_owner_is_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
