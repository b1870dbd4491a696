/* SPDX-License-Identifier: Apache-2.0
 * engine_spool_test.c: turns that fail, ends that cannot be recorded, lost replies, and servers
 * that lost what they had committed.
 */
#include "worker/engine_test.h"

static const struct failure refused = {.code = DEFIB_CONSTRAINT, .what = "the table refuses it"};
static const struct failure behind = {.code = DEFIB_CONNECTION, .what = "those before it wait"};

/* For the part of pool 0: why each end cannot be recorded; a space: it can. */
static void refuse(struct rig *r, const char *ends, const struct failure *why)
{
	struct turn_part *p = rig_part(r, 0);
	assert_int_equal(strlen(ends), p->nends);
	p->why = ARENA_ARRAY(&r->turn->arena, const struct failure *, p->nends);
	for (int i = 0; i < p->nends; i++) {
		p->why[i] = ends[i] == ' ' ? NULL : why;
		p->ends[i].accepted = ends[i] == ' ';
	}
}

static int64_t spooled(const struct rig *r)
{
	struct engine_counts c;
	engine_counts(r->e, &c);
	return c.spooled;
}

/* ---- turns that fail ---- */

static void an_end_is_tried_again_with_jitter_while_the_database_is_away(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_claim(&r, "a");
	rig_end(&r, "a");
	rig_forget(&r);
	r.chance = 0.5;
	rig_fail(&r, DEFIB_CONNECTION, true);
	assert_said(&r, "failed");
	assert_int_equal(engine_holding(r.e), 1);
	int64_t wait = engine_wait_us(r.e, r.now);
	assert_true(wait > 400 * MILLI && wait < 600 * MILLI);
	rig_after(&r, wait - 1);
	assert_said(&r, "");
	rig_after(&r, 1);
	assert_said(&r, "turn");
	assert_int_equal(rig_part(&r, 0)->nends, 1);
	rig_accept(&r);
	assert_said(&r, "settled a");
	rig_close(&r);
}

static void failures_in_a_row_open_the_breaker_and_an_answer_closes_it(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	r.chance = 0.9;
	rig_forget(&r);
	for (int i = 0; i < 5; i++) {
		rig_fail(&r, DEFIB_CONNECTION, true);
		if (i < 4)
			rig_after(&r, engine_wait_us(r.e, r.now));
	}
	assert_said(&r,
	            "failed, turn, failed, turn, failed, turn, failed, turn, failed, breaker opens");
	rig_tell(&r, EVENT_WOKEN);
	assert_said(&r, "");
	rig_after(&r, engine_wait_us(r.e, r.now));
	assert_said(&r, "turn"); /* it compares; then it claims */
	rig_answer(&r);
	assert_said(&r, "breaker closes, turn");
	rig_close(&r);
}

static void one_source_that_fails_pauses_no_other(void **state)
{
	(void)state;
	struct engine_pool pools[] = {{.concurrency = 1, .poll_ms = 1000},
	                              {.concurrency = 1, .poll_ms = 1000, .same_jobs = 1}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 2});
	struct engine_counts c;
	for (int i = 0; i < 20; i++) {
		rig_part(&r, 0)->err = DEFIB_LOCKED;
		rig_part(&r, 0)->away = true;
		rig_accept(&r);
		rig_after(&r, SECOND);
	}
	engine_counts(r.e, &c);
	assert_false(c.paused);
	rig_close(&r);
}

static void an_end_that_was_tried_long_enough_is_spooled(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_claim(&r, "a");
	rig_end(&r, "a");
	rig_forget(&r);
	int64_t ended = r.now;
	while (!r.spool) {
		if (r.turn)
			rig_fail(&r, DEFIB_CONNECTION, true);
		else
			rig_after(&r, engine_wait_us(r.e, r.now));
		assert_true(r.now - ended < 10 * SECOND);
	}
	assert_true(r.now - ended >= 3 * SECOND);
	assert_int_equal(engine_holding(r.e), 1);
	rig_forget(&r);
	rig_spooled(&r, true);
	assert_non_null(strstr(buf_text(&r.progress), "forgotten a"));
	assert_int_equal(spooled(&r), 1);
	assert_int_equal(engine_holding(r.e), 0);
	rig_close(&r);
}

