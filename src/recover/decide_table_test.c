/* SPDX-License-Identifier: Apache-2.0
 * decide_table_test.c: the whole table of decisions. Every combination of what a decision depends
 * on is compared with an answer that is derived from the design, not from decide.c: the matching
 * rule is written by hand for each list of rules.
 */
#include "recover/decide.h"

#include "base/test.h"
#include "base/text.h"
#include "ledger/events.h"

#include <string.h>

#define BUDGET 3
#define FLAGS 8
#define NO_ONE REMEDY_COUNT /* no operator chose a remedy */

enum attempts { NOT_COUNTED, UNKNOWN, LEFT, EXHAUSTED, ATTEMPTS };
enum budget { BUDGET_STANDARD, BUDGET_GIVEN, BUDGET_OFF, BUDGETS };

/* One combination, in words. */
struct combination {
	const struct list *list;
	enum verdict verdict;
	enum attempts attempts;
	int64_t crashes; /* before this one */
	bool mass, condition, ledger, held;
	enum remedy by_hand; /* or NO_ONE */
	enum budget budget;
	bool own_hold;   /* the user's table records holds */
	bool two_phases; /* a retry waits in our tables */
	bool retries;    /* the watch defines retry */
	bool released;   /* an operator ended a hold of it, and nothing has changed since */
};

/* ---- lists of rules, each with its meaning ---- */

/* The number of the rule that matches; 0: none does. */
struct list {
	struct rule rules[3];
	int n;
	int (*speaks)(const struct combination *c);
	bool gives_back_the_exhausted; /* attempts do not limit it */
	bool cannot_requeue;
};

static int64_t crash_number(const struct combination *c)
{
	return c->mass ? c->crashes : c->crashes + 1;
}

static int first(const struct combination *c)
{
	(void)c;
	return 1;
}

static int condition_else_left_else_rest(const struct combination *c)
{
	return c->condition ? 1 : c->attempts == EXHAUSTED ? 3 : 2;
}

static int left_else_rest(const struct combination *c)
{
	return c->attempts == EXHAUSTED ? 2 : 1;
}

static int exhausted_else_rest(const struct combination *c)
{
	return c->attempts == EXHAUSTED ? 1 : 2;
}

static int dead_else_second_crash_else_none(const struct combination *c)
{
	return c->verdict == VERDICT_DEAD ? 1 : crash_number(c) >= 2 ? 2 : 0;
}

static int only_condition(const struct combination *c)
{
	return c->condition ? 1 : 0;
}

static int kind_else_dead_and_exhausted(const struct combination *c)
{
	/* The job is of kind "crawl": the first rule is for another. */
	return c->verdict == VERDICT_DEAD && c->attempts == EXHAUSTED ? 2 : 0;
}

static int stalled_else_rest(const struct combination *c)
{
	return c->verdict == VERDICT_STALLED ? 1 : 2;
}

static int unstarted_else_rest(const struct combination *c)
{
	return c->verdict == VERDICT_UNSTARTED ? 1 : 2;
}

static const struct list lists[] = {
	{.n = 0},
	{.n = 0, .cannot_requeue = true},
	{{{.remedy = REMEDY_REQUEUE}}, 1, first, true, false},
	{{{.remedy = REMEDY_RETRY}}, 1, first, true, false},
	{{{.remedy = REMEDY_FAIL}}, 1, first, false, false},
	{{{.remedy = REMEDY_HOLD}}, 1, first, false, false},
	{{{.remedy = REMEDY_REPORT}}, 1, first, false, false},
	{{{.when.text = "saga", .remedy = REMEDY_ROLLBACK},
      {.attempts = ATTEMPTS_LEFT, .remedy = REMEDY_RETRY},
      {.remedy = REMEDY_FAIL}},
     3,
     condition_else_left_else_rest,
     false,
     false},
	{{{.attempts = ATTEMPTS_LEFT, .remedy = REMEDY_REQUEUE}, {.remedy = REMEDY_HOLD}},
     2,
     left_else_rest,
     false,
     false},
	{{{.attempts = ATTEMPTS_EXHAUSTED, .remedy = REMEDY_FAIL}, {.remedy = REMEDY_RETRY}},
     2,
     exhausted_else_rest,
     false,
     false},
	{{{.verdict = VERDICT_DEAD, .remedy = REMEDY_REQUEUE}, {.crashes = 2, .remedy = REMEDY_HOLD}},
     2,
     dead_else_second_crash_else_none,
     true,
     false},
	{{{.when.text = "stop", .remedy = REMEDY_FAIL}}, 1, only_condition, false, false},
	{{{.kind = "scrape", .remedy = REMEDY_FAIL},
      {.verdict = VERDICT_DEAD, .attempts = ATTEMPTS_EXHAUSTED, .remedy = REMEDY_RETRY}},
     2,
     kind_else_dead_and_exhausted,
     true,
     false},
	{{{.verdict = VERDICT_STALLED, .remedy = REMEDY_FAIL}, {.remedy = REMEDY_HOLD}},
     2,
     stalled_else_rest,
     false,
     false},
	{{{.verdict = VERDICT_UNSTARTED, .remedy = REMEDY_REQUEUE}, {.remedy = REMEDY_FAIL}},
     2,
     unstarted_else_rest,
     true,
     false},
};
#define LISTS (sizeof lists / sizeof *lists)

