/* SPDX-License-Identifier: Apache-2.0
 * causes.h: why a job is on hold. The names stand in defib.hold, in the API and in what people
 * filter by; the words say it to a person.
 */
#ifndef LEDGER_CAUSES_H
#define LEDGER_CAUSES_H

/* X(enum, name, words) */
#define HOLD_CAUSE_LIST(X)                                                                         \
	X(BY_HAND, "by hand", "an operator holds it")                                                  \
	X(UNDONE, "undone", "an operator undid its recovery")                                          \
	X(POISON, "poison",                                                                            \
	  "it was recovered too often in too short a time, and may kill its workers")                  \
	X(ATTEMPTS, "attempts", "it has no attempts left")                                             \
	X(RULE, "rule", "a rule of the watch holds it")                                                \
	X(STEPS, "steps", "it is unknown which steps of its workflow have finished")                   \
	X(STARTUP, "startup", "a worker or daemon held it when it started")

/* Names alone, for statements and comparisons. */
#define HOLD_BY_HAND "by hand"
#define HOLD_UNDONE "undone"
#define HOLD_POISON "poison"
#define HOLD_STEPS "steps"

/* What it means, in words; a cause that is not known means itself, none that a person holds it. */
const char *hold_cause_words(const char *cause);
/* Whether a person made such a hold. */
_Bool hold_by_person(const char *cause);

#endif
