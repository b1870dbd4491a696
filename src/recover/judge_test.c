/* SPDX-License-Identifier: Apache-2.0
 * judge_test.c: all rules as a table, their borders to the microsecond, and what must hold for any
 * facts.
 */
#include "recover/evidence.h"

#include "base/clock.h"
#include "base/test.h"
#include "base/text.h"
#include "recover/judge.h"

#include <string.h>

#define NOW (INT64_C(1767323045) * US_PER_S)
#define LIMIT (60 * US_PER_S)
#define SLACK (10 * US_PER_S)
#define LONGEST (600 * US_PER_S)

/* A watch with the given signs. */
static struct watch watch_of(bool alive, bool expires, bool started)
{
	struct watch w = {.name = "w"};
	w.alive_at.text = alive ? "a" : NULL;
	w.expires_at.text = expires ? "e" : NULL;
	w.started_at.text = started ? "s" : NULL;
	w.stuck_after = (struct threshold){.given = alive || expires, .standard_us = LIMIT};
	w.overdue_after = (struct threshold){.given = started, .standard_us = LONGEST};
	return w;
}

static struct facts running(void)
{
	return (struct facts){.running = true, .owner_alive = KNOWN_NOT, .now_us = NOW};
}

static void sign(struct facts *f, enum sign s, int64_t age_us)
{
	f->has_sign[s] = true;
	f->sign_us[s] = NOW - age_us;
}

static void assert_judged(const struct watch *w, const struct facts *f, const char *rule,
                          enum verdict verdict)
{
	struct judgement j = judge(w, f);
	assert_string_equal(j.rule->id, rule);
	assert_int_equal(j.verdict, verdict);
	assert_int_equal(j.rule->verdict, verdict);
}

/* The age of a sign in the table below; NONE: it is null. */
enum age { NONE, FRESH, BORDER, PAST };

static void place(struct facts *f, enum sign s, enum age age, int64_t limit_us)
{
	static const int64_t beyond_us[] = {[FRESH] = -US_PER_S, [BORDER] = 0, [PAST] = 1};
	if (age != NONE)
		sign(f, s, limit_us + beyond_us[age]);
}

static const char *expected(bool is_running, enum known alive, bool orphans, enum age a, enum age s)
{
	if (!is_running)
		return "not-running";
	if (alive == KNOWN_NO)
		return "owner-gone";
	if (alive != KNOWN_YES && orphans && a == NONE)
		return "no-sign-orphan";
	if (alive != KNOWN_YES && a == PAST)
		return "silent";
	if (s == PAST)
		return "overdue";
	if (alive == KNOWN_YES)
		return "owner-lives";
	return a == NONE && s == NONE ? "no-sign" : "fresh";
}

static void every_combination_of_facts_has_its_rule(void **state)
{
	struct watch w = watch_of(true, false, true);
	int tried = 0;
	(void)state;
	for (unsigned i = 0; i < 2 * 3 * 2 * 4 * 4; i++, tried++) {
		bool is_running = i % 2, orphans = i / 6 % 2;
		enum known alive = (enum known)((int)(i / 2 % 3) - 1);
		enum age a = (enum age)(i / 12 % 4), s = (enum age)(i / 48 % 4);
		struct facts f = running();
		f.running = is_running;
		f.owner_alive = alive;
		w.missing = orphans ? MISSING_ORPHAN : MISSING_ALIVE;
		place(&f, SIGN_ALIVE, a, LIMIT);
		place(&f, SIGN_STARTED, s, LONGEST);
		assert_string_equal(judge(&w, &f).rule->id, expected(is_running, alive, orphans, a, s));
	}
	assert_int_equal(tried, 192);
}

static void every_rule_has_an_id_and_a_why_of_its_own(void **state)
{
	(void)state;
	for (const struct judge_rule *a = judge_rules; a->id; a++) {
		assert_true(strlen(a->why) > 10);
		for (const struct judge_rule *b = a + 1; b->id; b++)
			assert_string_not_equal(a->id, b->id);
	}
}

static void silence_of_exactly_the_limit_is_not_stuck(void **state)
{
	struct watch w = watch_of(true, false, false);
	struct facts f = running();
	(void)state;
	sign(&f, SIGN_ALIVE, LIMIT);
	assert_judged(&w, &f, "fresh", VERDICT_NONE);
}