static void an_end_that_can_be_kept_nowhere_is_given_up_aloud(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_claim(&r, "a");
	rig_end(&r, "a");
	rig_forget(&r);
	rig_fail(&r, DEFIB_CONSTRAINT, false);
	assert_said(&r, "failed, spool a");
	rig_spooled(&r, false);
	assert_non_null(strstr(buf_text(&r.progress), "given up a"));
	assert_int_equal(engine_holding(r.e), 0);
	rig_close(&r);
}

static void an_end_that_its_table_refuses_is_spooled_at_once_and_costs_nobody_else(void **state)
{
	(void)state;
	struct rig r = rig_open(3);
	rig_claim(&r, "abc");
	rig_end(&r, "abc");
	rig_forget(&r);
	rig_part(&r, 0)->room = 0;
	refuse(&r, " x ", &refused);
	rig_answer(&r);
	assert_said(&r, "settled a, settled c, spool b, turn");
	assert_int_equal(r.spool->why->code, DEFIB_CONSTRAINT);
	rig_close(&r);
}

static void ends_behind_a_spool_are_spooled_in_the_order_that_they_ended(void **state)
{
	(void)state;
	struct rig r = rig_open(3);
	rig_claim(&r, "abc");
	rig_end(&r, "bca");
	rig_forget(&r);
	refuse(&r, "xxx", &behind);
	rig_answer(&r);
	assert_said(&r, "spool b c a");
	rig_close(&r);
}

static void ends_that_failed_for_different_reasons_are_told_apart(void **state)
{
	(void)state;
	struct rig r = rig_open(3);
	rig_claim(&r, "abc");
	rig_end(&r, "abc");
	rig_forget(&r);
	refuse(&r, "xxx", &behind);
	rig_part(&r, 0)->why[1] = &refused;
	rig_answer(&r);
	assert_said(&r, "spool a, spool b, spool c");
	rig_close(&r);
}

static void ends_are_tried_again_in_the_order_that_they_ended(void **state)
{
	(void)state;
	struct rig r = rig_open(3);
	rig_claim(&r, "abc");
	rig_end(&r, "cab");
	rig_fail(&r, DEFIB_CONNECTION, true);
	rig_after(&r, engine_wait_us(r.e, r.now));
	assert_string_equal(rig_part(&r, 0)->ends[0].key, "c");
	assert_string_equal(rig_part(&r, 0)->ends[1].key, "a");
	assert_string_equal(rig_part(&r, 0)->ends[2].key, "b");
	rig_close(&r);
}

static void nothing_is_spooled_before_the_ends_that_are_under_way(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "ab");
	rig_after(&r, 10 * MILLI);
	rig_end(&r, "a");
	rig_fail(&r, DEFIB_TIMEOUT, true);
	rig_after(&r, engine_wait_us(r.e, r.now));
	assert_non_null(r.turn);
	rig_end(&r, "b");
	rig_forget(&r);
	rig_after(&r, 10 * SECOND);
	assert_said(&r, "");
	rig_fail(&r, DEFIB_TIMEOUT, true);
	assert_said(&r, "failed, spool a b");
	rig_close(&r);
}

static void ends_of_an_older_incarnation_follow_the_spool_too(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "a");
	rig_step(&r, (struct engine_event){.kind = EVENT_WAITING, .count = 1});
	rig_part(&r, 0)->spooled = 1;
	rig_answer(&r);
	rig_life(&r, SELF + 1, CONTACT_LOST);
	rig_end(&r, "a");
	assert_int_equal(rig_part(&r, 0)->worker, SELF);
	assert_true(rig_part(&r, 0)->drain);
	rig_close(&r);
}

