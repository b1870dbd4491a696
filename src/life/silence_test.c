/* SPDX-License-Identifier: Apache-2.0
 * silence_test.c: silence of few is death, silence of most is doubt, and doubt ends. Only what we
 * read and wrote ourselves counts, by our own clock.
 */
#include "life/silence.h"

#include "base/test.h"

#define LEASE_MS 15000
#define S 1000LL
#define MANY 20

/* Workers 1…n, and one that observes them. */
struct world {
	struct registered all[MANY];
	int n;
	int64_t now_ms;
	struct silence silence;
};

static void begin(struct world *w, int n)
{
	*w = (struct world){.n = n, .now_ms = 1000 * S};
	silence_init(&w->silence, LEASE_MS, 0);
}

/* Time passes; the first `beating` and ourselves renew our leases; then a list is read. */
static void pass_by(struct world *w, int64_t ms, int beating, int64_t server_us)
{
	w->now_ms += ms;
	for (int i = 0; i < w->n; i++) {
		struct registered *r = &w->all[i];
		r->id = i + 1;
		r->now_us = server_us;
		r->lease_us = r->lease_us ? r->lease_us : LEASE_MS * 1000LL;
		if (i < beating)
			r->stamp_us = server_us;
	}
	silence_renewed(&w->silence, w->now_ms);
	silence_look(&w->silence, w->all, w->n, true, w->now_ms);
}

static void pass(struct world *w, int64_t ms, int beating)
{
	pass_by(w, ms, beating, (w->now_ms + ms) * 1000);
}

static int convicted(const struct world *w)
{
	int64_t stamp_us;
	int n = 0;
	for (int i = 0; i < w->n; i++)
		n += silence_convicts(&w->silence, w->all[i].id, &stamp_us);
	return n;
}

/* ---- the rule ---- */

static void whoever_has_just_come_convicts_nobody_before_a_lease_is_over(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 2);
	w.all[1].stamp_us = 1; /* years ago */
	pass(&w, S, 1);
	assert_int_equal(convicted(&w), 0);
	pass(&w, LEASE_MS - 1, 1);
	assert_int_equal(convicted(&w), 0);
	pass(&w, 1, 1);
	assert_int_equal(convicted(&w), 1);
	silence_release(&w.silence);
}

static void the_stamp_that_was_read_is_what_must_still_be_there(void **state)
{
	struct world w;
	int64_t stamp_us = 0;
	(void)state;
	begin(&w, 2);
	w.all[1].stamp_us = 4711;
	pass(&w, S, 1);
	pass(&w, LEASE_MS, 1);
	assert_true(silence_convicts(&w.silence, 2, &stamp_us));
	assert_int_equal(stamp_us, 4711);
	silence_release(&w.silence);
}

static void a_clock_that_jumps_convicts_nobody_who_renews(void **state)
{
	static const int64_t jumps_s[] = {60, 86400, -7200};
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct world w;
		begin(&w, 4);
		pass(&w, S, 4);
		pass_by(&w, S, 1, (w.now_ms / 1000 + jumps_s[i]) * 1000000);
		assert_int_equal(convicted(&w), 0);
		for (int k = 0; k < 9; k++) {
			pass_by(&w, LEASE_MS / 3, 4, (w.now_ms / 1000 + jumps_s[i]) * 1000000 + k);
			assert_int_equal(convicted(&w), 0);
		}
		silence_release(&w.silence);
	}
}

static void any_other_stamp_is_a_sign_of_life_also_an_older_one(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 2);
	pass(&w, S, 2);
	pass(&w, LEASE_MS - 1, 1);
	w.all[1].stamp_us -= 7200 * S * 1000;
	pass(&w, 1, 1);
	assert_int_equal(convicted(&w), 0);
	pass(&w, LEASE_MS, 1);
	assert_int_equal(convicted(&w), 1);
	silence_release(&w.silence);
}

static void an_outage_of_our_own_begins_the_lease_anew(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 2);
	pass(&w, S, 2);
	pass(&w, LEASE_MS - 1, 1);
	silence_outage(&w.silence);
	pass(&w, 1, 1);
	pass(&w, LEASE_MS - 1, 1);
	assert_int_equal(convicted(&w), 0);
	pass(&w, 1, 1);
	assert_int_equal(convicted(&w), 1);
	silence_release(&w.silence);
}

