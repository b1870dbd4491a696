/* SPDX-License-Identifier: Apache-2.0
 * refusal.h: why an operator's act left a job alone, as a code and a fact. What the operator can do
 * about it depends on how he called: view/refusal.h says that.
 */
#ifndef RECOVER_REFUSAL_H
#define RECOVER_REFUSAL_H

#include "base/text.h"

/* X(enum, sentence with the fact). The first is complete: the database's message, for example. */
/* clang-format off */
#define REFUSAL_LIST(X) \
	X(AS_GIVEN, "%s") \
	X(LIVES, "it is running and not stuck: %s") \
	X(NOT_RUNNING, "it is no longer running") \
	X(MAY_BE_CLAIMED, \
	  "it may have been claimed again: it gave a sign of life since, or none is known") \
	X(NOT_HELD, "it is not on hold") \
	X(NOT_STUCK, "it is not stuck, so there is nothing to excuse: %s") \
	X(ON_HOLD, "it is on hold, and so is left alone already") \
	X(EXCUSE, "an excuse changes nothing that an undo could revert") \
	X(NO_STEP, "it has no step of that name") \
	X(NO_STEP_OF_WORKFLOW, "its workflow has no step of that name") \
	X(STEPS_UNKNOWN, "it is unknown which steps of workflow %s another worker has finished, and " \
	                 "they must not run again") \
	X(STEPS_AGAIN, "another worker has finished %s: it would run again and overwrite its output") \
	X(CANCEL_WHEN, "it is %s: cancel_when does not hold") \
	X(CHANGED_SINCE, "%s") \
	X(CLAIMED_SINCE, "claimed since then: its epoch is %s") \
	X(UNDONE_ALREADY, "it was already undone") \
	X(HOLD_UNDONE_ALREADY, "its hold was already undone") \
	X(ALSO_RAN, "your own statements (also:) ran with it, which defib cannot undo") \
	X(OWN_STATEMENTS, "your own statements (sql:, call:) or a release did it, which defib cannot " \
	                  "undo") \
	X(ENTRY_OF_ROLE, "its entry was added by %s")
/* clang-format on */

enum refusal {
#define X(id, sentence) REFUSAL_##id,
	REFUSAL_LIST(X)
#undef X
		REFUSAL_COUNT
};

struct candidate;
/* The job was not acted on; `fact` lives as long as the candidate, NULL if the code needs none. */
void refuse_job(struct candidate *c, enum refusal why, const char *fact);
/* "it is not on hold"; "" if it was not refused. */
void refusal_sentence(const struct candidate *c, struct buf *out);

#endif
