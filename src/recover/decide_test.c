/* SPDX-License-Identifier: Apache-2.0
 * decide_test.c: every combination of what a decision depends on, with its
 * remedy; the crash budget, what could loop, and the backoff.
 */
#include "recover/decide.h"

#include "base/clock.h"
#include "base/test.h"
#include "base/text.h"

#include <string.h>

#define MINUTE (60 * US_PER_S)

/* A watch that can requeue, fail and retry by SET lists. */
static struct watch plain_watch(void)
{
	struct watch w = {.name = "w", .crash_budget = {.max = 3, .within_us = 72 * 60 * MINUTE}};
	w.actions[REMEDY_REQUEUE].form = ACTION_SET;
	w.actions[REMEDY_RETRY].form = ACTION_SET;
	w.actions[REMEDY_FAIL].form = ACTION_SET;
	return w;
}

static void count_attempts(struct watch *w)
{
	w->attempts.text = "attempts";
	w->max_attempts.text = "3";
}

static struct facts stuck(void)
{
	return (struct facts){.running = true, .owner_alive = KNOWN_NOT};
}

static struct facts attempts(int64_t n)
{
	struct facts f = stuck();
	f.has_attempts = f.has_max_attempts = true;
	f.attempts = n;
	f.max_attempts = 3;
	return f;
}

static const struct judgement silent = {.verdict = VERDICT_SILENT};
static const struct decide_options with_ledger = {.ledger = true};
static const struct decide_options no_ledger = {.ledger = false};

static void assert_decided(const struct watch *w, const struct facts *f,
                           const struct decide_options *o, enum remedy remedy, const char *rule)
{
	struct decision d = decide(w, f, &silent, o);
	assert_string_equal(d.rule, rule);
	assert_string_equal(remedy_names[d.remedy], remedy_names[remedy]);
}

static void by_default_a_job_is_requeued_while_attempts_are_left(void **state)
{
	struct watch w = plain_watch();
	struct facts f = attempts(2);
	(void)state;
	count_attempts(&w);
	assert_decided(&w, &f, &with_ledger, REMEDY_REQUEUE, "attempts-left");
	assert_true(decide(&w, &f, &silent, &with_ledger).act);
}

static void by_default_a_job_without_attempts_left_is_held(void **state)
{
	struct watch w = plain_watch();
	struct facts f = attempts(3);
	(void)state;
	count_attempts(&w);
	assert_decided(&w, &f, &with_ledger, REMEDY_HOLD, "attempts-exhausted");
	assert_string_equal(decide(&w, &f, &silent, &with_ledger).cause, "attempts");
	f.attempts = 4;
	assert_decided(&w, &f, &with_ledger, REMEDY_HOLD, "attempts-exhausted");
}

static void unknown_attempts_count_as_left(void **state)
{
	struct watch w = plain_watch();
	struct facts f = attempts(3);
	(void)state;
	count_attempts(&w);
	f.has_max_attempts = false;
	assert_decided(&w, &f, &with_ledger, REMEDY_REQUEUE, "attempts-left");
}

static void a_watch_that_can_do_nothing_reports(void **state)
{
	struct watch w = {.name = "w"};
	struct facts f = stuck();
	(void)state;
	assert_decided(&w, &f, &with_ledger, REMEDY_REPORT, "no-rule");
	assert_false(decide(&w, &f, &silent, &with_ledger).act);
}

static void the_crash_budget_holds_the_third_crash(void **state)
{
	struct watch w = plain_watch();
	struct facts f = stuck();
	(void)state;
	f.crashes = 1;
	assert_decided(&w, &f, &with_ledger, REMEDY_REQUEUE, "attempts-left");
	f.crashes = 2;
	assert_decided(&w, &f, &with_ledger, REMEDY_HOLD, "crash-budget");
	assert_string_equal(decide(&w, &f, &silent, &with_ledger).cause, "poison");
}

static void the_crash_budget_needs_the_ledger(void **state)
{
	struct watch w = plain_watch();
	struct facts f = stuck();
	(void)state;
	f.crashes = 9;
	assert_decided(&w, &f, &no_ledger, REMEDY_REQUEUE, "attempts-left");
}

