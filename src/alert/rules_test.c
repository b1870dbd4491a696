/* SPDX-License-Identifier: Apache-2.0
 * rules_test.c: the life of every default rule, below, at and above its limit; and what flapping,
 * waiting, a restart and a disabled rule mean for an alert.
 */
#include "alert/rules_world_test.h"

#include "base/test.h"
#include "base/text.h"

static void every_rule_is_quiet_below_its_limit(void **state)
{
	(void)state;
	for (int i = 0; i < ALERT_COUNT; i++) {
		struct world *w = a_world();
		lives[i].make(w, lives[i].below);
		assert_int_equal(ask(w, lives[i].id), CHANGE_NONE);
	}
}

static void every_rule_is_quiet_at_its_limit(void **state)
{
	(void)state;
	for (int i = 0; i < ALERT_COUNT; i++) {
		struct world *w = a_world();
		lives[i].make(w, lives[i].at);
		if (ask(w, lives[i].id) != CHANGE_NONE)
			fail_msg("%s fired", alert_names[lives[i].id]);
	}
}

static void every_rule_fires_once_past_its_limit_and_says_why(void **state)
{
	struct buf text = BUF_INIT;
	(void)state;
	for (int i = 0; i < ALERT_COUNT; i++) {
		struct world *w = a_world();
		enum alert_id id = lives[i].id;
		lives[i].make(w, lives[i].above);
		if (ask(w, id) != CHANGE_FIRED)
			fail_msg("%s did not fire", alert_names[id]);
		w->now_us += S;
		assert_int_equal(ask(w, id), CHANGE_NONE);
		buf_clear(&text);
		alert_sentence(&w->rules[id], w->alerts[id].value, &text);
		assert_string_equal(buf_text(&text), lives[i].says);
	}
	buf_release(&text);
}

static const char *said(enum alert_id id, double value)
{
	static struct buf text = BUF_INIT;
	struct world *w = a_world();
	buf_clear(&text);
	alert_sentence(&w->rules[id], value, &text);
	return buf_text(&text);
}

static void a_number_past_its_limit_never_reads_like_the_limit(void **state)
{
	(void)state;
	assert_string_equal(said(ALERT_RECOVERED_FAST, 0.1 + 1e-5),
	                    "0.10001 jobs per second were recovered over 5m (alert above 0.1)");
	assert_string_equal(said(ALERT_RECOVERED_FAST, 0.1 + 1e-15),
	                    "just over 0.1 jobs per second were recovered over 5m (alert above 0.1)");
	assert_non_null(strstr(said(ALERT_CONNECTION_FAILURES, 0.010001), "1.0001 % of the attempts"));
	assert_non_null(strstr(said(ALERT_RECOVERY_RATE, 0.89999), "only 89.999 % of the jobs"));
	assert_non_null(strstr(said(ALERT_DATABASE_AWAY, 60.4), "just over 1m (alert above 1m)"));
}

static void a_large_rate_is_written_out(void **state)
{
	(void)state;
	assert_string_equal(said(ALERT_RECOVERED_FAST, 150.46),
	                    "150 jobs per second were recovered over 5m (alert above 0.1)");
	assert_string_equal(said(ALERT_RECOVERED_FAST, 66686.7),
	                    "66687 jobs per second were recovered over 5m (alert above 0.1)");
	assert_string_equal(said(ALERT_RECOVERED_MANY, 200060),
	                    "200060 jobs were recovered within 1h (alert above 10)");
}

/* A pass that takes minutes fires in its middle; at its end the final number is shown. */
static void what_fires_shows_the_number_of_now_and_nobody_is_told_again(void **state)
{
	struct world *w = a_world();
	(void)state;
	recovered(w, 45140);
	assert_int_equal(ask(w, ALERT_RECOVERED_MANY), CHANGE_FIRED);
	recovered(w, 200060 - 45140);
	assert_int_equal(ask(w, ALERT_RECOVERED_MANY), CHANGE_STATE);
	assert_true(w->alerts[ALERT_RECOVERED_MANY].value == 200060);
	assert_int_equal(ask(w, ALERT_RECOVERED_MANY), CHANGE_NONE);
}

static void every_rule_is_resolved_once_when_it_is_over(void **state)
{
	(void)state;
	for (int i = 0; i < ALERT_COUNT; i++) {
		struct world *w = a_world();
		enum alert_id id = lives[i].id;
		lives[i].make(w, lives[i].above);
		assert_int_equal(ask(w, id), CHANGE_FIRED);
		a_day_later_all_is_well(w);
		if (ask(w, id) != CHANGE_RESOLVED)
			fail_msg("%s was not resolved", alert_names[id]);
		assert_int_equal(ask(w, id), CHANGE_NONE);
	}
}