static void one_microsecond_more_is_silent(void **state)
{
	struct watch w = watch_of(true, false, false);
	struct facts f = running();
	(void)state;
	sign(&f, SIGN_ALIVE, LIMIT + 1);
	assert_judged(&w, &f, "silent", VERDICT_SILENT);
	struct judgement j = judge(&w, &f);
	assert_true(j.measured && j.sign == SIGN_ALIVE);
	assert_int_equal(j.measured_us, LIMIT + 1);
	assert_int_equal(j.limit_us, LIMIT);
}

static void a_deadline_without_slack_counts_from_itself(void **state)
{
	struct watch w = watch_of(false, true, false);
	struct facts f = running();
	(void)state;
	w.stuck_after = (struct threshold){0};
	sign(&f, SIGN_EXPIRES, 0);
	assert_judged(&w, &f, "fresh", VERDICT_NONE);
	sign(&f, SIGN_EXPIRES, 1);
	assert_judged(&w, &f, "expired", VERDICT_SILENT);
	assert_int_equal(judge(&w, &f).limit_us, 0);
}

static void slack_is_added_to_a_deadline(void **state)
{
	struct watch w = watch_of(false, true, false);
	struct facts f = running();
	(void)state;
	w.stuck_after = (struct threshold){.given = true, .standard_us = SLACK};
	sign(&f, SIGN_EXPIRES, SLACK);
	assert_judged(&w, &f, "fresh", VERDICT_NONE);
	sign(&f, SIGN_EXPIRES, SLACK + 1);
	assert_judged(&w, &f, "expired", VERDICT_SILENT);
}

static void a_deadline_that_lies_ahead_is_fresh(void **state)
{
	struct watch w = watch_of(false, true, false);
	struct facts f = running();
	(void)state;
	sign(&f, SIGN_EXPIRES, -US_PER_S);
	assert_judged(&w, &f, "fresh", VERDICT_NONE);
	assert_int_equal(judge(&w, &f).measured_us, -US_PER_S);
}

static void a_run_of_exactly_the_limit_is_not_overdue(void **state)
{
	struct watch w = watch_of(false, false, true);
	struct facts f = running();
	(void)state;
	sign(&f, SIGN_STARTED, LONGEST);
	assert_judged(&w, &f, "fresh", VERDICT_NONE);
	sign(&f, SIGN_STARTED, LONGEST + 1);
	assert_judged(&w, &f, "overdue", VERDICT_OVERDUE);
}

static void a_living_worker_is_never_silent_but_can_be_overdue(void **state)
{
	struct watch w = watch_of(true, true, true);
	struct facts f = running();
	(void)state;
	f.owner_alive = KNOWN_YES;
	sign(&f, SIGN_ALIVE, 100 * LIMIT);
	sign(&f, SIGN_EXPIRES, 100 * LIMIT);
	assert_judged(&w, &f, "owner-lives", VERDICT_NONE);
	sign(&f, SIGN_STARTED, LONGEST + 1);
	assert_judged(&w, &f, "overdue", VERDICT_OVERDUE);
}

static void a_living_worker_is_no_reason_for_an_orphan(void **state)
{
	struct watch w = watch_of(true, false, false);
	struct facts f = running();
	(void)state;
	w.missing = MISSING_ORPHAN;
	f.owner_alive = KNOWN_YES;
	assert_judged(&w, &f, "owner-lives", VERDICT_NONE);
}

static void a_gone_worker_is_dead_however_fresh_its_sign(void **state)
{
	struct watch w = watch_of(true, false, false);
	struct facts f = running();
	(void)state;
	f.owner_alive = KNOWN_NO;
	sign(&f, SIGN_ALIVE, 0);
	assert_judged(&w, &f, "owner-gone", VERDICT_DEAD);
	assert_false(judge(&w, &f).measured);
}

static void each_kind_has_its_own_limit(void **state)
{
	static const char *kinds[] = {"scrape", "crawl"};
	static int64_t us[] = {5 * US_PER_S, 500 * US_PER_S};
	struct watch w = watch_of(true, false, false);
	struct facts f = running();
	(void)state;
	w.kind.text = "type";
	w.stuck_after.n = 2;
	w.stuck_after.kinds = kinds;
	w.stuck_after.us = us;
	sign(&f, SIGN_ALIVE, 61 * US_PER_S);
	f.kind = "scrape";
	assert_judged(&w, &f, "silent", VERDICT_SILENT);
	f.kind = "crawl";
	assert_judged(&w, &f, "fresh", VERDICT_NONE);
	f.kind = "other";
	assert_judged(&w, &f, "silent", VERDICT_SILENT);
	f.kind = NULL;
	assert_judged(&w, &f, "silent", VERDICT_SILENT);
}