static void who_has_not_written_itself_since_convicts_nobody(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 2);
	pass(&w, S, 2);
	for (int k = 0; k < 30; k++) {
		w.now_ms += S;
		silence_look(&w.silence, w.all, w.n, true, w.now_ms);
		assert_int_equal(convicted(&w), 0);
	}
	assert_true(silence_wants_proof(&w.silence, 1));
	silence_renewed(&w.silence, w.now_ms);
	assert_false(silence_wants_proof(&w.silence, 1));
	assert_int_equal(convicted(&w), 2);
	silence_release(&w.silence);
}

static void nobody_is_convicted_by_who_looked_only_at_neighbours(void **state)
{
	struct world w;
	int64_t stamp_us;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	silence_renewed(&w.silence, w.now_ms + S);
	for (int k = 0; k < 3; k++) {
		w.now_ms += LEASE_MS;
		silence_look(&w.silence, &w.all[3], 7, false, w.now_ms);
		assert_false(silence_convicts(&w.silence, 4, &stamp_us));
	}
	assert_int_equal(silence_share(&w.silence, 4), 3000);
	assert_int_equal(silence_share(&w.silence, 19), 0); /* not read again: not known to be so */
	pass(&w, S, 0);
	assert_int_equal(convicted(&w), 0);
	pass(&w, LEASE_MS / 2, 0);
	assert_int_equal(convicted(&w), 0); /* and by then it is seen that all are silent */
	assert_true(silence_holds(&w.silence));
	silence_release(&w.silence);
}

/* ---- most at once ---- */

static void two_of_twenty_are_convicted_when_their_lease_is_over(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	pass(&w, LEASE_MS - 1, 18);
	assert_int_equal(convicted(&w), 0);
	pass(&w, 1, 18);
	assert_int_equal(convicted(&w), 2);
	silence_release(&w.silence);
}

static void most_of_those_who_beat_are_held(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	pass(&w, LEASE_MS + S, 9); /* 11 of 20 are 55 % */
	assert_true(silence_holds(&w.silence));
	assert_int_equal(convicted(&w), 0);
	silence_release(&w.silence);
}

static void fewer_than_the_share_are_not_held(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	pass(&w, LEASE_MS + S, 10);
	assert_false(silence_holds(&w.silence));
	assert_int_equal(convicted(&w), 10);
	silence_release(&w.silence);
}

static void two_are_never_a_mass(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 3);
	pass(&w, S, 3);
	pass(&w, LEASE_MS + S, 1);
	assert_int_equal(convicted(&w), 2);
	silence_release(&w.silence);
}

static void their_return_lets_go_and_whoever_stays_away_is_convicted(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	pass(&w, LEASE_MS + S, 1);
	assert_true(silence_holds(&w.silence));
	pass(&w, S, 18);
	assert_int_equal(convicted(&w), 0); /* the last ones may be slightly behind the others */
	pass(&w, LEASE_MS - 1, 18);
	assert_int_equal(convicted(&w), 0);
	pass(&w, 1, 18);
	assert_false(silence_holds(&w.silence));
	assert_int_equal(convicted(&w), 2);
	silence_release(&w.silence);
}

static void the_ceiling_lets_go_and_the_same_silence_is_not_held_again(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	pass(&w, LEASE_MS + S, 1);
	for (int64_t t = 0; t < SILENCE_CEILING_MS / 1000 - 1; t++) {
		pass(&w, S, 1);
		assert_int_equal(convicted(&w), 0);
	}
	pass(&w, S, 1);
	assert_int_equal(convicted(&w), 19);
	pass(&w, S, 1);
	assert_false(silence_holds(&w.silence));
	assert_int_equal(convicted(&w), 19);
	silence_release(&w.silence);
}

/* All are cut off at one moment; their last beats are up to a third of a lease old. */
static void the_first_whose_lease_ends_is_held_with_the_rest(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	for (int i = 1; i <= 19; i++)
		pass(&w, LEASE_MS / 3 / 20, 21 - i);
	for (int t = 0; t < 60; t++) {
		pass(&w, LEASE_MS / 40, 1);
		assert_int_equal(convicted(&w), 0);
	}
	assert_true(silence_holds(&w.silence));
	silence_release(&w.silence);
}