static void slots_are_never_exceeded_when_ends_are_refused(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "ab");
	rig_end(&r, "ab");
	rig_forget(&r);
	assert_int_equal(rig_part(&r, 0)->room, 2);
	rig_give(&r, 0, "cd");
	refuse(&r, " x", &refused);
	rig_answer(&r);
	assert_said(&r, "settled a, start c, spool b"); /* d waits for the slot of b */
	rig_spooled(&r, true);
	assert_said(&r, "forgotten b, start d");
	rig_close(&r);
}

/* ---- what waits in the spool ---- */

static void a_spool_that_is_not_empty_is_drained_now_and_then(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_claim(&r, "");
	rig_forget(&r);
	rig_step(&r, (struct engine_event){.kind = EVENT_WAITING, .count = 3});
	assert_said(&r, "turn");
	assert_true(rig_part(&r, 0)->drain);
	assert_int_equal(rig_part(&r, 0)->room, 0);
	rig_part(&r, 0)->spooled = 2;
	rig_answer(&r);
	assert_int_equal(engine_wait_us(r.e, r.now), 500 * MILLI);
	rig_after(&r, 500 * MILLI);
	assert_true(rig_part(&r, 0)->drain);
	rig_part(&r, 0)->spooled = 0;
	rig_answer(&r);
	rig_after(&r, 500 * MILLI); /* the poll */
	assert_false(rig_part(&r, 0)->drain);
	rig_close(&r);
}

static void ends_follow_what_waits_in_the_spool_of_their_pool_only(void **state)
{
	(void)state;
	struct engine_pool pools[] = {{.concurrency = 1, .poll_ms = 60000},
	                              {.concurrency = 1, .poll_ms = 60000, .same_jobs = 0},
	                              {.concurrency = 1, .poll_ms = 60000, .same_jobs = 2}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 3});
	rig_give(&r, 1, "b");
	rig_give(&r, 2, "c");
	rig_claim(&r, "a");
	rig_step(&r, (struct engine_event){.kind = EVENT_WAITING, .pool = 1, .count = 1});
	rig_part(&r, 0)->spooled = 1;
	rig_answer(&r);
	rig_end(&r, "abc");
	rig_after(&r, 10 * MILLI);
	assert_true(rig_part(&r, 0)->drain);
	assert_true(rig_part(&r, 1)->drain);
	assert_false(rig_part(&r, 2)->drain);
	rig_close(&r);
}

static void what_was_spooled_during_a_drain_is_not_forgotten(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "ab");
	rig_after(&r, 10 * MILLI);
	rig_end(&r, "a");
	refuse(&r, "x", &behind);
	rig_answer(&r);
	rig_end(&r, "b"); /* a turn, while a is being spooled */
	assert_true(rig_part(&r, 0)->drain);
	rig_part(&r, 0)->spooled = 0; /* as it was before a was added to it */
	rig_spooled(&r, true);
	rig_accept(&r);
	rig_after(&r, SECOND);
	rig_close(&r);
}

/* ---- lost replies ---- */

static void a_lost_answer_of_a_claim_makes_it_compare(void **state)
{
	static const defib_err errors[] = {DEFIB_CONNECTION, DEFIB_UNKNOWN_OUTCOME, DEFIB_TIMEOUT};
	(void)state;
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		struct rig r = rig_open(1);
		rig_fail(&r, errors[i], true);
		rig_after(&r, engine_wait_us(r.e, r.now));
		assert_true(rig_part(&r, 0)->compares);
		assert_int_equal(rig_part(&r, 0)->room, 0);
		rig_part(&r, 0)->has = rig_keys(&r, "s", &rig_part(&r, 0)->nhas);
		rig_forget(&r);
		rig_answer(&r);
		assert_said(&r, "stray s, turn");
		assert_int_equal(rig_part(&r, 0)->ends[0].as, SETTLE_RELEASED);
		assert_int_equal(rig_part(&r, 0)->worker, SELF);
		rig_accept(&r);
		assert_non_null(strstr(buf_text(&r.progress), "settled s"));
		rig_close(&r);
	}
}

