/* SPDX-License-Identifier: Apache-2.0
 * judge_table_test.c: the whole table of verdicts. Five signs of life, each not watched, null,
 * fresh, at its limit or past it; what is known of the owner; what a missing sign means; and limits
 * that are given, differ by kind or state or row, or are absent. The answer to each is derived from
 * the definitions.
 */
#include "recover/decide.h"

#include "base/clock.h"
#include "base/test.h"
#include "base/text.h"
#include "recover/judge.h"

#define NOW (INT64_C(1767323045) * US_PER_S)

/* Of one sign. */
enum age { NOT_WATCHED, MISSING, FRESH, BORDER, PAST, AGES };
/* BY_KIND: the job's kind has another limit than the rest. Its own time-out beats its kind, and its
 * state both. */
enum limits { ABSENT, PLAIN, BY_KIND, OTHER_KIND, BY_ROW, BY_STATE, LIMITS };

struct combination {
	enum age age[SIGN_COUNT];
	enum limits limits;
	enum known owner_alive;
	bool running, orphans;
};

/* ---- the answer, by definition ---- */

#define OWN_US (17 * US_PER_S)
#define ENDING_US (7 * US_PER_S)

/* The limit that counts for the job; 0: none. */
static int64_t limit_us(const struct combination *c, enum sign s)
{
	static const int64_t us[SIGN_COUNT][LIMITS] = {
		[SIGN_ALIVE] = {0, 60 * US_PER_S, 5 * US_PER_S, 60 * US_PER_S, OWN_US, ENDING_US},
		[SIGN_EXPIRES] = {0, 60 * US_PER_S, 5 * US_PER_S, 60 * US_PER_S, OWN_US, ENDING_US},
		[SIGN_STARTED] = {0, 900 * US_PER_S, 300 * US_PER_S, 900 * US_PER_S, OWN_US, 0},
		[SIGN_STATE] = {0, 0, 0, 0, 0, ENDING_US},
		[SIGN_PROGRESS] = {0, 60 * US_PER_S, 5 * US_PER_S, 60 * US_PER_S, OWN_US, ENDING_US},
	};
	return us[s][c->limits];
}

/* Without a limit only a deadline can pass. */
static bool passed(const struct combination *c, enum sign s)
{
	bool of_state = c->limits == BY_STATE;
	if (s == SIGN_STATE || s == SIGN_STARTED)
		return c->age[s] == PAST && of_state == (s == SIGN_STATE) && c->limits != ABSENT;
	return c->age[s] == PAST && (c->limits != ABSENT || s == SIGN_EXPIRES);
}

static bool is_there(const struct combination *c, enum sign s)
{
	return c->age[s] != NOT_WATCHED && c->age[s] != MISSING;
}

/* An orphan lacks the first sign that its watch uses. */
static bool is_orphan(const struct combination *c)
{
	for (int s = 0; s < SIGN_COUNT; s++)
		if (c->age[s] != NOT_WATCHED)
			return c->orphans && c->age[s] == MISSING;
	return false;
}

static const char *due(const struct combination *c)
{
	bool lives = c->owner_alive == KNOWN_YES;
	if (!c->running)
		return "not-running";
	if (c->owner_alive == KNOWN_NO)
		return "owner-gone";
	if (!lives && is_orphan(c))
		return "no-sign-orphan";
	if (!lives && passed(c, SIGN_ALIVE))
		return "silent";
	if (!lives && passed(c, SIGN_EXPIRES))
		return "expired";
	if (passed(c, SIGN_STARTED))
		return "overdue";
	if (passed(c, SIGN_STATE))
		return "lingers";
	if (c->age[SIGN_PROGRESS] == PAST && c->limits != ABSENT)
		return "stalled";
	if (lives)
		return "owner-lives";
	bool any = is_there(c, SIGN_ALIVE) || is_there(c, SIGN_EXPIRES) || is_there(c, SIGN_STARTED) ||
	           is_there(c, SIGN_STATE) || is_there(c, SIGN_PROGRESS);
	return any ? "fresh" : "no-sign";
}

