/* SPDX-License-Identifier: Apache-2.0
 * decide.h: what to do about a stuck job. Pure: the watch's rules, the facts
 * and the judgement in, a remedy with the rule that chose it out.
 */
#ifndef RECOVER_DECIDE_H
#define RECOVER_DECIDE_H

#include "recover/judge.h"

struct decision {
	enum remedy remedy;
	char rule[24]; /* "rule-2" for the user's own, else the id of a default */
	const char *why;
	bool act;          /* false: nothing is to be written (report, already held) */
	const char *cause; /* of a hold: "attempts", "poison", "rule" */
	bool exhausted;    /* it was retried as often as it may be, and is not again */
};

struct decide_options {
	bool ledger; /* whether holds and crash budgets can be kept */
	bool forced; /* a person chose the remedy */
	enum remedy remedy;
};

struct decision decide(const struct watch *w, const struct facts *f, const struct judgement *j,
                       const struct decide_options *o);

/* What becomes of a job that would be held, had no person ended this hold: it is given back where
 * the watch says how, else only reported. */
enum remedy decide_released(const struct watch *w);
/* Whether automation can put a job of this watch on hold: by its rules, attempts or crash budget.
 */
bool decide_can_hold(const struct watch *w);
/* How often a job has been stuck within the crash budget's time, this one counted. */
int64_t decide_crashes(const struct facts *f);
/* Of which jobs recoveries count against the crash budget. */
enum budget_of { BUDGET_OF_NONE, BUDGET_OF_UNCOUNTED, BUDGET_OF_ALL };
/* Of all, of those alone whose attempts are null, or of none. */
enum budget_of decide_budget(const struct watch *w);
/* True when these rules could requeue a job for ever: nothing bounds it. */
bool decide_can_loop(const struct watch *w, const struct decide_options *o);
/* The wait before the next try, from the attempts made so far; `chance` in [0, 1). */
int64_t backoff_us(const struct backoff *b, int64_t attempts, double chance);

#endif
