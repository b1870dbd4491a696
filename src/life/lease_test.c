/* SPDX-License-Identifier: Apache-2.0 */
#include "life/lease.h"

#include "base/test.h"

#define START 1000000

static const struct lease_rules rules = {.lease_ms = 15000, .beat_ms = 5000, .retry_ms = 250};

static struct lease granted(void)
{
	struct lease l;
	lease_init(&l, &rules, START);
	return l;
}

static void renew(struct lease *l, int64_t sent_ms, enum lease_answer answer, int64_t answer_ms)
{
	assert_true(lease_renew_due(l, sent_ms));
	lease_renew_answer(l, answer, answer_ms);
}

static void a_renewal_is_due_every_beat(void **state)
{
	(void)state;
	struct lease l = granted();
	assert_false(lease_renew_due(&l, START + 4999));
	renew(&l, START + 5000, RENEWED, START + 5040);
	assert_false(lease_renew_due(&l, START + 9999));
	assert_true(lease_renew_due(&l, START + 10000));
}

static void only_one_renewal_is_under_way(void **state)
{
	(void)state;
	struct lease l = granted();
	assert_true(lease_renew_due(&l, START + 5000));
	assert_false(lease_renew_due(&l, START + 20000));
}

static void time_counts_from_before_the_renewal_was_sent(void **state)
{
	(void)state;
	struct lease l = granted();
	renew(&l, START + 5000, RENEWED, START + 9000);
	assert_int_equal(l.confirmed_ms, START + 5000);
	assert_int_equal(lease_contact(&l, START + 5000 + 14999), CONTACT_LOST);
	assert_int_equal(lease_contact(&l, START + 5000 + 15000), CONTACT_EXPIRED);
}

static void failed_renewals_are_retried_at_growing_intervals(void **state)
{
	(void)state;
	static const int64_t waits[] = {250, 500, 1000, 2000, 4000, 5000, 5000, 5000};
	struct lease l = granted();
	int64_t now = START + 5000;
	for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
		renew(&l, now, RENEW_FAILED, now + 100);
		now += 100 + waits[i];
		assert_false(lease_renew_due(&l, now - 1));
	}
	renew(&l, now, RENEWED, now);
	renew(&l, now + 5000, RENEW_FAILED, now + 5000);
	assert_true(lease_renew_due(&l, now + 5250));
}

static void years_of_failures_overflow_nothing(void **state)
{
	(void)state;
	struct lease l = granted();
	int64_t now = START;
	for (int i = 0; i < 100000; i++) {
		now += 5000;
		renew(&l, now, RENEW_FAILED, now);
	}
	assert_int_equal(lease_wait_ms(&l, now), 5000);
}

static void contact_is_good_for_two_beats_then_lost_then_expired(void **state)
{
	(void)state;
	struct lease l = granted();
	assert_int_equal(lease_contact(&l, START), CONTACT_GOOD);
	assert_int_equal(lease_contact(&l, START + 9999), CONTACT_GOOD);
	assert_int_equal(lease_contact(&l, START + 10000), CONTACT_LOST);
	assert_int_equal(lease_contact(&l, START + 14999), CONTACT_LOST);
	assert_int_equal(lease_contact(&l, START + 15000), CONTACT_EXPIRED);
	assert_int_equal(lease_ends_ms(&l), START + 15000);
}

static void a_failed_renewal_loses_contact_and_a_good_one_restores_it(void **state)
{
	(void)state;
	struct lease l = granted();
	renew(&l, START + 5000, RENEW_FAILED, START + 5001);
	assert_int_equal(lease_contact(&l, START + 5001), CONTACT_LOST);
	renew(&l, START + 5251, RENEWED, START + 5252);
	assert_int_equal(lease_contact(&l, START + 5252), CONTACT_GOOD);
}

static void an_expired_lease_that_nobody_took_is_good_again(void **state)
{
	(void)state;
	struct lease l = granted();
	assert_int_equal(lease_contact(&l, START + 60000), CONTACT_EXPIRED);
	renew(&l, START + 60000, RENEWED, START + 60010);
	assert_int_equal(lease_contact(&l, START + 60010), CONTACT_GOOD);
}

static void taken_sticks(void **state)
{
	(void)state;
	struct lease l = granted();
	renew(&l, START + 5000, RENEW_REFUSED, START + 5001);
	assert_int_equal(lease_contact(&l, START + 5001), CONTACT_TAKEN);
	assert_false(lease_renew_due(&l, START + 100000));
	assert_int_equal(lease_contact(&l, START + 100000), CONTACT_TAKEN);
	assert_int_equal(lease_ends_ms(&l), 0);
	assert_true(lease_wait_ms(&l, START + 100000) > 0);
}

static uint64_t seed = 42;
static int64_t roll(int64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (int64_t)(seed % (uint64_t)below);
}

/* A driver that sleeps exactly as long as lease_wait_ms() says misses no change and never spins. */
static void a_call_that_hangs_leaves_time_for_another_session_and_a_renewal(void **state)
{
	(void)state;
	for (int64_t lease_ms = 1000; lease_ms <= 60000; lease_ms += 1000) {
		struct lease_rules r = lease_rules_of(lease_ms);
		assert_true(r.beat_ms + 3 * lease_call_ms(&r) < lease_ms);
	}
}

static void sleeping_as_told_misses_nothing(void **state)
{
	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct lease l = granted();
		int64_t now = START;
		for (int step = 0; step < 60; step++) {
			int64_t wait = lease_wait_ms(&l, now);
			enum lease_contact before = lease_contact(&l, now);
			assert_true(wait >= 0 && wait <= rules.beat_ms);
			if (wait > 0) {
				assert_int_equal(lease_contact(&l, now + wait - 1), before);
				struct lease copy = l;
				assert_false(lease_renew_due(&copy, now + wait - 1));
			}
			now += wait;
			bool sent = lease_renew_due(&l, now);
			assert_true(sent || wait > 0);
			if (sent && roll(8) > 0) { /* else the reply is still to come */
				now += roll(3000);
				lease_renew_answer(&l, roll(3) ? RENEWED : RENEW_FAILED, now);
			} else if (l.sent_ms && roll(3) == 0) {
				lease_renew_answer(&l, RENEW_FAILED, now);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_renewal_is_due_every_beat),
		cmocka_unit_test(only_one_renewal_is_under_way),
		cmocka_unit_test(time_counts_from_before_the_renewal_was_sent),
		cmocka_unit_test(failed_renewals_are_retried_at_growing_intervals),
		cmocka_unit_test(years_of_failures_overflow_nothing),
		cmocka_unit_test(contact_is_good_for_two_beats_then_lost_then_expired),
		cmocka_unit_test(a_failed_renewal_loses_contact_and_a_good_one_restores_it),
		cmocka_unit_test(an_expired_lease_that_nobody_took_is_good_again),
		cmocka_unit_test(taken_sticks),
		cmocka_unit_test(a_call_that_hangs_leaves_time_for_another_session_and_a_renewal),
		cmocka_unit_test(sleeping_as_told_misses_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