static void a_fresh_row_says_what_was_measured(void **state)
{
	struct watch w = watch_of(true, true, true);
	struct facts f = running();
	(void)state;
	sign(&f, SIGN_STARTED, 5);
	assert_int_equal(judge(&w, &f).sign, SIGN_STARTED);
	sign(&f, SIGN_ALIVE, 7);
	struct judgement j = judge(&w, &f);
	assert_true(j.measured && j.sign == SIGN_ALIVE);
	assert_int_equal(j.measured_us, 7);
}

static uint64_t draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return *seed >> 33;
}

static int64_t draw_age(uint64_t *seed)
{
	static const int64_t near_us[] = {LIMIT, SLACK, LONGEST, 0};
	return near_us[draw(seed) % 4] + (int64_t)(draw(seed) % 5) - 2;
}

static struct facts draw_facts(uint64_t *seed)
{
	struct facts f = running();
	f.running = draw(seed) % 8 != 0;
	f.owner_alive = (enum known)((int)(draw(seed) % 3) - 1);
	for (int s = 0; s < SIGN_COUNT; s++)
		if (draw(seed) % 4)
			sign(&f, (enum sign)s, draw_age(seed));
	f.kind = draw(seed) % 2 ? "scrape" : NULL;
	return f;
}

static struct watch draw_watch(uint64_t *seed)
{
	uint64_t signs = 1 + draw(seed) % 7;
	struct watch w = watch_of(signs & 1, signs & 2, signs & 4);
	w.missing = draw(seed) % 2 ? MISSING_ORPHAN : MISSING_ALIVE;
	return w;
}

static bool past(const struct watch *w, const struct facts *f, enum sign s, int64_t limit_us)
{
	return watch_sign(w, s)->text && f->has_sign[s] && NOW - f->sign_us[s] > limit_us;
}

static void whatever_the_facts_fresh_life_is_never_convicted(void **state)
{
	int innocent = 0;
	(void)state;
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t seed = i;
		struct watch w = draw_watch(&seed);
		struct facts f = draw_facts(&seed);
		bool old = past(&w, &f, SIGN_ALIVE, LIMIT) || past(&w, &f, SIGN_EXPIRES, LIMIT) ||
		           past(&w, &f, SIGN_STARTED, LONGEST);
		bool absent = w.missing == MISSING_ORPHAN && !f.has_sign[watch_first_sign(&w)];
		if (old || absent || f.owner_alive == KNOWN_NO)
			continue;
		innocent++;
		assert_int_equal(judge(&w, &f).verdict, VERDICT_NONE);
	}
	assert_true(innocent > 1000);
}

static void whatever_the_facts_an_old_sign_of_an_unknown_owner_is_convicted(void **state)
{
	int guilty = 0;
	(void)state;
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t seed = i;
		struct watch w = draw_watch(&seed);
		struct facts f = draw_facts(&seed);
		if (!f.running || f.owner_alive != KNOWN_NOT || !past(&w, &f, SIGN_ALIVE, LIMIT))
			continue;
		guilty++;
		assert_int_equal(judge(&w, &f).verdict, VERDICT_SILENT);
	}
	assert_true(guilty > 500);
}

static void what_the_watch_does_not_use_changes_no_verdict(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t seed = i;
		struct watch w = draw_watch(&seed);
		struct facts f = draw_facts(&seed), g = f;
		for (int s = 0; s < SIGN_COUNT; s++)
			if (!watch_sign(&w, (enum sign)s)->text) {
				g.has_sign[s] = draw(&seed) % 2;
				g.sign_us[s] = NOW - draw_age(&seed);
			}
		g.kind = draw(&seed) % 2 ? "crawl" : NULL;
		g.owner = "somebody";
		g.has_attempts = true;
		g.attempts = (int64_t)draw(&seed);
		g.crashes = (int64_t)draw(&seed);
		g.hold = draw(&seed) % 2 ? HOLD_STATE_WATCH : HOLD_STATE_NONE;
		g.when = (uint32_t)draw(&seed);
		struct judgement a = judge(&w, &f), b = judge(&w, &g);
		assert_ptr_equal(a.rule, b.rule);
		assert_int_equal(a.measured_us, b.measured_us);
	}
}

/* The first of these that a row has: a limit of its state, its own, one of its kind, the default.
 */