static enum verdict verdict_due(const char *rule)
{
	static const struct {
		const char *rule;
		enum verdict verdict;
	} table[] = {
		{"owner-gone", VERDICT_DEAD}, {"no-sign-orphan", VERDICT_ORPHAN},
		{"silent", VERDICT_SILENT},   {"expired", VERDICT_SILENT},
		{"overdue", VERDICT_OVERDUE}, {"lingers", VERDICT_OVERDUE},
		{"stalled", VERDICT_STALLED},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (text_eq(table[i].rule, rule))
			return table[i].verdict;
	return VERDICT_NONE;
}

/* ---- the same as facts and a watch ---- */

static const char *const kinds[] = {"short"};
static const char *ending[] = {"ending"};
static int64_t ending_us = ENDING_US;

static struct threshold threshold_of(const struct combination *c, int64_t standard_us,
                                     int64_t *short_us)
{
	struct threshold t = {.given = c->limits != ABSENT, .standard_us = standard_us};
	if (c->limits == BY_STATE)
		t.states = (struct state_limits){1, ending, ending, &ending_us};
	if (c->limits == BY_KIND || c->limits == OTHER_KIND || c->limits == BY_ROW ||
	    c->limits == BY_STATE) {
		t.n = 1;
		t.kinds = (const char **)kinds;
		t.us = short_us;
	}
	return t;
}

static struct watch watch_of(const struct combination *c)
{
	static int64_t short_us = 5 * US_PER_S, short_run_us = 300 * US_PER_S;
	struct watch w = {.name = "w", .missing = c->orphans ? MISSING_ORPHAN : MISSING_ALIVE};
	w.alive_at.text = c->age[SIGN_ALIVE] == NOT_WATCHED ? NULL : "a";
	w.expires_at.text = c->age[SIGN_EXPIRES] == NOT_WATCHED ? NULL : "e";
	w.started_at.text = c->age[SIGN_STARTED] == NOT_WATCHED ? NULL : "s";
	w.state_since.text = c->age[SIGN_STATE] == NOT_WATCHED ? NULL : "c";
	w.progress_at.text = c->age[SIGN_PROGRESS] == NOT_WATCHED ? NULL : "p";
	w.stuck_after = threshold_of(c, 60 * US_PER_S, &short_us);
	w.stalled_after = threshold_of(c, 60 * US_PER_S, &short_us);
	w.overdue_after = threshold_of(c, 900 * US_PER_S, &short_run_us);
	return w;
}

static struct facts facts_of(const struct combination *c)
{
	static const int64_t beyond_us[] = {[FRESH] = -1, [BORDER] = 0, [PAST] = 1};
	struct facts f = {.running = c->running, .owner_alive = c->owner_alive, .now_us = NOW};
	f.kind = c->limits == OTHER_KIND                          ? "long"
	         : c->limits > OTHER_KIND || c->limits == BY_KIND ? "short"
	                                                          : NULL;
	f.state = c->limits == BY_STATE ? "ending" : "running";
	for (int s = 0; s < SIGN_COUNT; s++) {
		f.has_own[s] = c->limits == BY_ROW || c->limits == BY_STATE;
		f.own_us[s] = OWN_US;
		f.has_sign[s] = is_there(c, (enum sign)s);
		if (f.has_sign[s])
			f.sign_us[s] = NOW - limit_us(c, (enum sign)s) - beyond_us[c->age[s]];
	}
	return f;
}

/* ---- every combination ---- */

static unsigned pick(unsigned *rest, unsigned n)
{
	unsigned picked = *rest % n;
	*rest /= n;
	return picked;
}

/* The i-th of them; false when there is none. */
static bool combination(unsigned i, struct combination *out)
{
	unsigned rest = i;
	for (int s = 0; s < SIGN_COUNT; s++)
		out->age[s] = (enum age)pick(&rest, AGES);
	out->limits = (enum limits)pick(&rest, LIMITS);
	out->owner_alive = (enum known)((int)pick(&rest, 3) + KNOWN_NOT);
	out->running = pick(&rest, 2);
	out->orphans = pick(&rest, 2);
	return rest == 0;
}

/* A configuration without any sign is rejected, unless it has owner_alive. */
static bool is_possible(const struct combination *c)
{
	return c->age[SIGN_ALIVE] != NOT_WATCHED || c->age[SIGN_EXPIRES] != NOT_WATCHED ||
	       c->age[SIGN_STARTED] != NOT_WATCHED || c->age[SIGN_STATE] != NOT_WATCHED ||
	       c->age[SIGN_PROGRESS] != NOT_WATCHED || !c->orphans;
}

static void say(const struct combination *c)
{
	print_error("signs %d %d %d %d %d, limits %d, owner alive %d, running %d, orphans %d\n",
	            c->age[SIGN_ALIVE], c->age[SIGN_EXPIRES], c->age[SIGN_STARTED], c->age[SIGN_STATE],
	            c->age[SIGN_PROGRESS], c->limits, c->owner_alive, c->running, c->orphans);
}

static void every_combination_has_one_rule_and_its_verdict(void **state)
{
	struct combination c;
	unsigned tried = 0;
	(void)state;
	for (; combination(tried, &c); tried++) {
		struct watch w = watch_of(&c);
		struct facts f = facts_of(&c);
		if (!is_possible(&c))
			continue;
		struct judgement j = judge(&w, &f);
		const char *rule = due(&c);
		if (!text_eq(j.rule->id, rule) || j.verdict != verdict_due(rule)) {
			say(&c);
			fail_msg("%s by %s instead of %s", verdict_names[j.verdict], j.rule->id, rule);
		}
	}
	assert_int_equal(tried, AGES * AGES * AGES * AGES * AGES * LIMITS * 3 * 2 * 2);
}

static void every_rule_is_the_one_that_speaks_somewhere(void **state)
{
	bool spoke[16] = {false};
	struct combination c;
	(void)state;
	for (unsigned i = 0; combination(i, &c); i++) {
		struct watch w = watch_of(&c);
		struct facts f = facts_of(&c);
		spoke[judge(&w, &f).rule - judge_rules] = true;
	}
	for (int i = 0; judge_rules[i].id; i++)
		if (!spoke[i])
			fail_msg("%s never speaks", judge_rules[i].id);
}

/* What is measured is what the verdict is based on, compared with the limit of the job's kind. */
static void a_verdict_by_age_says_what_was_measured(void **state)
{
	static const struct {
		const char *rule;
		enum sign sign;
	} by_age[] = {{"silent", SIGN_ALIVE},
	              {"expired", SIGN_EXPIRES},
	              {"overdue", SIGN_STARTED},
	              {"lingers", SIGN_STATE},
	              {"stalled", SIGN_PROGRESS}};
	struct combination c;
	int measured = 0;
	(void)state;
	for (unsigned i = 0; combination(i, &c); i++) {
		struct watch w = watch_of(&c);
		struct facts f = facts_of(&c);
		struct judgement j = judge(&w, &f);
		for (size_t k = 0; k < sizeof by_age / sizeof *by_age; k++) {
			if (!text_eq(j.rule->id, by_age[k].rule))
				continue;
			measured++;
			assert_true(j.measured);
			assert_int_equal(j.sign, by_age[k].sign);
			assert_int_equal(j.limit_us, limit_us(&c, j.sign));
			assert_int_equal(j.measured_us, j.limit_us + 1);
		}
	}
	assert_true(measured > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_combination_has_one_rule_and_its_verdict),
		cmocka_unit_test(every_rule_is_the_one_that_speaks_somewhere),
		cmocka_unit_test(a_verdict_by_age_says_what_was_measured),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
