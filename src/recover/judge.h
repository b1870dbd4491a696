/*
 * judge.h: is this job stuck, and what speaks for it? Pure: facts in,
 * judgement out.
 */
#ifndef RECOVER_JUDGE_H
#define RECOVER_JUDGE_H

#include "recover/facts.h"

/* One line of the law. The id lands in the ledger, `why` in explanations. */
struct judge_rule {
	const char *id;
	enum verdict verdict;
	const char *why;
};

struct judgement {
	enum verdict verdict;
	const struct judge_rule *rule;
	enum sign sign; /* what was measured, where something was */
	bool measured;
	int64_t measured_us; /* silence, run time or time past the deadline */
	int64_t limit_us;    /* what it was compared with */
};

/* All rules, in the order in which they are tried; ends with id NULL. */
extern const struct judge_rule judge_rules[];

struct judgement judge(const struct watch *w, const struct facts *f);

#endif
