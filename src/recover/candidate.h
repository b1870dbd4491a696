/* SPDX-License-Identifier: Apache-2.0
 * candidate.h: one stuck job on its way through the pipeline look -> judge -> decide -> apply ->
 * report.
 */
#ifndef RECOVER_CANDIDATE_H
#define RECOVER_CANDIDATE_H

#include "guard/guard.h"
#include "ledger/retries.h"
#include "recover/decide.h"
#include "recover/refusal.h"

/* X(enum, name) */
#define OUTCOME_LIST(X)                                                                            \
	X(LEFT, "left")           /* dry run, or only reported */                                      \
	X(RECOVERED, "recovered") /* requeued, retried, failed or rolled back */                       \
	X(HELD, "held")           /* put on hold, or on hold already */                                \
	X(CHANGED, "changed")     /* no longer as judged: left alone */                                \
	X(LOCKED, "locked")       /* another transaction has the row: left alone */                    \
	X(REFUSED, "refused")     /* the database, or a guard, refused to write this row */            \
	X(MISSING, "missing")     /* there is no such row */                                           \
	X(GUARDED, "guarded")     /* a guard of the daemon holds it back for now */

enum outcome {
#define X(id, name) OUTCOME_##id,
	OUTCOME_LIST(X)
#undef X
		OUTCOME_COUNT
};
extern const char *const outcome_names[];
/* The outcome of a job to which the act was done. */
enum outcome act_outcome(int act);

/* In what the ledger keeps of a row: the hold that the act ended. */
#define BEFORE_HOLD ":hold"

struct candidate {
	struct facts facts;
	struct judgement judgement;
	struct decision decision;
	int does;             /* enum remedy or enum act: what to write */
	const char *event;    /* its event in the ledger; NULL: the act's own */
	const char *expected; /* JSON of columns that must be unchanged; NULL: only the facts decide */
	const char *undo;     /* of ACT_UNDO: JSON of the columns to restore */
	struct hold
		held_was;     /* a hold that the act ends, or that an undo restores; without job: none */
	const char *step; /* that an operator chose */
	int nknown;       /* steps that others finished, or that an operator declared finished */
	struct step_known *known;
	const char *reason;   /* as written into the row */
	const char *evidence; /* JSON */
	int64_t retry_us;     /* when a retry is due */
	enum outcome outcome;
	struct guard_answer guard; /* of a guarded job: which guard, until when */
	bool locked;               /* we hold its row lock (within apply) */
	bool written;              /* a SET list wrote its row (within apply) */
	bool after_known;   /* the write returned `after`, and that the row is no longer running */
	bool unknown;       /* the result of the write must be read (within apply) */
	bool held_since;    /* it was put on hold after the decision */
	bool late;          /* its retry is over: the old worker finished it after all */
	const char *barred; /* why later tries of this batch must not write it; NULL: they may */
	const char *before, *after;     /* JSON of what the ledger keeps of the row (kept_columns()) */
	int64_t blocker_pid, blocker_s; /* who holds the row, since when; 0: not known */
	enum refusal refused;           /* why an act left it alone, … */
	const char *refusal; /* … and the fact that belongs to it; NULL: it was not refused */
	const char *warning; /* of an operator's act: a side effect to report; or NULL */
};

#endif
