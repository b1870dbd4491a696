/*
 * silence_test.c: silence of few is death, silence of most is doubt, and doubt ends.
 */
#include "life/silence.h"

#include "base/test.h"

#define LEASE_MS 15000
#define LEASE_US (LEASE_MS * 1000LL)
#define S 1000000LL
#define MANY 20

/* Workers 1…n, of which those from `silent_from` on were last heard at `heard_us`. */
struct world {
	struct registered all[MANY];
	int n;
	int64_t now_us;
	struct silence silence;
};

static void begin(struct world *w, int n)
{
	*w = (struct world){.n = n, .now_us = 1000 * S};
	silence_init(&w->silence, LEASE_MS, 0);
}

/* Time goes on; the first `beating` renew their leases; then a roster is read. */
static void pass(struct world *w, int64_t us, int beating)
{
	w->now_us += us;
	for (int i = 0; i < w->n; i++) {
		struct registered *r = &w->all[i];
		r->id = i + 1;
		r->now_us = w->now_us;
		r->lease_us = LEASE_US;
		if (i < beating)
			r->expires_us = w->now_us + LEASE_US;
		r->expired = r->expires_us < w->now_us;
	}
	silence_step(&w->silence, w->all, w->n, w->now_us);
}

static int convicted(const struct world *w)
{
	int n = 0;
	for (int i = 0; i < w->n; i++)
		n += silence_convicts(&w->silence, &w->all[i]);
	return n;
}

static void two_of_twenty_are_convicted_when_their_lease_is_over(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	pass(&w, LEASE_US, 18);
	assert_int_equal(convicted(&w), 0);
	pass(&w, S, 18);
	assert_int_equal(convicted(&w), 2);
	silence_release(&w.silence);
}

static void most_of_those_who_beat_are_held(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	pass(&w, LEASE_US + S, 9); /* 11 of 20 are 55 % */
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
	pass(&w, LEASE_US + S, 10);
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
	pass(&w, LEASE_US + S, 1);
	assert_int_equal(convicted(&w), 2);
	silence_release(&w.silence);
}

/* A worker that starts beside a server that has just come up sees nothing but old leases. */
static void nobody_is_convicted_while_the_database_has_hardly_been_up(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 3);
	w.all[2].excused = true;
	pass(&w, LEASE_US + S, 2);
	assert_int_equal(convicted(&w), 0);
	assert_true(silence_holds(&w.silence));
	w.all[2].excused = false;
	pass(&w, S, 2);
	assert_int_equal(convicted(&w), 1);
	assert_false(silence_holds(&w.silence));
	silence_release(&w.silence);
}

static void those_who_were_silent_at_our_first_look_are_convicted(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	for (int i = 0; i < 20; i++)
		w.all[i].expires_us = w.now_us - S;
	pass(&w, S, 1);
	assert_int_equal(convicted(&w), 19);
	silence_release(&w.silence);
}

static void their_return_lets_go_and_whoever_stays_away_is_convicted(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	pass(&w, LEASE_US + S, 1);
	assert_true(silence_holds(&w.silence));
	pass(&w, S, 18);
	assert_int_equal(convicted(&w), 0); /* the last may be a moment behind the others */
	pass(&w, LEASE_US, 18);
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
	pass(&w, LEASE_US + S, 1);
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

/* All are cut off at one moment, at which their last beats lie up to a third of a lease back. */
static void the_first_whose_lease_ends_is_held_with_the_rest(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 20);
	pass(&w, S, 20);
	for (int i = 1; i < 20; i++)
		w.all[i].expires_us -= i * LEASE_US / 3 / 20;
	for (int t = 0; t < 60; t++) {
		pass(&w, LEASE_US / 40, 1);
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
	pass(&w, LEASE_US + S, 1);
	assert_int_equal(convicted(&w), 19);
	silence_release(&w.silence);
}

/* One brings a lease of an hour, ours is of seconds: each is judged by its own. */
static void a_longer_lease_is_not_silent_sooner(void **state)
{
	struct world w;
	(void)state;
	begin(&w, 4);
	pass(&w, S, 4);
	w.all[3].expires_us = w.now_us + 3600 * S;
	pass(&w, LEASE_US + S, 3);
	assert_int_equal(convicted(&w), 0);
	assert_false(silence_holds(&w.silence));
	silence_release(&w.silence);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_of_twenty_are_convicted_when_their_lease_is_over),
		cmocka_unit_test(most_of_those_who_beat_are_held),
		cmocka_unit_test(fewer_than_the_share_are_not_held),
		cmocka_unit_test(two_are_never_a_mass),
		cmocka_unit_test(nobody_is_convicted_while_the_database_has_hardly_been_up),
		cmocka_unit_test(those_who_were_silent_at_our_first_look_are_convicted),
		cmocka_unit_test(their_return_lets_go_and_whoever_stays_away_is_convicted),
		cmocka_unit_test(the_ceiling_lets_go_and_the_same_silence_is_not_held_again),
		cmocka_unit_test(the_first_whose_lease_ends_is_held_with_the_rest),
		cmocka_unit_test(without_a_brake_all_are_convicted),
		cmocka_unit_test(a_longer_lease_is_not_silent_sooner),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