static void where_attempts_bound_a_job_the_budget_counts_only_if_asked_for(void **state)
{
	struct watch w = plain_watch();
	struct facts f = attempts(1);
	(void)state;
	count_attempts(&w);
	f.crashes = 9;
	assert_decided(&w, &f, &with_ledger, REMEDY_REQUEUE, "attempts-left");
	w.crash_budget.given = true;
	assert_decided(&w, &f, &with_ledger, REMEDY_HOLD, "crash-budget");
	w.crash_budget.max = 0;
	assert_decided(&w, &f, &with_ledger, REMEDY_REQUEUE, "attempts-left");
}

static void rules_that_ignore_attempts_are_under_the_budget(void **state)
{
	struct rule rules[] = {{.remedy = REMEDY_REQUEUE}};
	struct watch w = plain_watch();
	struct facts f = attempts(1);
	(void)state;
	count_attempts(&w);
	w.nrules = 1;
	w.rules = rules;
	f.crashes = 2;
	assert_decided(&w, &f, &with_ledger, REMEDY_HOLD, "crash-budget");
}

static void the_budget_stops_only_what_gives_a_job_back(void **state)
{
	struct rule rules[] = {{.remedy = REMEDY_FAIL}};
	struct watch w = plain_watch();
	struct facts f = stuck();
	(void)state;
	w.nrules = 1;
	w.rules = rules;
	f.crashes = 9;
	assert_decided(&w, &f, &with_ledger, REMEDY_FAIL, "rule-1");
}

static void a_held_job_stays_held_and_nothing_is_written(void **state)
{
	struct watch w = plain_watch();
	struct facts f = stuck();
	(void)state;
	f.hold = HOLD_STATE_WATCH;
	assert_decided(&w, &f, &with_ledger, REMEDY_HOLD, "already-held");
	assert_false(decide(&w, &f, &silent, &with_ledger).act);
}

static void a_person_overrules_everything(void **state)
{
	struct watch w = plain_watch();
	struct facts f = stuck();
	struct decide_options o = {.ledger = true, .forced = true, .remedy = REMEDY_FAIL};
	(void)state;
	f.hold = HOLD_STATE_WATCH;
	f.crashes = 9;
	assert_decided(&w, &f, &o, REMEDY_FAIL, "chosen-by-hand");
	o.remedy = REMEDY_REPORT;
	assert_false(decide(&w, &f, &silent, &o).act);
}

static void a_hold_without_ledger_and_without_a_way_of_its_own_is_reported(void **state)
{
	struct watch w = plain_watch();
	struct facts f = attempts(3);
	struct decide_options o = {.forced = true, .remedy = REMEDY_HOLD};
	(void)state;
	count_attempts(&w);
	assert_decided(&w, &f, &no_ledger, REMEDY_REPORT, "no-ledger");
	assert_false(decide(&w, &f, &silent, &no_ledger).act);
	assert_decided(&w, &f, &o, REMEDY_REPORT, "no-ledger");
	w.actions[REMEDY_HOLD].form = ACTION_SET;
	assert_decided(&w, &f, &no_ledger, REMEDY_HOLD, "attempts-exhausted");
}

static void the_first_rule_that_matches_decides(void **state)
{
	struct rule rules[] = {
		{.verdict = VERDICT_DEAD, .remedy = REMEDY_REQUEUE},
		{.kind = "crawl", .remedy = REMEDY_FAIL},
		{.attempts = ATTEMPTS_EXHAUSTED, .remedy = REMEDY_HOLD},
		{.crashes = 2, .remedy = REMEDY_ROLLBACK},
		{.when.text = "x", .remedy = REMEDY_REPORT},
		{.attempts = ATTEMPTS_LEFT, .remedy = REMEDY_RETRY},
	};
	struct watch w = plain_watch();
	struct facts f = attempts(1);
	(void)state;
	count_attempts(&w);
	w.nrules = 6;
	w.rules = rules;
	assert_decided(&w, &f, &with_ledger, REMEDY_RETRY, "rule-6");
	f.when = 1U << 4;
	assert_decided(&w, &f, &with_ledger, REMEDY_REPORT, "rule-5");
	f.crashes = 1;
	assert_decided(&w, &f, &with_ledger, REMEDY_ROLLBACK, "rule-4");
	f.attempts = 3;
	assert_decided(&w, &f, &with_ledger, REMEDY_HOLD, "rule-3");
	f.kind = "crawl";
	assert_decided(&w, &f, &with_ledger, REMEDY_FAIL, "rule-2");
	struct judgement dead = {.verdict = VERDICT_DEAD};
	w.crash_budget.max = 0;
	assert_string_equal(decide(&w, &f, &dead, &with_ledger).rule, "rule-1");
}