static void a_job_that_was_just_claimed_is_no_stray(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_tell(&r, EVENT_COMPARE); /* while the claim is under way */
	assert_false(rig_part(&r, 0)->compares);
	rig_claim(&r, "ab");
	assert_true(rig_part(&r, 0)->compares);
	rig_part(&r, 0)->has = rig_keys(&r, "ab", &rig_part(&r, 0)->nhas);
	rig_forget(&r);
	rig_answer(&r);
	assert_null(strstr(buf_text(&r.progress), "stray"));
	rig_close(&r);
}

static void nothing_is_claimed_anywhere_while_it_compares(void **state)
{
	(void)state;
	struct engine_pool pools[] = {{.concurrency = 1, .poll_ms = 1000},
	                              {.concurrency = 2, .poll_ms = 1000, .same_jobs = 0}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 2});
	rig_claim(&r, "");
	rig_tell(&r, EVENT_COMPARE);
	rig_tell(&r, EVENT_WOKEN);
	for (int i = 0; i < r.turn->nparts; i++) {
		assert_true(r.turn->parts[i].compares);
		assert_int_equal(r.turn->parts[i].room, 0);
	}
	rig_answer(&r);
	assert_int_equal(rig_part(&r, 0)->room, 1); /* and then it is */
	rig_close(&r);
}

static void a_stray_that_two_pools_name_is_handed_back_once(void **state)
{
	(void)state;
	struct engine_pool pools[] = {{.concurrency = 1, .poll_ms = 60000},
	                              {.concurrency = 1, .poll_ms = 60000, .same_jobs = 0}};
	struct rig r = rig_with((struct engine_options){.pools = pools, .npools = 2});
	rig_claim(&r, "");
	rig_tell(&r, EVENT_COMPARE);
	for (int i = 0; i < 2; i++)
		rig_part(&r, i)->has = rig_keys(&r, "s", &rig_part(&r, i)->nhas);
	rig_forget(&r);
	rig_answer(&r);
	assert_said(&r, "stray s, turn");
	rig_close(&r);
}

static void a_stray_is_never_spooled_but_found_again(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_claim(&r, "");
	rig_tell(&r, EVENT_COMPARE);
	rig_part(&r, 0)->has = rig_keys(&r, "s", &rig_part(&r, 0)->nhas);
	rig_answer(&r);
	rig_forget(&r);
	rig_fail(&r, DEFIB_CONNECTION, true);
	assert_said(&r, "failed, forgotten s");
	rig_after(&r, engine_wait_us(r.e, r.now));
	assert_true(rig_part(&r, 0)->compares);
	rig_close(&r);
}

static void a_stray_that_its_table_refuses_is_dropped(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_claim(&r, "");
	rig_tell(&r, EVENT_COMPARE);
	rig_part(&r, 0)->has = rig_keys(&r, "s", &rig_part(&r, 0)->nhas);
	rig_answer(&r);
	rig_forget(&r);
	refuse(&r, "x", &refused);
	rig_answer(&r);
	assert_said(&r, "forgotten s");
	rig_close(&r);
}

static void a_job_that_is_over_while_it_compares_is_no_stray(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "ab");
	rig_after(&r, 10 * MILLI);
	rig_end(&r, "a");
	refuse(&r, "x", &refused);
	rig_answer(&r);
	rig_tell(&r, EVENT_COMPARE);
	assert_true(rig_part(&r, 0)->compares);
	rig_part(&r, 0)->has = rig_keys(&r, "ab", &rig_part(&r, 0)->nhas);
	rig_forget(&r);
	rig_spooled(&r, true);
	r.runs[0]->settled = true;
	rig_end(&r, "b");
	assert_said(&r, "");
	rig_answer(&r);
	assert_said(&r, "forgotten a, forgotten b");
	rig_close(&r);
}