static void the_limit_of_a_row_is_the_first_that_it_has(void **state)
{
	static const char *kinds[] = {"crawl"}, *names[] = {"cancelling"}, *values[] = {"7"};
	static int64_t kind_us[] = {20 * US_PER_S}, state_us[] = {5 * US_PER_S};
	static const struct {
		const char *state, *kind;
		bool own;
		int64_t limit_us;
		const char *sentence;
	} rows[] = {
		{"7", "crawl", true, 5 * US_PER_S, "(limit 5s of state cancelling)"},
		{"7", NULL, false, 5 * US_PER_S, "(limit 5s of state cancelling)"},
		{"1", "crawl", true, 9 * US_PER_S, "(limit 9s, its own time-out)"},
		{"1", "crawl", false, 20 * US_PER_S, "(limit 20s)"},
		{NULL, "scrape", false, 60 * US_PER_S, "(limit 1m)"},
	};
	struct watch w = watch_of(true, false, false);
	(void)state;
	w.stuck_after.n = 1;
	w.stuck_after.kinds = kinds;
	w.stuck_after.us = kind_us;
	w.stuck_after.states = (struct state_limits){1, names, values, state_us};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct facts f = running();
		AUTO_BUF sentence = BUF_INIT;
		f.state = rows[i].state;
		f.kind = rows[i].kind;
		f.has_own[SIGN_ALIVE] = rows[i].own;
		f.own_us[SIGN_ALIVE] = 9 * US_PER_S;
		sign(&f, SIGN_ALIVE, rows[i].limit_us);
		assert_judged(&w, &f, "fresh", VERDICT_NONE);
		sign(&f, SIGN_ALIVE, rows[i].limit_us + 1);
		assert_judged(&w, &f, "silent", VERDICT_SILENT);
		struct judgement j = judge(&w, &f);
		assert_int_equal(j.limit_us, rows[i].limit_us);
		evidence_sentence(&j, &sentence);
		assert_non_null(strstr(buf_text(&sentence), rows[i].sentence));
	}
}

/* Entered a minute ago, it ran for an hour before: only the time in the state counts there. */
static void a_limit_of_a_state_counts_from_when_the_row_entered_it(void **state)
{
	static const char *names[] = {"cancelling"};
	static int64_t us[] = {120 * US_PER_S};
	struct watch w = watch_of(false, false, true);
	struct facts f = running();
	(void)state;
	w.state_since.text = "c";
	w.overdue_after.states = (struct state_limits){1, names, names, us};
	sign(&f, SIGN_STARTED, 3600 * US_PER_S);
	sign(&f, SIGN_STATE, 60 * US_PER_S);
	f.state = "cancelling";
	assert_judged(&w, &f, "fresh", VERDICT_NONE);
	sign(&f, SIGN_STATE, 121 * US_PER_S);
	assert_judged(&w, &f, "lingers", VERDICT_OVERDUE);
	f.state = "running";
	assert_judged(&w, &f, "overdue", VERDICT_OVERDUE);
	sign(&f, SIGN_STARTED, LONGEST);
	assert_judged(&w, &f, "fresh", VERDICT_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_combination_of_facts_has_its_rule),
		cmocka_unit_test(every_rule_has_an_id_and_a_why_of_its_own),
		cmocka_unit_test(silence_of_exactly_the_limit_is_not_stuck),
		cmocka_unit_test(one_microsecond_more_is_silent),
		cmocka_unit_test(a_deadline_without_slack_counts_from_itself),
		cmocka_unit_test(slack_is_added_to_a_deadline),
		cmocka_unit_test(a_deadline_that_lies_ahead_is_fresh),
		cmocka_unit_test(a_run_of_exactly_the_limit_is_not_overdue),
		cmocka_unit_test(a_living_worker_is_never_silent_but_can_be_overdue),
		cmocka_unit_test(a_living_worker_is_no_reason_for_an_orphan),
		cmocka_unit_test(a_gone_worker_is_dead_however_fresh_its_sign),
		cmocka_unit_test(each_kind_has_its_own_limit),
		cmocka_unit_test(a_fresh_row_says_what_was_measured),
		cmocka_unit_test(whatever_the_facts_fresh_life_is_never_convicted),
		cmocka_unit_test(whatever_the_facts_an_old_sign_of_an_unknown_owner_is_convicted),
		cmocka_unit_test(what_the_watch_does_not_use_changes_no_verdict),
		cmocka_unit_test(the_limit_of_a_row_is_the_first_that_it_has),
		cmocka_unit_test(a_limit_of_a_state_counts_from_when_the_row_entered_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