static void a_condition_of_another_rule_does_not_count(void **state)
{
	struct rule rules[] = {{.when.text = "x", .remedy = REMEDY_FAIL}};
	struct watch w = plain_watch();
	struct facts f = stuck();
	(void)state;
	w.nrules = 1;
	w.rules = rules;
	f.when = ~1U;
	assert_decided(&w, &f, &with_ledger, REMEDY_REPORT, "no-rule");
}

/* The answer according to the design, not the code. */
static const char *expected_rule(const struct facts *f, const struct decide_options *o, bool counts,
                                 enum remedy *remedy)
{
	bool done = counts && f->has_attempts && f->attempts >= f->max_attempts;
	bool poison = !counts && o->ledger && f->crashes >= 2;
	if (o->forced) {
		*remedy = o->remedy;
		return "chosen-by-hand";
	}
	*remedy = REMEDY_HOLD;
	if (hold_in_force(f->hold))
		return "already-held";
	if (done && !o->ledger) {
		*remedy = REMEDY_REPORT;
		return "no-ledger";
	}
	if (done)
		return "attempts-exhausted";
	if (poison)
		return "crash-budget";
	*remedy = REMEDY_REQUEUE;
	return "attempts-left";
}

static void every_combination_has_its_remedy_and_a_rule(void **state)
{
	int tried = 0;
	(void)state;
	for (unsigned i = 0; i < 4 * 3 * 4 * 2 * 2 * 2; i++, tried++) {
		struct judgement j = {.verdict = (enum verdict)(VERDICT_DEAD + i % 4)};
		unsigned left = i / 4 % 3; /* no attempts, some left, exhausted */
		struct watch w = plain_watch();
		struct facts f = left ? attempts(left == 1 ? 1 : 3) : stuck();
		struct decide_options o = {.remedy = REMEDY_FAIL};
		enum remedy remedy;
		if (left)
			count_attempts(&w);
		f.crashes = i / 12 % 4;
		f.hold = i / 48 % 2 ? HOLD_STATE_WATCH : HOLD_STATE_NONE;
		o.ledger = i / 96 % 2;
		o.forced = i / 192 % 2;
		const char *rule = expected_rule(&f, &o, left > 0, &remedy);
		struct decision d = decide(&w, &f, &j, &o);
		assert_string_equal(d.rule, rule);
		assert_int_equal(d.remedy, remedy);
		assert_non_null(d.why);
		assert_int_equal(d.act, remedy != REMEDY_REPORT && !text_eq(rule, "already-held"));
	}
	assert_int_equal(tried, 384);
}

static bool loops(struct watch *w, struct rule *rules, int n, bool ledger)
{
	struct decide_options o = {.ledger = ledger};
	w->rules = rules;
	w->nrules = n;
	return decide_can_loop(w, &o);
}

static void requeue_without_attempts_and_without_ledger_can_loop(void **state)
{
	struct watch w = plain_watch();
	(void)state;
	assert_true(loops(&w, NULL, 0, false));
	assert_false(loops(&w, NULL, 0, true));
	count_attempts(&w);
	assert_false(loops(&w, NULL, 0, false));
}

static void who_turns_the_budget_off_has_chosen_to_loop(void **state)
{
	struct watch w = plain_watch();
	(void)state;
	w.crash_budget = (struct crash_budget){.given = true};
	assert_false(loops(&w, NULL, 0, false));
}

static void rules_that_give_nothing_back_cannot_loop(void **state)
{
	struct rule rules[] = {{.remedy = REMEDY_FAIL}, {.remedy = REMEDY_REPORT}};
	struct watch w = plain_watch();
	(void)state;
	assert_false(loops(&w, rules, 2, false));
	rules[1].remedy = REMEDY_RETRY;
	assert_true(loops(&w, rules, 2, false));
}

static void rules_that_ignore_attempts_can_loop(void **state)
{
	struct rule open[] = {{.remedy = REMEDY_REQUEUE}};
	struct rule left[] = {{.attempts = ATTEMPTS_LEFT, .remedy = REMEDY_RETRY},
	                      {.remedy = REMEDY_FAIL}};
	struct rule behind[] = {{.attempts = ATTEMPTS_EXHAUSTED, .remedy = REMEDY_FAIL},
	                        {.remedy = REMEDY_REQUEUE}};
	struct watch w = plain_watch();
	(void)state;
	count_attempts(&w);
	assert_true(loops(&w, open, 1, false));
	assert_false(loops(&w, left, 2, false));
	assert_false(loops(&w, behind, 2, false));
	behind[0].kind = "crawl";
	assert_true(loops(&w, behind, 2, false));
}