/* ---- the answer, according to the design ---- */

struct answer {
	enum remedy remedy;
	char rule[24];
	bool act;
	const char *cause; /* of a hold */
	bool exhausted;
};

static struct answer answer(enum remedy remedy, const char *rule, const char *cause)
{
	struct answer a = {.remedy = remedy, .act = remedy != REMEDY_REPORT, .cause = cause};
	snprintf(a.rule, sizeof a.rule, "%s", rule);
	return a;
}

static bool gives_back(enum remedy r)
{
	return r == REMEDY_REQUEUE || r == REMEDY_RETRY;
}

/* What the watch says, before any limit. */
static struct answer by_watch(const struct combination *c)
{
	char rule[24];
	/* Nothing but a rule that names them acts on a stalled job, or on one that waits. */
	bool named = (c->verdict == VERDICT_STALLED && c->list->speaks == stalled_else_rest) ||
	             (c->verdict == VERDICT_UNSTARTED && c->list->speaks == unstarted_else_rest);
	if (verdict_has(c->verdict, VERDICT_NAMED) && !named)
		return answer(REMEDY_REPORT, "no-rule", NULL);
	if (c->list->n == 0 && c->list->cannot_requeue)
		return answer(REMEDY_REPORT, "no-rule", NULL);
	if (c->list->n == 0 && c->attempts == EXHAUSTED)
		return answer(REMEDY_HOLD, "attempts-exhausted", "attempts");
	if (c->list->n == 0)
		return answer(REMEDY_REQUEUE, "attempts-left", NULL);
	int speaks = c->list->speaks(c);
	if (!speaks)
		return answer(REMEDY_REPORT, "no-rule", NULL);
	snprintf(rule, sizeof rule, "rule-%d", speaks);
	return answer(c->list->rules[speaks - 1].remedy, rule, "rule");
}

/* The budget counts if it was configured, or if attempts do not limit. */
static bool budget_counts(const struct combination *c)
{
	bool bounded =
		(c->attempts == LEFT || c->attempts == EXHAUSTED) && !c->list->gives_back_the_exhausted;
	return c->ledger && (c->budget == BUDGET_GIVEN || (c->budget == BUDGET_STANDARD && !bounded));
}

/* Holds are in our tables unless the user's table records them; so are waiting retries. */
static bool needs_our_tables(const struct combination *c, enum remedy r)
{
	return (r == REMEDY_HOLD && !c->own_hold) || (r == REMEDY_RETRY && c->two_phases);
}

static struct answer due(const struct combination *c)
{
	bool by_hand = c->by_hand != NO_ONE;
	struct answer a = by_hand   ? answer(c->by_hand, "chosen-by-hand", "by hand")
	                  : c->held ? answer(REMEDY_HOLD, "already-held", NULL)
	                            : by_watch(c);
	if (c->held && !by_hand)
		a.act = false;
	/* A job that nobody started has killed no worker. */
	if (!by_hand && c->verdict != VERDICT_UNSTARTED && gives_back(a.remedy) && budget_counts(c) &&
	    crash_number(c) >= BUDGET)
		a = answer(REMEDY_HOLD, "crash-budget", "poison");
	/* A job that an operator released is requeued if possible, whatever would hold it. */
	if (!by_hand && !c->held && a.remedy == REMEDY_HOLD && c->released)
		a = answer(!c->list->cannot_requeue ? REMEDY_REQUEUE
		           : c->retries             ? REMEDY_RETRY
		                                    : REMEDY_REPORT,
		           "released-by-hand", NULL);
	if (a.act && !c->ledger && needs_our_tables(c, a.remedy))
		a = answer(REMEDY_REPORT, "no-ledger", NULL);
	a.exhausted =
		a.act && !by_hand && !gives_back(a.remedy) && c->attempts == EXHAUSTED && c->retries;
	return a;
}