/* ---- failover ---- */

static void claims_that_a_fail_over_lost_are_stopped(void **state)
{
	(void)state;
	struct rig r = rig_open(4);
	rig_claim(&r, "abcd");
	rig_after(&r, 10 * MILLI);
	rig_tell(&r, EVENT_TIMELINE);
	rig_end(&r, "d"); /* over: its end is presented, not stopped */
	rig_part(&r, 0)->has = rig_keys(&r, "a", &rig_part(&r, 0)->nhas);
	rig_forget(&r);
	rig_answer(&r);
	assert_non_null(strstr(buf_text(&r.progress), "stop b"));
	assert_non_null(strstr(buf_text(&r.progress), "stop c"));
	assert_null(strstr(buf_text(&r.progress), "stop a"));
	assert_null(strstr(buf_text(&r.progress), "stop d"));
	rig_close(&r);
}

/* Claimed again it has the same epoch: the end of the first run would be taken for the second's. */
static void the_end_of_a_claim_that_a_fail_over_lost_is_not_presented(void **state)
{
	(void)state;
	struct rig r = rig_open(2);
	rig_claim(&r, "ab");
	rig_tell(&r, EVENT_TIMELINE);
	rig_part(&r, 0)->has = rig_keys(&r, "a", &rig_part(&r, 0)->nhas);
	rig_answer(&r);
	rig_end(&r, "b");
	assert_int_equal(engine_holding(r.e), 1);
	assert_true(!r.turn || rig_part(&r, 0)->nends == 0);
	rig_close(&r);
}

/* The same jobs would come with the same epochs. */
static void nothing_is_claimed_before_the_comparison_after_a_fail_over(void **state)
{
	(void)state;
	struct rig r = rig_open(4);
	rig_claim(&r, "a");
	rig_after(&r, engine_wait_us(r.e, r.now));
	rig_fail(&r, DEFIB_CONNECTION, true);
	rig_tell(&r, EVENT_TIMELINE);
	while (!r.turn)
		rig_after(&r, engine_wait_us(r.e, r.now));
	assert_true(rig_part(&r, 0)->compares);
	assert_true(rig_part(&r, 0)->timeline);
	assert_int_equal(rig_part(&r, 0)->room, 0);
	rig_close(&r);
}

/*
 * What was stored before it may be the end of a lost claim, and would be taken for the next one's.
 */
static void nothing_is_claimed_after_a_fail_over_before_the_spool_is_empty(void **state)
{
	(void)state;
	struct rig r = rig_open(4);
	rig_claim(&r, "a");
	rig_step(&r, (struct engine_event){.kind = EVENT_WAITING, .count = 1});
	rig_tell(&r, EVENT_TIMELINE);
	for (int compared = 0; compared < 3;) {
		if (!r.turn) {
			rig_after(&r, engine_wait_us(r.e, r.now));
			continue;
		}
		struct turn_part *p = rig_part(&r, 0);
		assert_int_equal(p->room, 0);
		if (p->compares) {
			assert_true(p->drain);
			p->has = rig_keys(&r, "a", &p->nhas);
			compared++;
		}
		p->spooled = compared < 3; /* the third time it could be recorded */
		rig_answer(&r);
	}
	while (!r.turn || !rig_part(&r, 0)->room)
		r.turn ? rig_accept(&r) : rig_after(&r, engine_wait_us(r.e, r.now));
	assert_true(rig_part(&r, 0)->room > 0);
	rig_close(&r);
}

/* The server has the claim, and will refuse each try to release it: nothing is gained by waiting.
 */