static void a_watch_that_only_reports_cannot_loop(void **state)
{
	struct watch w = {.name = "w"};
	(void)state;
	assert_false(loops(&w, NULL, 0, false));
}

/* A restart, a mass event and a program that ended normally say nothing about the job. */
static void what_is_no_crash_of_the_job_does_not_count(void **state)
{
	struct watch w = plain_watch();
	struct facts f = stuck();
	bool *excuses[] = {&f.mass, &f.restart, &f.clean};
	(void)state;
	f.crashes = 2;
	assert_int_equal(decide_crashes(&f), 3);
	for (int i = 0; i < 3; i++) {
		*excuses[i] = true;
		assert_int_equal(decide_crashes(&f), 2);
		assert_decided(&w, &f, &with_ledger, REMEDY_REQUEUE, "attempts-left");
		*excuses[i] = false;
	}
}

/* Only a rule for all exhausted jobs keeps them from the rules after it. */
static void a_rule_for_some_of_the_exhausted_bounds_nothing(void **state)
{
	struct rule all = {.attempts = ATTEMPTS_EXHAUSTED, .remedy = REMEDY_FAIL};
	struct rule some[] = {all, all, all, all};
	struct watch w = plain_watch();
	(void)state;
	count_attempts(&w);
	some[0].verdict = VERDICT_ORPHAN;
	some[1].kind = "crawl";
	some[2].crashes = 2;
	some[3].when.text = "true";
	for (int i = 0; i < 4; i++) {
		struct rule rules[] = {some[i], {.remedy = REMEDY_REQUEUE}};
		assert_true(loops(&w, rules, 2, false));
		rules[0] = all;
		assert_false(loops(&w, rules, 2, false));
	}
}

static void a_job_that_was_released_is_given_back_as_the_watch_can(void **state)
{
	struct rule hold[] = {{.remedy = REMEDY_HOLD}};
	struct watch w = plain_watch();
	struct facts f = stuck();
	(void)state;
	f.released = true;
	w.nrules = 1;
	w.rules = hold;
	assert_decided(&w, &f, &with_ledger, REMEDY_REQUEUE, "released-by-hand");
	w.actions[REMEDY_REQUEUE].form = ACTION_NONE;
	assert_decided(&w, &f, &with_ledger, REMEDY_RETRY, "released-by-hand");
	w.actions[REMEDY_RETRY].form = ACTION_NONE;
	assert_decided(&w, &f, &with_ledger, REMEDY_REPORT, "released-by-hand");
	assert_false(decide(&w, &f, &silent, &with_ledger).act);
}

static void what_a_person_chose_and_what_the_budget_bounds_cannot_loop(void **state)
{
	struct decide_options forced = {.forced = true, .remedy = REMEDY_REQUEUE};
	struct watch w = plain_watch();
	(void)state;
	assert_true(decide_can_loop(&w, &no_ledger));
	assert_false(decide_can_loop(&w, &forced));
	assert_false(decide_can_loop(&w, &with_ledger));
	w.crash_budget.max = 0; /* not given: none by the default */
	assert_true(decide_can_loop(&w, &with_ledger));
}

static bool holds(struct watch w, struct rule rule, bool by_rule)
{
	w.nrules = by_rule;
	w.rules = &rule;
	return decide_can_hold(&w);
}

/* By a rule, by the crash budget of a requeue, or by attempts that can be used up. */
static void which_watches_can_put_a_job_on_hold(void **state)
{
	struct rule none = {0}, hold = {.remedy = REMEDY_HOLD}, requeue = {.remedy = REMEDY_REQUEUE},
				retry = {.remedy = REMEDY_RETRY}, fail = {.remedy = REMEDY_FAIL};
	struct watch w = plain_watch(), free = plain_watch();
	(void)state;
	free.crash_budget.max = 0;
	assert_true(holds(w, none, false));
	assert_false(holds(free, none, false));
	assert_true(holds(free, hold, true));
	assert_true(holds(w, requeue, true));
	assert_true(holds(w, retry, true));
	assert_false(holds(w, fail, true));
	assert_false(holds(free, requeue, true));
	count_attempts(&free);
	assert_true(holds(free, none, false));
	free.actions[REMEDY_REQUEUE].form = ACTION_NONE;
	assert_false(holds(free, none, false));
}

