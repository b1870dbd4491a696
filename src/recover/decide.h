/* SPDX-License-Identifier: Apache-2.0
 * decide.h: is this job stuck, by which evidence (judge.c), and what to do about it (decide.c).
 * Pure: judge() takes the watch and the facts, decide() also the judgement, and returns a remedy
 * with the rule that chose it.
 */
#ifndef RECOVER_DECIDE_H
#define RECOVER_DECIDE_H

#include "watch/facts.h"

struct decision {
	enum remedy remedy;
	char rule[24]; /* "rule-2" for a user's rule, else the id of a default */
	const char *why;
	bool act;          /* false: write nothing (report, already held) */
	const char *cause; /* of a hold: "attempts", "poison", "rule" */
	bool exhausted;    /* it used all its retries and gets no more */
};

struct decide_options {
	bool ledger; /* whether holds and crash budgets can be stored */
	bool forced; /* an operator chose the remedy */
	enum remedy remedy;
};

struct decision decide(const struct watch *w, const struct facts *f, const struct judgement *j,
                       const struct decide_options *o);

/*
 * The remedy for a job that would be held, had an operator not released it from this hold: requeued
 * if the watch defines that, else only reported.
 */
enum remedy decide_released(const struct watch *w);
/* Whether a scan can put a job of this watch on hold: by its rules, attempts or crash budget. */
bool decide_can_hold(const struct watch *w);
/* How often a job was stuck within the crash budget's time, including now. */
int64_t decide_crashes(const struct facts *f);
/* For which jobs recoveries count against the crash budget. */
enum budget_of { BUDGET_OF_NONE, BUDGET_OF_UNCOUNTED, BUDGET_OF_ALL };
/* For all jobs, only for those whose attempts are null, or for none. */
enum budget_of decide_budget(const struct watch *w);
/* True if these rules could requeue a job forever. */
bool decide_can_loop(const struct watch *w, const struct decide_options *o);
/*
 * Did many workers disappear at once? More owners than MASS_OWNERS in one look; if the owners are
 * unknown, more rows than one worker is likely to leave behind. Such crashes count against no job.
 */
#define MASS_OWNERS 2
#define MASS_ROWS 10
bool facts_mass(const struct watch *w, const struct facts *facts, int n);
/* The wait before the next try, from the number of attempts so far; `chance` in [0, 1). */
int64_t backoff_us(const struct backoff *b, int64_t attempts, double chance);

#endif