static void every_rule_that_fires_again_later_is_another_episode(void **state)
{
	(void)state;
	for (int i = 0; i < ALERT_COUNT; i++) {
		struct world *w = a_world();
		enum alert_id id = lives[i].id;
		lives[i].make(w, lives[i].above);
		assert_int_equal(ask(w, id), CHANGE_FIRED);
		int64_t first = w->alerts[id].fired_us;
		a_day_later_all_is_well(w);
		assert_int_equal(ask(w, id), CHANGE_RESOLVED);
		w->now_us += 25 * HOUR;
		lives[i].make(w, lives[i].above);
		assert_int_equal(ask(w, id), CHANGE_FIRED);
		assert_int_not_equal(w->alerts[id].fired_us, first);
	}
}

/* ---- windows ---- */

static void few_are_no_doubling(void **state)
{
	struct world *w = a_world();
	(void)state;
	stuck(w, 4);
	w->now_us += 60 * S;
	stuck(w, 19);
	assert_int_equal(ask(w, ALERT_STUCK_DOUBLED), CHANGE_NONE);
	stuck(w, 20);
	assert_int_equal(ask(w, ALERT_STUCK_DOUBLED), CHANGE_FIRED);
}

static void a_doubling_that_took_longer_than_its_window_is_none(void **state)
{
	struct world *w = a_world();
	(void)state;
	for (int i = 0; i <= 40; i++) {
		stuck(w, 20 + i);
		assert_int_equal(ask(w, ALERT_STUCK_DOUBLED), CHANGE_NONE);
		w->now_us += 6 * 60 * S;
	}
}

static void too_few_tries_say_nothing_of_connections(void **state)
{
	struct world *w = a_world();
	(void)state;
	alert_count(&w->subject, COUNT_TRIES, T0, 10);
	alert_count(&w->subject, COUNT_FAILURES, T0, 5);
	assert_int_equal(ask(w, ALERT_CONNECTION_FAILURES), CHANGE_NONE);
}

static void too_few_decisions_say_nothing_of_the_recovery_rate(void **state)
{
	struct world *w = a_world();
	(void)state;
	alert_count(&w->subject, COUNT_DETECTED, T0, 4);
	assert_int_equal(ask(w, ALERT_RECOVERY_RATE), CHANGE_NONE);
	alert_count(&w->subject, COUNT_DETECTED, T0, 1);
	assert_int_equal(ask(w, ALERT_RECOVERY_RATE), CHANGE_FIRED);
}

static void before_the_first_scan_nothing_is_known_of_stuck_jobs(void **state)
{
	struct world *w = a_world();
	(void)state;
	w->alerts[ALERT_STUCK_WARNING] = (struct alert){.state = STATE_FIRING, .since_us = T0 - HOUR};
	w->subject.now.scanned = false;
	assert_int_equal(ask(w, ALERT_STUCK_WARNING), CHANGE_NONE);
	w->subject.now.scanned = true;
	assert_int_equal(ask(w, ALERT_STUCK_WARNING), CHANGE_RESOLVED);
}

/* ---- waiting, flapping, again ---- */

static void with_for_it_is_pending_until_it_has_been_so_for_as_long(void **state)
{
	struct world *w = a_world();
	enum alert_id id = ALERT_STUCK_WARNING;
	(void)state;
	w->rules[id].for_us = 60 * S;
	stuck(w, 11);
	assert_int_equal(ask(w, id), CHANGE_STATE);
	assert_int_equal(w->alerts[id].state, STATE_PENDING);
	w->now_us += 59 * S;
	assert_int_equal(ask(w, id), CHANGE_NONE);
	w->now_us += S;
	assert_int_equal(ask(w, id), CHANGE_FIRED);
}

static void what_flaps_within_for_is_told_of_never_and_then_once(void **state)
{
	struct world *w = a_world();
	enum alert_id id = ALERT_STUCK_WARNING;
	int fired = 0, resolved = 0;
	(void)state;
	w->rules[id].for_us = 60 * S;
	for (int i = 0; i < 100; i++, w->now_us += 20 * S) {
		stuck(w, i % 2 ? 11 : 0);
		fired += ask(w, id) == CHANGE_FIRED;
	}
	assert_int_equal(fired, 0);
	for (int i = 0; i < 5; i++, w->now_us += 20 * S) {
		stuck(w, 11);
		fired += ask(w, id) == CHANGE_FIRED;
	}
	assert_int_equal(fired, 1);
	for (int i = 0; i < 100; i++, w->now_us += 20 * S) {
		stuck(w, i % 2 ? 11 : 0);
		enum alert_change c = ask(w, id);
		fired += c == CHANGE_FIRED;
		resolved += c == CHANGE_RESOLVED;
	}
	assert_int_equal(fired, 1);
	assert_int_equal(resolved, 0);
}