static void a_stray_that_its_table_refuses_after_a_fail_over_stops_no_claims(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_claim(&r, "");
	rig_tell(&r, EVENT_TIMELINE);
	for (int i = 0; i < 20 && !(r.turn && rig_part(&r, 0)->room > 0); i++) {
		if (!r.turn) {
			rig_after(&r, engine_wait_us(r.e, r.now));
			continue;
		}
		struct turn_part *p = rig_part(&r, 0);
		if (p->compares)
			p->has = rig_keys(&r, "x", &p->nhas);
		if (p->nends > 0)
			refuse(&r, "x", &refused);
		rig_answer(&r);
	}
	assert_true(r.turn && rig_part(&r, 0)->room > 0);
	rig_close(&r);
}

static void a_comparison_after_a_fail_over_that_failed_is_made_again(void **state)
{
	(void)state;
	struct rig r = rig_open(1);
	rig_claim(&r, "a");
	rig_tell(&r, EVENT_TIMELINE);
	assert_true(rig_part(&r, 0)->compares);
	rig_fail(&r, DEFIB_TIMEOUT, true);
	while (!r.turn || !rig_part(&r, 0)->compares)
		if (r.turn)
			rig_accept(&r);
		else
			rig_after(&r, engine_wait_us(r.e, r.now));
	rig_forget(&r);
	rig_answer(&r);
	assert_non_null(strstr(buf_text(&r.progress), "stop a"));
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_end_is_tried_again_with_jitter_while_the_database_is_away),
		cmocka_unit_test(nothing_is_claimed_before_the_comparison_after_a_fail_over),
		cmocka_unit_test(nothing_is_claimed_after_a_fail_over_before_the_spool_is_empty),
		cmocka_unit_test(the_end_of_a_claim_that_a_fail_over_lost_is_not_presented),
		cmocka_unit_test(failures_in_a_row_open_the_breaker_and_an_answer_closes_it),
		cmocka_unit_test(one_source_that_fails_pauses_no_other),
		cmocka_unit_test(an_end_that_was_tried_long_enough_is_spooled),
		cmocka_unit_test(an_end_that_can_be_kept_nowhere_is_given_up_aloud),
		cmocka_unit_test(an_end_that_its_table_refuses_is_spooled_at_once_and_costs_nobody_else),
		cmocka_unit_test(ends_behind_a_spool_are_spooled_in_the_order_that_they_ended),
		cmocka_unit_test(ends_that_failed_for_different_reasons_are_told_apart),
		cmocka_unit_test(ends_are_tried_again_in_the_order_that_they_ended),
		cmocka_unit_test(nothing_is_spooled_before_the_ends_that_are_under_way),
		cmocka_unit_test(ends_of_an_older_incarnation_follow_the_spool_too),
		cmocka_unit_test(slots_are_never_exceeded_when_ends_are_refused),
		cmocka_unit_test(a_spool_that_is_not_empty_is_drained_now_and_then),
		cmocka_unit_test(ends_follow_what_waits_in_the_spool_of_their_pool_only),
		cmocka_unit_test(what_was_spooled_during_a_drain_is_not_forgotten),
		cmocka_unit_test(a_lost_answer_of_a_claim_makes_it_compare),
		cmocka_unit_test(a_job_that_was_just_claimed_is_no_stray),
		cmocka_unit_test(nothing_is_claimed_anywhere_while_it_compares),
		cmocka_unit_test(a_stray_that_two_pools_name_is_handed_back_once),
		cmocka_unit_test(a_stray_is_never_spooled_but_found_again),
		cmocka_unit_test(a_stray_that_its_table_refuses_is_dropped),
		cmocka_unit_test(a_job_that_is_over_while_it_compares_is_no_stray),
		cmocka_unit_test(claims_that_a_fail_over_lost_are_stopped),
		cmocka_unit_test(a_stray_that_its_table_refuses_after_a_fail_over_stops_no_claims),
		cmocka_unit_test(a_comparison_after_a_fail_over_that_failed_is_made_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
