/* SPDX-License-Identifier: Apache-2.0
 * candidate.h: one stuck job on its way through the pipeline
 * look -> judge -> decide -> apply -> tell.
 */
#ifndef RECOVER_CANDIDATE_H
#define RECOVER_CANDIDATE_H

#include "guard/guard.h"
#include "ledger/retries.h"
#include "recover/decide.h"

/* X(enum, name) */
#define OUTCOME_LIST(X)                                                                            \
	X(LEFT, "left")           /* dry run, or only reported */                                      \
	X(RECOVERED, "recovered") /* requeued, retried, failed or rolled back */                       \
	X(HELD, "held")           /* put on hold, or on hold already */                                \
	X(CHANGED, "changed")     /* no longer as it was judged: left alone */                         \
	X(LOCKED, "locked")       /* another transaction has the row: left alone */                    \
	X(REFUSED, "refused")     /* the database, or a guard, refused to write this row */            \
	X(MISSING, "missing")     /* there is no such row */                                           \
	X(GUARDED, "guarded")     /* a guard of the daemon holds it for now */

enum outcome {
#define X(id, name) OUTCOME_##id,
	OUTCOME_LIST(X)
#undef X
		OUTCOME_COUNT
};
extern const char *const outcome_names[];

struct candidate {
	struct facts facts;
	struct judgement judgement;
	struct decision decision;
	int does;             /* enum remedy or enum act: what is to be written */
	const char *event;    /* what the ledger calls it; NULL: as the act */
	const char *expected; /* JSON of columns that must still be so; NULL: facts alone decide */
	const char *undo;     /* of ACT_UNDO: JSON of the columns to put back */
	const char *step;     /* that a person chose */
	int nknown;           /* steps that others finished, or that a person says are */
	struct step_known *known;
	const char *reason;   /* as written into the row */
	const char *evidence; /* JSON */
	int64_t retry_us;     /* when a retry is due */
	enum outcome outcome;
	struct guard_answer guard;      /* of a guarded one: which guard, until when */
	bool locked;                    /* we hold its row lock (within apply) */
	bool written;                   /* a SET list wrote its row (within apply) */
	bool after_known;               /* the write returned `after`, and that it runs no more */
	bool unknown;                   /* what was left must be read (within apply) */
	bool held_since;                /* it was put on hold after it was decided about */
	const char *barred;             /* why no further try of this batch may write it; NULL: none */
	const char *before, *after;     /* JSON of what the ledger keeps of the row (kept_columns()) */
	int64_t blocker_pid, blocker_s; /* who has the row, since when; 0: not known */
	const char *refusal;            /* what the database said */
	const char *warning;            /* of what a person does: what else comes of it; or NULL */
};

#endif
