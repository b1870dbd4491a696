/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/decide.h"

#include "ledger/events.h"

#include <assert.h>

/* The default rules. */
static const struct {
	const char *id, *why;
} defaults[] = {
	{"already-held",
     "it is on hold for this owner and sign of life; only an operator can release it"},
	{"excused", "an operator excused it from this verdict, and what was judged has not changed"},
	{RULE_BY_HAND, "an operator chose this remedy"},
	{"attempts-left", "default: requeue while attempts are left"},
	{"attempts-exhausted", "default: hold when attempts are exhausted"},
	{"crash-budget", "it was recovered too often in too short a time: held as poison"},
	{"no-rule", "no rule of the watch matches: reported only"},
	{"released-by-hand", "an operator released it and it has not changed since: not held again"},
	{"no-ledger",
     "a hold, or a retry in two phases, needs the ledger, which is off: reported only"},
};
enum default_id { HELD, EXCUSED, BY_HAND, LEFT, EXHAUSTED, POISON, NO_RULE, RELEASED, NO_LEDGER };

static struct decision by_default(enum default_id id, enum remedy remedy)
{
	struct decision d = {.remedy = remedy, .why = defaults[id].why, .act = remedy != REMEDY_REPORT};
	snprintf(d.rule, sizeof d.rule, "%s", defaults[id].id);
	return d;
}

static bool exhausted(const struct facts *f)
{
	return f->has_attempts && f->has_max_attempts && f->attempts >= f->max_attempts;
}

/* A mass event, a restart, or a program that ended normally says nothing about the single job. */
int64_t decide_crashes(const struct facts *f)
{
	return f->crashes + (f->mass || f->restart || f->clean ? 0 : 1);
}

static bool matches(const struct rule *rule, int index, const struct facts *f,
                    const struct judgement *j)
{
	if (rule->verdict != VERDICT_NONE && rule->verdict != j->verdict)
		return false;
	if (rule->verdict == VERDICT_NONE && verdict_has(j->verdict, VERDICT_NAMED))
		return false;
	if (rule->kind && !text_eq(rule->kind, f->kind))
		return false;
	if (rule->state && !text_eq(rule->state, f->state))
		return false;
	if (rule->attempts != ATTEMPTS_ANY && (rule->attempts == ATTEMPTS_EXHAUSTED) != exhausted(f))
		return false;
	if (rule->crashes && decide_crashes(f) < rule->crashes)
		return false;
	return !rule->when.text || (f->when >> index & 1U);
}

static struct decision by_rules(const struct watch *w, const struct facts *f,
                                const struct judgement *j)
{
	if (w->nrules == 0) {
		if (w->actions[REMEDY_REQUEUE].form == ACTION_NONE ||
		    verdict_has(j->verdict, VERDICT_NAMED))
			return by_default(NO_RULE, REMEDY_REPORT);
		struct decision d =
			exhausted(f) ? by_default(EXHAUSTED, REMEDY_HOLD) : by_default(LEFT, REMEDY_REQUEUE);
		d.cause = "attempts";
		return d;
	}
	for (int i = 0; i < w->nrules; i++) {
		if (!matches(&w->rules[i], i, f, j))
			continue;
		struct decision d = {.remedy = w->rules[i].remedy,
		                     .why = "a rule of the watch",
		                     .act = w->rules[i].remedy != REMEDY_REPORT,
		                     .cause = "rule"};
		snprintf(d.rule, sizeof d.rule, "rule-%d", i + 1);
		return d;
	}
	return by_default(NO_RULE, REMEDY_REPORT);
}

static bool gives_back(enum remedy r)
{
	return act_has((int)r, ACT_RUNS_AGAIN);
}

/* A rule that matches every job without attempts left: the rules after it see only the others. */
static bool takes_all_exhausted(const struct rule *rule)
{
	return rule->attempts == ATTEMPTS_EXHAUSTED && rule->verdict == VERDICT_NONE && !rule->kind &&
	       !rule->state && !rule->crashes && !rule->when.text;
}

/* Whether a job that counts its attempts is requeued only while some are left. */
static bool attempts_bound(const struct watch *w)
{
	if (!watch_has_attempts(w))
		return false;
	for (int i = 0; i < w->nrules; i++) {
		if (gives_back(w->rules[i].remedy) && w->rules[i].attempts != ATTEMPTS_LEFT)
			return false;
		if (takes_all_exhausted(&w->rules[i]))
			return true;
	}
	return true;
}