/* ---- the same as facts and a watch ---- */

static struct watch watch_of(const struct combination *c)
{
	struct watch w = {.name = "w", .nrules = c->list->n};
	w.rules = (struct rule *)c->list->rules;
	w.crash_budget = (struct crash_budget){.max = c->budget == BUDGET_OFF ? 0 : BUDGET,
	                                       .given = c->budget != BUDGET_STANDARD};
	for (int r = 0; r < REMEDY_COUNT; r++)
		w.actions[r].form = ACTION_SET;
	if (c->list->cannot_requeue)
		w.actions[REMEDY_REQUEUE].form = ACTION_NONE;
	if (!c->retries)
		w.actions[REMEDY_RETRY].form = ACTION_NONE;
	if (!c->own_hold)
		w.actions[REMEDY_HOLD].form = ACTION_NONE;
	if (c->two_phases)
		w.actions[ACT_THEN].form = ACTION_SET;
	if (c->attempts != NOT_COUNTED) {
		w.attempts.text = "attempts";
		w.max_attempts.text = "3";
	}
	return w;
}

static struct facts facts_of(const struct combination *c)
{
	static const int64_t made[] = {[LEFT] = 2, [EXHAUSTED] = 3};
	struct facts f = {.running = true, .owner_alive = KNOWN_NOT, .kind = "crawl"};
	f.has_attempts = c->attempts == LEFT || c->attempts == EXHAUSTED;
	f.has_max_attempts = c->attempts != NOT_COUNTED;
	f.attempts = f.has_attempts ? made[c->attempts] : 0;
	f.max_attempts = 3;
	f.crashes = c->crashes;
	f.mass = c->mass;
	f.hold = c->held ? HOLD_STATE_WATCH : HOLD_STATE_NONE;
	f.released = c->released;
	f.when = c->condition ? 1U : 0;
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
	static const int64_t crashes[] = {0, BUDGET - 2, BUDGET - 1, BUDGET};
	bool *const flags[] = {&out->mass,     &out->condition,  &out->ledger,  &out->held,
	                       &out->own_hold, &out->two_phases, &out->retries, &out->released};
	unsigned rest = i;
	out->list = &lists[pick(&rest, LISTS)];
	out->verdict = (enum verdict)(VERDICT_DEAD + pick(&rest, VERDICT_COUNT - VERDICT_DEAD));
	out->attempts = (enum attempts)pick(&rest, ATTEMPTS);
	out->crashes = crashes[pick(&rest, 4)];
	out->by_hand = (enum remedy)pick(&rest, REMEDY_COUNT + 1);
	out->budget = (enum budget)pick(&rest, BUDGETS);
	for (size_t k = 0; k < FLAGS; k++)
		*flags[k] = pick(&rest, 2);
	return rest == 0;
}

static struct decision decide_on(const struct combination *c)
{
	struct watch w = watch_of(c);
	struct facts f = facts_of(c);
	struct judgement j = {.verdict = c->verdict, .waited = c->verdict == VERDICT_UNSTARTED};
	struct decide_options o = {.ledger = c->ledger, .forced = c->by_hand != NO_ONE};
	o.remedy = o.forced ? c->by_hand : REMEDY_REQUEUE;
	return decide(&w, &f, &j, &o);
}

static void say(const struct combination *c)
{
	print_error("list %d, %s, attempts %d, %lld crashes before, mass %d, condition %d, ledger %d, "
	            "held %d, by hand %d, budget %d, own hold %d, two phases %d, retries %d\n",
	            (int)(c->list - lists), verdict_names[c->verdict], c->attempts,
	            (long long)c->crashes, c->mass, c->condition, c->ledger, c->held, c->by_hand,
	            c->budget, c->own_hold, c->two_phases, c->retries);
}

static void is_the_answer_due(const struct combination *c, const struct decision *d)
{
	struct answer a = due(c);
	bool same = text_eq(d->rule, a.rule) && d->remedy == a.remedy && d->act == a.act &&
	            d->exhausted == a.exhausted && d->why != NULL;
	if (d->remedy == REMEDY_HOLD && d->act)
		same = same && text_eq(d->cause, a.cause);
	if (!same) {
		say(c);
		fail_msg("%s by %s instead of %s by %s", remedy_names[d->remedy], d->rule,
		         remedy_names[a.remedy], a.rule);
	}
}