static void what_fires_for_long_is_told_again(void **state)
{
	struct world *w = a_world();
	enum alert_id id = ALERT_STUCK_WARNING;
	int again = 0;
	(void)state;
	stuck(w, 11);
	assert_int_equal(ask(w, id), CHANGE_FIRED);
	for (int i = 0; i < 25; i++) {
		w->now_us += HOUR;
		again += ask(w, id) == CHANGE_AGAIN;
	}
	assert_int_equal(again, 2);
	assert_int_equal(w->alerts[id].repeats, 2);
	w->rules[id].repeat_us = 0;
	w->now_us += 1000 * HOUR;
	assert_int_equal(ask(w, id), CHANGE_NONE);
}

static void a_rule_that_is_switched_off_is_over_at_once(void **state)
{
	struct world *w = a_world();
	enum alert_id id = ALERT_STUCK_WARNING;
	(void)state;
	w->rules[id].for_us = 60 * S;
	w->alerts[id] = (struct alert){.state = STATE_FIRING, .since_us = T0, .fired_us = T0};
	stuck(w, 11);
	w->rules[id].enabled = false;
	assert_int_equal(ask(w, id), CHANGE_RESOLVED);
	assert_int_equal(ask(w, id), CHANGE_NONE);
}

/* ---- a daemon that takes over ---- */

static void after_a_restart_nothing_fires_twice_and_nothing_is_forgotten(void **state)
{
	(void)state;
	for (int i = 0; i < ALERT_COUNT; i++) {
		struct world *w = a_world();
		struct alert stored[ALERT_COUNT];
		enum alert_id id = lives[i].id;
		lives[i].make(w, lives[i].above);
		assert_int_equal(ask(w, id), CHANGE_FIRED);
		memcpy(stored, w->alerts, sizeof stored);
		int64_t later = w->now_us + 30 * S;
		w = a_world();
		memcpy(w->alerts, stored, sizeof stored);
		w->now_us = later;
		lives[i].make(w, lives[i].above);
		if (ask(w, id) != CHANGE_NONE)
			fail_msg("%s was told again", alert_names[id]);
		assert_int_equal(w->alerts[id].state, STATE_FIRING);
	}
}

static void a_doubling_is_not_over_because_its_hour_is_not_remembered(void **state)
{
	struct world *w = a_world();
	enum alert_id id = ALERT_STUCK_DOUBLED;
	(void)state;
	w->alerts[id] = (struct alert){.state = STATE_FIRING, .since_us = T0, .fired_us = T0};
	stuck(w, 30);
	assert_int_equal(ask(w, id), CHANGE_NONE);
	w->now_us += 10 * 60 * S;
	stuck(w, 30);
	assert_int_equal(ask(w, id), CHANGE_NONE);
	stuck(w, 5);
	assert_int_equal(ask(w, id), CHANGE_RESOLVED);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rule_is_quiet_below_its_limit),
		cmocka_unit_test(every_rule_is_quiet_at_its_limit),
		cmocka_unit_test(every_rule_fires_once_past_its_limit_and_says_why),
		cmocka_unit_test(every_rule_is_resolved_once_when_it_is_over),
		cmocka_unit_test(a_number_past_its_limit_never_reads_like_the_limit),
		cmocka_unit_test(a_large_rate_is_written_out),
		cmocka_unit_test(what_fires_shows_the_number_of_now_and_nobody_is_told_again),
		cmocka_unit_test(every_rule_that_fires_again_later_is_another_episode),
		cmocka_unit_test(few_are_no_doubling),
		cmocka_unit_test(a_doubling_that_took_longer_than_its_window_is_none),
		cmocka_unit_test(too_few_tries_say_nothing_of_connections),
		cmocka_unit_test(too_few_decisions_say_nothing_of_the_recovery_rate),
		cmocka_unit_test(before_the_first_scan_nothing_is_known_of_stuck_jobs),
		cmocka_unit_test(with_for_it_is_pending_until_it_has_been_so_for_as_long),
		cmocka_unit_test(what_flaps_within_for_is_told_of_never_and_then_once),
		cmocka_unit_test(what_fires_for_long_is_told_again),
		cmocka_unit_test(a_rule_that_is_switched_off_is_over_at_once),
		cmocka_unit_test(after_a_restart_nothing_fires_twice_and_nothing_is_forgotten),
		cmocka_unit_test(a_doubling_is_not_over_because_its_hour_is_not_remembered),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
