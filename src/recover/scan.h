/* SPDX-License-Identifier: Apache-2.0
 * scan.h: one pass of the pipeline over one watch. The one-shot command, the daemon and the API all
 * use it.
 *
 * The room finds stuck jobs and recovers them. A pass binds the watch (bound.h), reads a page of
 * candidates (look.h), judges each by its facts and decides what to do (decide.h), asks the
 * guard, and writes in batches: carry.h retries after a lost session, apply.h is one transaction.
 * judge and decide are pure. Acts by hand (by_hand.h), undo, start-up and exits use the same
 * candidates and the same apply. Begin with scanner_pass() in scan.c.
 */
#ifndef RECOVER_SCAN_H
#define RECOVER_SCAN_H

#include "recover/candidate.h"
#include "recover/late.h"
#include "watch/settings.h"

#define PAGE_ROWS 10000 /* read by one look */

struct scan_result {
	int64_t running;
	bool running_capped; /* the real number is at least this */
	bool running_known;  /* they were counted */
	bool never_seen;     /* none is running, and no record says that one ever was */
	bool row_security;   /* then: row-level security applies to this role */
	int64_t found;
	int64_t
		excused;   /* stuck but for an operator's word: not among the found; those that were seen */
	int64_t stuck; /* more than found if there is a limit; ROWS_COUNT_MAX: that many or more */
	int64_t goal;  /* so many are expected to be found; 0: not known */
	int64_t outcomes[OUTCOME_COUNT];
	int64_t held_before;    /* of those held: already on hold, so that nothing was done */
	int64_t oldest_sign_us; /* of those not: age of the oldest sign of life */
	int64_t on_hold;        /* in the daemon: waiting for an operator when the pass ended */
	int64_t retried;        /* retries whose wait was over */
	int64_t guarded[GUARD_COUNT];
	int64_t near_misses; /* suspects that were heard again */
	int64_t now_us;      /* the database's clock when the pass began; 0: without a guard */
	int64_t left;        /* stuck rows beyond those that pace let through, at most ROWS_COUNT_MAX */
	bool stopped;        /* because go_on() returned false */
	int64_t took_us;
	bool ledger;          /* whether it was written */
	char ledger_off[256]; /* why not */
	enum failure_advice ledger_advice;
	bool ledger_made;
	char batch[64]; /* name of this scan in the ledger, "" when nothing was written */
	bool limited;   /* stopped at the limit */
	struct seen_result {
		bool asked;         /* the watch measures since when a value has been the same … */
		bool first;         /* … and this was the first look */
		bool off;           /* … and nothing is remembered */
		char why[256];      /* why it cannot be, "": nobody wrote it yet */
		bool bounded;       /* more jobs than can be remembered are running */
		int64_t remembered; /* values that are remembered */
	} seen;
	struct waiting_result waiting;
	struct failure failure; /* code DEFIB_OK if all went well */
};

/* Called as outcomes become known; either may be NULL. */
struct scan_observer {
	void (*job)(void *ctx, const struct watch *w, const struct candidate *c);
	void (*progress)(void *ctx, const struct watch *w, const struct scan_result *r);
	void *ctx;
};

struct scan_options {
	bool fix;      /* false: a dry run, in read-only transactions */
	int64_t limit; /* on jobs found; 0: the watch's own */
	bool forced;   /* use `remedy` for every stuck job */
	enum remedy remedy;
	const char *reason; /* NULL: the watch's own */
	const char *actor;
	bool ledger_off;
	const char *owner; /* only jobs of this owner; then `running` is not counted */
	/* What delays a remedy; NULL: a one-shot scan, which acts after one look. */
	struct guard *guard;
	struct absence *absence; /* from the database; used with `guard` */
	/* With `guard`: what earlier looks saw of rows that wait; NULL: they are not looked at. */
	struct starts_memory *starts;
	bool expects;        /* find out `goal` first, for an observer that shows progress */
	bool override_guard; /* an operator overrides doubt, brake and second look */
	/* Asked between batches whether to go on, with the observer's ctx; NULL: always. */
	bool (*go_on)(void *ctx);
	bool mass;      /* the caller knows that many workers were lost at once: not the jobs' fault */
	bool dead_only; /* only jobs without a worker or whose worker is known to be gone: silence
	                   proves nothing now */
	struct scan_observer observer;
};

/*
 * A scanner keeps what a pass needs (types, statements, ledger) for the next pass. Session, watch
 * and options must outlive it; options may change between passes, except for `fix` and
 * `ledger_off`.
 */
struct scanner;
struct scanner *scanner_new(struct session *session, const struct watch *w,
                            const struct scan_options *o);
/* One pass. The result holds everything, including what failed; returns result->failure.code. */
defib_err scanner_pass(struct scanner *p, struct scan_result *result);
/*
 * Not a pass: only updates the guard with the owners that are heard. For a watch that another
 * daemon leads, so that this one knows the live owners if it takes over.
 */
MUST_CHECK defib_err scanner_attend(struct scanner *p, struct failure *f);
/* The watch as bound to its database; NULL: no pass got that far yet. */
const struct binding *scanner_binding(const struct scanner *p);
void scanner_free(struct scanner *p); /* NULL is allowed */

/* A single pass. */
defib_err scan_watch(struct session *session, const struct watch *w, const struct scan_options *o,
                     struct scan_result *result);

/* Fill in the judgement and decision for a job, with its texts in the arena. */
void candidate_prepare(const struct watch *w, const struct facts *f, const struct judgement *j,
                       const struct scan_options *o, bool ledger, struct arena *a,
                       struct candidate *out);

/*
 * The judgement and decision for one specific job, stuck or not. A job that is not stuck has no
 * decision; only its facts, judgement and evidence are filled in. `ledger`: it exists, or will be
 * created.
 */
void judged_candidate(const struct watch *w, const struct facts *f, bool ledger, struct arena *a,
                      struct candidate *out);

#endif