static const struct backoff doubling = {
	.base_us = MINUTE, .cap_us = 60 * MINUTE, .factor = 2, .jitter = false};

static void waits_are_one_two_and_four_minutes(void **state)
{
	(void)state;
	assert_int_equal(backoff_us(&doubling, 0, 0.5), 1 * MINUTE);
	assert_int_equal(backoff_us(&doubling, 1, 0.5), 2 * MINUTE);
	assert_int_equal(backoff_us(&doubling, 2, 0.5), 4 * MINUTE);
}

static void no_wait_is_longer_than_the_cap(void **state)
{
	(void)state;
	assert_int_equal(backoff_us(&doubling, 6, 0), 60 * MINUTE);
	assert_int_equal(backoff_us(&doubling, 100, 0), 60 * MINUTE);
	struct backoff b = {.base_us = 2 * MINUTE, .cap_us = MINUTE, .factor = 2};
	assert_int_equal(backoff_us(&b, 0, 0), MINUTE);
}

static void a_hostile_number_of_attempts_ends_too(void **state)
{
	struct backoff flat = {.base_us = MINUTE, .cap_us = 60 * MINUTE, .factor = 1};
	(void)state;
	assert_int_equal(backoff_us(&doubling, INT64_MAX, 0), 60 * MINUTE);
	assert_int_equal(backoff_us(&doubling, INT64_MIN, 0), MINUTE);
	assert_int_equal(backoff_us(&flat, INT64_MAX, 0), MINUTE);
}

static void jitter_spreads_between_zero_and_the_whole_wait(void **state)
{
	struct backoff b = doubling;
	(void)state;
	b.jitter = true;
	assert_int_equal(backoff_us(&b, 1, 0), 0);
	assert_int_equal(backoff_us(&b, 1, 0.5), MINUTE);
	assert_true(backoff_us(&b, 1, 0.999999) < 2 * MINUTE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_default_a_job_is_requeued_while_attempts_are_left),
		cmocka_unit_test(by_default_a_job_without_attempts_left_is_held),
		cmocka_unit_test(unknown_attempts_count_as_left),
		cmocka_unit_test(a_watch_that_can_do_nothing_reports),
		cmocka_unit_test(the_crash_budget_holds_the_third_crash),
		cmocka_unit_test(the_crash_budget_needs_the_ledger),
		cmocka_unit_test(where_attempts_bound_a_job_the_budget_counts_only_if_asked_for),
		cmocka_unit_test(rules_that_ignore_attempts_are_under_the_budget),
		cmocka_unit_test(the_budget_stops_only_what_gives_a_job_back),
		cmocka_unit_test(a_held_job_stays_held_and_nothing_is_written),
		cmocka_unit_test(a_person_overrules_everything),
		cmocka_unit_test(a_hold_without_ledger_and_without_a_way_of_its_own_is_reported),
		cmocka_unit_test(the_first_rule_that_matches_decides),
		cmocka_unit_test(a_condition_of_another_rule_does_not_count),
		cmocka_unit_test(every_combination_has_its_remedy_and_a_rule),
		cmocka_unit_test(requeue_without_attempts_and_without_ledger_can_loop),
		cmocka_unit_test(who_turns_the_budget_off_has_chosen_to_loop),
		cmocka_unit_test(rules_that_give_nothing_back_cannot_loop),
		cmocka_unit_test(rules_that_ignore_attempts_can_loop),
		cmocka_unit_test(a_watch_that_only_reports_cannot_loop),
		cmocka_unit_test(what_is_no_crash_of_the_job_does_not_count),
		cmocka_unit_test(a_rule_for_some_of_the_exhausted_bounds_nothing),
		cmocka_unit_test(a_job_that_was_released_is_given_back_as_the_watch_can),
		cmocka_unit_test(what_a_person_chose_and_what_the_budget_bounds_cannot_loop),
		cmocka_unit_test(which_watches_can_put_a_job_on_hold),
		cmocka_unit_test(waits_are_one_two_and_four_minutes),
		cmocka_unit_test(no_wait_is_longer_than_the_cap),
		cmocka_unit_test(a_hostile_number_of_attempts_ends_too),
		cmocka_unit_test(jitter_spreads_between_zero_and_the_whole_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