/* The budget protects jobs without attempts; for others it counts only if it was configured. */
enum budget_of decide_budget(const struct watch *w)
{
	if (w->crash_budget.max <= 0)
		return BUDGET_OF_NONE;
	return w->crash_budget.given || !attempts_bound(w) ? BUDGET_OF_ALL : BUDGET_OF_UNCOUNTED;
}

/* A null limits nothing: adding one to it stays null. */
static bool budget_counts(const struct watch *w, const struct facts *f)
{
	enum budget_of of = decide_budget(w);
	return of == BUDGET_OF_ALL ||
	       (of == BUDGET_OF_UNCOUNTED && !(f->has_attempts && f->has_max_attempts));
}

bool decide_can_hold(const struct watch *w)
{
	bool can = w->nrules == 0 && w->actions[REMEDY_REQUEUE].form != ACTION_NONE &&
	           (watch_has_attempts(w) || decide_budget(w) != BUDGET_OF_NONE);
	for (int i = 0; i < w->nrules; i++)
		can = can || w->rules[i].remedy == REMEDY_HOLD ||
		      (gives_back(w->rules[i].remedy) && decide_budget(w) != BUDGET_OF_NONE);
	return can;
}

enum remedy decide_released(const struct watch *w)
{
	bool retries = w->actions[REMEDY_RETRY].form != ACTION_NONE;
	bool requeues = w->actions[REMEDY_REQUEUE].form != ACTION_NONE;
	return requeues ? REMEDY_REQUEUE : retries ? REMEDY_RETRY : REMEDY_REPORT;
}

struct decision decide(const struct watch *w, const struct facts *f, const struct judgement *j,
                       const struct decide_options *o)
{
	struct decision d;
	assert(j->verdict != VERDICT_NONE);
	if (o->forced) {
		d = by_default(BY_HAND, o->remedy);
		d.cause = HOLD_BY_HAND;
	} else if (hold_in_force(f->hold)) {
		d = by_default(HELD, REMEDY_HOLD);
		d.act = false;
	} else if (judged_excused(f, j)) {
		d = by_default(EXCUSED, REMEDY_REPORT);
		d.act = false;
	} else {
		d = by_rules(w, f, j);
		/* A job that nobody started has killed no worker. */
		if (gives_back(d.remedy) && o->ledger && budget_counts(w, f) && !j->waited &&
		    decide_crashes(f) >= w->crash_budget.max) {
			d = by_default(POISON, REMEDY_HOLD);
			d.cause = HOLD_POISON;
		}
		if (d.remedy == REMEDY_HOLD && f->released)
			d = by_default(RELEASED, decide_released(w));
	}
	if (d.act && !o->ledger && watch_act_is_stored(w, (int)d.remedy))
		d = by_default(NO_LEDGER, REMEDY_REPORT);
	d.exhausted = d.act && !o->forced && !gives_back(d.remedy) && exhausted(f) &&
	              w->actions[REMEDY_RETRY].form != ACTION_NONE;
	return d;
}

bool decide_can_loop(const struct watch *w, const struct decide_options *o)
{
	bool bounded = attempts_bound(w) || (o->ledger && decide_budget(w) == BUDGET_OF_ALL) ||
	               (w->crash_budget.given && w->crash_budget.max == 0);
	if (bounded || o->forced)
		return false;
	if (w->nrules == 0)
		return w->actions[REMEDY_REQUEUE].form != ACTION_NONE;
	for (int i = 0; i < w->nrules; i++)
		if (gives_back(w->rules[i].remedy))
			return true;
	return false;
}

bool facts_mass(const struct watch *w, const struct facts *facts, int n)
{
	const char *owners[MASS_OWNERS];
	int known = 0;
	/* Nobody had taken them. */
	if (n > 0 && facts[0].waiting)
		return false;
	if (!w->owner.text && n > MASS_ROWS)
		return true;
	for (int i = 0; i < n; i++) {
		bool seen = facts[i].owner == NULL;
		for (int k = 0; k < known && !seen; k++)
			seen = text_eq(owners[k], facts[i].owner);
		if (!seen && known == MASS_OWNERS)
			return true;
		if (!seen)
			owners[known++] = facts[i].owner;
	}
	return false;
}

/* By then any growing factor has reached its cap; attempts come from a table and may be huge. */
#define BACKOFF_STEPS_MAX 1000

int64_t backoff_us(const struct backoff *b, int64_t attempts, double chance)
{
	double wait = (double)b->base_us;
	for (int64_t i = 0; i < attempts && i < BACKOFF_STEPS_MAX && wait < (double)b->cap_us; i++)
		wait *= b->factor;
	if (wait > (double)b->cap_us)
		wait = (double)b->cap_us;
	return (int64_t)(b->jitter ? wait * chance : wait);
}
