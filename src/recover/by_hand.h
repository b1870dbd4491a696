/* SPDX-License-Identifier: Apache-2.0
 * by_hand.h: what an operator does to jobs, on the same guarded path as the scan: the facts that
 * the operator saw are read again under the row's lock, and jobs that changed in between are left
 * alone.
 *
 * An operator may also act on jobs that are not stuck: retry a failed job, or run a finished one
 * again. Taking a job from a live worker requires `override_guard`, and the ledger records that.
 */
#ifndef RECOVER_BY_HAND_H
#define RECOVER_BY_HAND_H

#include "recover/bound.h"
#include "recover/candidate.h"

struct by_hand_options {
	int act;            /* enum remedy, or ACT_RELEASE, ACT_CANCEL, ACT_END */
	const char *reason; /* in the operator's words; NULL: "by hand" */
	const char *actor;
	const char *step;    /* of a retry: the step to begin with; NULL: where it failed */
	bool dry_run;        /* write nothing: outcomes are what would be done (LEFT) or why not */
	bool override_guard; /* also jobs of live workers */
	bool running_only;   /* not jobs that have ended or wait: the caller had it, and may be late */
	int64_t quiet_us;    /* not jobs that gave a sign of life within this time, or none; 0: any */
	bool ledger_off;
	struct bound *bound; /* a prepared one that the caller keeps; NULL: prepared for this call */
	const char *batch;   /* continue this one, after so many transactions; NULL: a new one */
	int parts;
	/* Called for each job when its outcome is known; may be NULL. */
	void (*job)(void *ctx, const struct watch *w, const struct candidate *c);
	void *ctx;
};

struct by_hand_result {
	int64_t outcomes[OUTCOME_COUNT];
	bool ledger;
	char batch[64]; /* for `defib undo`; "" when nothing was written */
	int parts;      /* transactions of the batch so far */
	struct failure failure;
};

/*
 * Act on `n` jobs, named by their texts (facts.h): a key, or a JSON array of its parts. Returns
 * result->failure.code, which is about the whole call. A problem with one job is its outcome, with
 * the reason in `refused` and `refusal`.
 */
defib_err by_hand(struct session *session, const struct watch *w, const struct by_hand_options *o,
                  const char *const *jobs, int n, struct by_hand_result *result);

/* The result of ending a job. */
enum ending {
	ENDING_MARKED, /* `end` was written */
	ENDING_PAST, /* `end_when` is false: the job is ending or has ended, and nothing was written */
	ENDING_MISSING,
	ENDING_LOCKED, /* another transaction held the row for longer than we wait */
};
struct end_options {
	const char *job, *actor, *reason;
	bool ledger_off;
	struct bound *bound; /* as for by_hand() */
};
/*
 * End one job. Repeated and concurrent requests get the same answer, and the row is written once.
 * DEFIB_CONFIG if the watch does not define `end`.
 */
MUST_CHECK defib_err end_job(struct session *session, const struct watch *w,
                             const struct end_options *o, enum ending *out, struct failure *f);

/* ---- what an operator may do ---- */

/*
 * Whether the watch defines the act, checked before anything else: hold and release need no
 * configuration, and a retry can be a requeue. DEFIB_CONFIG with the line to add.
 */
MUST_CHECK defib_err act_configured(const struct act_kind *kind, const struct watch *w,
                                    struct failure *f);

#endif