static void without_a_brake_all_are_convicted(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	silence_init(&w.silence, LEASE_MS, -1);
	pass(&w, S, 20);
	pass(&w, LEASE_MS + S, 1);
	assert_int_equal(convicted(&w), 19);
	silence_release(&w.silence);
}

/* Twenty died while no worker ran. A worker that starts then has a backlog, not an event. */
static void those_who_were_silent_before_we_came_are_no_mass(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	for (int i = 1; i < w.n; i++)
		w.all[i].expired = true;
	pass(&w, S, 1);
	pass(&w, LEASE_MS - 1, 1);
	assert_int_equal(convicted(&w), 0);
	pass(&w, 1, 1);
	assert_false(silence_holds(&w.silence));
	assert_int_equal(convicted(&w), 19);
	silence_release(&w.silence);
}

/* We start while the others are cut off, and their leases have not expired yet. */
static void those_who_were_fresh_when_we_came_and_then_fell_silent_are_held(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 1);
	pass(&w, LEASE_MS, 1);
	assert_true(silence_holds(&w.silence));
	assert_int_equal(convicted(&w), 0);
	silence_release(&w.silence);
}

static void outages_of_our_own_do_not_have_a_silence_held_again(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	pass(&w, LEASE_MS + S, 1);
	assert_true(silence_holds(&w.silence));
	pass(&w, SILENCE_CEILING_MS, 1);
	assert_int_equal(convicted(&w), 19);
	silence_outage(&w.silence);
	pass(&w, S, 1);
	assert_int_equal(convicted(&w), 0);
	pass(&w, LEASE_MS, 1);
	assert_false(silence_holds(&w.silence));
	assert_int_equal(convicted(&w), 19);
	silence_release(&w.silence);
}

/*
 * One falls silent every lease, and we are absent too often to declare it dead: they are not one
 * event.
 */
static void silences_that_began_apart_are_no_mass_after_an_outage(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	for (int beating = 19; beating > 4; beating--) {
		for (int k = 0; k < 4; k++)
			pass(&w, LEASE_MS / 4, beating);
		pass(&w, 1, beating);
		silence_outage(&w.silence);
	}
	pass(&w, S, 5);
	pass(&w, LEASE_MS, 5);
	assert_false(silence_holds(&w.silence));
	assert_int_equal(convicted(&w), 15);
	silence_release(&w.silence);
}

/* One has a lease of an hour, ours is of seconds: each is judged by its own. */
static void a_longer_lease_is_not_silent_sooner(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 4);
	pass(&w, S, 4);
	w.all[3].lease_us = 3600 * S * 1000;
	pass(&w, LEASE_MS + S, 3);
	assert_int_equal(convicted(&w), 0);
	assert_false(silence_holds(&w.silence));
	silence_release(&w.silence);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_has_just_come_convicts_nobody_before_a_lease_is_over),
		cmocka_unit_test(the_stamp_that_was_read_is_what_must_still_be_there),
		cmocka_unit_test(a_clock_that_jumps_convicts_nobody_who_renews),
		cmocka_unit_test(any_other_stamp_is_a_sign_of_life_also_an_older_one),
		cmocka_unit_test(an_outage_of_our_own_begins_the_lease_anew),
		cmocka_unit_test(who_has_not_written_itself_since_convicts_nobody),
		cmocka_unit_test(nobody_is_convicted_by_who_looked_only_at_neighbours),
		cmocka_unit_test(two_of_twenty_are_convicted_when_their_lease_is_over),
		cmocka_unit_test(most_of_those_who_beat_are_held),
		cmocka_unit_test(fewer_than_the_share_are_not_held),
		cmocka_unit_test(two_are_never_a_mass),
		cmocka_unit_test(their_return_lets_go_and_whoever_stays_away_is_convicted),
		cmocka_unit_test(the_ceiling_lets_go_and_the_same_silence_is_not_held_again),
		cmocka_unit_test(the_first_whose_lease_ends_is_held_with_the_rest),
		cmocka_unit_test(without_a_brake_all_are_convicted),
		cmocka_unit_test(those_who_were_silent_before_we_came_are_no_mass),
		cmocka_unit_test(those_who_were_fresh_when_we_came_and_then_fell_silent_are_held),
		cmocka_unit_test(outages_of_our_own_do_not_have_a_silence_held_again),
		cmocka_unit_test(silences_that_began_apart_are_no_mass_after_an_outage),
		cmocka_unit_test(a_longer_lease_is_not_silent_sooner),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
