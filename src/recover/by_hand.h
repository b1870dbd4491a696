/* SPDX-License-Identifier: Apache-2.0
 * by_hand.h: what a person does to jobs, on the same guarded path as the
 * scan: the facts that the person saw are read again under the row's lock, and
 * what changed in between is left alone.
 *
 * A person may also act on jobs that are not stuck: a failed one is tried
 * again, a done one too. What nobody may do by accident is to take a job from
 * a worker that lives: that needs `override_guard`, and the ledger says so.
 */
#ifndef RECOVER_BY_HAND_H
#define RECOVER_BY_HAND_H

#include "recover/bound.h"
#include "recover/candidate.h"
#include "store/store.h"
#include "watch/settings.h"

struct by_hand_options {
	int act;            /* enum remedy, or ACT_RELEASE, ACT_CANCEL, ACT_END */
	const char *reason; /* a person's words; NULL: "by hand" */
	const char *actor;
	const char *step;    /* of a retry: where to begin; NULL: where it failed */
	bool dry_run;        /* nothing is written: outcomes are what would be done (LEFT) or why not */
	bool override_guard; /* also jobs whose worker lives */
	bool ledger_off;
	struct bound *bound; /* a ready one that the caller keeps; NULL: made for this call */
	/* Called for each job when its outcome is known; may be NULL. */
	void (*job)(void *ctx, const struct watch *w, const struct candidate *c);
	void *ctx;
};

struct by_hand_result {
	int64_t outcomes[OUTCOME_COUNT];
	bool ledger;
	char batch[64]; /* for `defib undo`; "" when nothing was written */
	struct failure failure;
};

/*
 * Do it to `n` jobs, named by their texts (facts.h): a key, or a JSON array of
 * its parts. Returns result->failure.code: what failed for the whole; what
 * concerns one job is its outcome, with `refusal` saying why.
 */
defib_err by_hand(struct session *session, const struct watch *w, const struct by_hand_options *o,
                  const char *const *jobs, int n, struct by_hand_result *result);

/*
 * Take remedies back: those of a batch ("20261115-084500-1a2b3c4d", or one part
 * of it with ".2"), or the latest one of a job. Where a job was claimed or
 * changed since, its outcome is CHANGED or REFUSED with the reason. What was
 * undone is put on hold, so that no scan does it again, until its owner or
 * sign of life changes or a person releases it.
 */
struct undo_options {
	const char *batch; /* or … */
	const char *job;   /* … of this watch */
	const char *reason, *actor;
	bool dry_run;
	void (*done)(void *ctx, const struct watch *w, const struct candidate *c);
	void *ctx;
};
defib_err undo(struct session *session, const struct watch *w, const struct undo_options *o,
               struct by_hand_result *result);

/* What became of a job that was to be ended. */
enum ending {
	ENDING_MARKED, /* `end` was written */
	ENDING_PAST,   /* `end_when` does not hold: it ends or has ended, and nothing was written */
	ENDING_MISSING,
	ENDING_LOCKED, /* another transaction has the row, for longer than we wait */
};
struct end_options {
	const char *job, *actor, *reason;
	bool ledger_off;
	struct bound *bound; /* as for by_hand() */
};
/*
 * End one job: whoever asks again, or at the same time, gets the same answer, and the
 * row is written once. DEFIB_CONFIG where the watch does not say how.
 */
MUST_CHECK defib_err end_job(struct session *session, const struct watch *w,
                             const struct end_options *o, enum ending *out, struct failure *f);

/* ---- what a person may do ---- */

/*
 * What a person may do to a job, as a table: its verb, what it writes, and how a
 * watch says how. Command line and HTTP offer the same acts under the same names.
 */

struct act_kind {
	const char *verb, *done; /* "requeue", "requeued" */
	int act;                 /* of by_hand_options */
	enum outcome good;       /* the outcome of a job to which it was done */
	const char *example;     /* of a SET list; NULL: needs none of the user's words */
};

/* By its verb; NULL: there is no such act. */
const struct act_kind *act_kind_named(const char *verb);
/*
 * Whether the watch says how, asked before anything else is: hold and release need no
 * words of the user's, and a retry can be a requeue. DEFIB_CONFIG with the line to add.
 */
MUST_CHECK defib_err act_configured(const struct act_kind *kind, const struct watch *w,
                                    struct failure *f);

#endif