/* ---- what must hold for all of them ---- */

static const char *const own[] = {"already-held",       "chosen-by-hand",  "attempts-left",
                                  "attempts-exhausted", "crash-budget",    "no-rule",
                                  "no-ledger",          "released-by-hand"};
#define OWN (sizeof own / sizeof *own)

/* What was seen in any of them. */
struct seen {
	bool own[OWN], rules[LISTS][3];
	bool exhausted[REMEDY_COUNT]; /* RETRIES_EXHAUSTED beside this remedy */
};

static void names_one_rule(const struct combination *c, const struct decision *d, struct seen *seen)
{
	int known = 0;
	for (size_t k = 0; k < OWN; k++)
		if (text_eq(d->rule, own[k])) {
			seen->own[k] = true;
			known++;
		}
	if (text_starts(d->rule, "rule-")) {
		seen->rules[c->list - lists][d->rule[5] - '1'] = true;
		known++;
	}
	assert_int_equal(known, 1);
}

/* Without a limit nothing is requeued, unless the limits were switched off. */
static void is_bounded(const struct combination *c, const struct decision *d)
{
	bool unbounded = c->attempts == NOT_COUNTED || c->list->gives_back_the_exhausted;
	if (!gives_back(d->remedy) || c->by_hand != NO_ONE || !unbounded || c->budget == BUDGET_OFF)
		return;
	if (c->released) /* once: then its facts differ */
		return;
	if (c->verdict == VERDICT_UNSTARTED) /* once in late_after: its due_at must differ then */
		return;
	struct watch w = watch_of(c);
	struct decide_options o = {.ledger = c->ledger};
	/* Either this was counted and there is room, or a scan refuses to begin. */
	assert_true(c->ledger ? crash_number(c) < BUDGET : decide_can_loop(&w, &o));
}

static void was_all_seen(const struct seen *seen)
{
	const bool *with = seen->exhausted;
	for (size_t k = 0; k < OWN; k++)
		assert_true(seen->own[k]);
	for (size_t k = 0; k < LISTS; k++)
		for (int i = 0; i < lists[k].n; i++)
			assert_true(seen->rules[k][i] || text_eq(lists[k].rules[i].kind, "scrape"));
	/* Where RETRIES_EXHAUSTED accompanies an event, that event is an end, never another try. */
	assert_true(with[REMEDY_FAIL] && with[REMEDY_HOLD] && with[REMEDY_ROLLBACK]);
	assert_false(with[REMEDY_REQUEUE] || with[REMEDY_RETRY] || with[REMEDY_REPORT]);
}

/* In one pass: there are millions. */
static void every_combination_has_one_rule_and_its_remedy(void **state)
{
	struct seen seen = {0};
	struct combination c;
	unsigned tried = 0;
	(void)state;
	for (; combination(tried, &c); tried++) {
		struct decision d = decide_on(&c);
		is_the_answer_due(&c, &d);
		names_one_rule(&c, &d, &seen);
		is_bounded(&c, &d);
		/* A held job is left to an operator. */
		assert_false(c.held && c.by_hand == NO_ONE && d.act);
		if (d.exhausted)
			seen.exhausted[d.remedy] = true;
	}
	assert_int_equal(tried, LISTS * (VERDICT_COUNT - 1) * ATTEMPTS * 4 * (REMEDY_COUNT + 1) *
	                            BUDGETS * (1 << FLAGS));
	was_all_seen(&seen);
}

/* ---- what the ledger calls it ---- */

/* Programs that follow the ledger know these names. */
static void the_names_of_events_stay(void **state)
{
	static const struct {
		enum remedy remedy;
		const char *event;
	} names[] = {
		{REMEDY_REQUEUE, "REQUEUED"}, {REMEDY_RETRY, "RETRY_SCHEDULED"},
		{REMEDY_FAIL, "FAILED"},      {REMEDY_ROLLBACK, "ROLLBACK_STARTED"},
		{REMEDY_HOLD, "HELD"},        {REMEDY_REPORT, "ZOMBIE_DETECTED"},
	};
	const char *near;
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		assert_string_equal(act_event((int)names[i].remedy), names[i].event);
	assert_true(event_known("RETRIES_EXHAUSTED", &near));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_combination_has_one_rule_and_its_remedy),
		cmocka_unit_test(the_names_of_events_stay),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
