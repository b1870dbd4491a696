/* SPDX-License-Identifier: Apache-2.0
 * scan.h: one pass of the pipeline over one watch. The one-shot command, the
 * daemon and a person's click all come through here.
 *
 * The room finds stuck jobs and recovers them. A pass binds the watch (bound.h), reads a page of
 * candidates (look.h), judges each by its facts (judge.h), decides what to do (decide.h), asks the
 * guard, and writes in batches: carry.h repeats what a broken session spoiled, apply.h is one
 * transaction. judge and decide are pure. Acts by hand (by_hand.h), undo, start-up and exits use
 * the same candidates and the same apply. Begin with scanner_pass() in scan.c.
 */
#ifndef RECOVER_SCAN_H
#define RECOVER_SCAN_H

#include "guard/doubt.h"
#include "recover/candidate.h"
#include "store/store.h"
#include "watch/settings.h"

#define PAGE_ROWS 10000 /* that one look reads */
/* In one look, more owners than these, or rows where nobody knows the owners, are a mass event. */
#define MASS_OWNERS 2
#define MASS_ROWS 10

struct scan_result {
	int64_t running;
	bool running_capped; /* there are at least so many */
	bool running_known;  /* they were counted */
	bool never_seen;     /* none is running, and nothing recorded says that one ever was */
	bool row_security;   /* then: it applies to this role */
	int64_t found;
	int64_t stuck; /* more than were found where there is a limit; ROWS_COUNT_MAX: or more */
	int64_t outcomes[OUTCOME_COUNT];
	int64_t held_before;    /* of those held: on hold already, so that nothing was done */
	int64_t oldest_sign_us; /* of those not: how old the oldest sign of life is */
	int64_t on_hold;        /* in the daemon: waiting for a person when the pass ended */
	int64_t retried;        /* retries whose wait was over */
	int64_t guarded[GUARD_COUNT];
	int64_t near_misses; /* suspects that beat again */
	int64_t now_us;      /* the database's clock when the pass began; 0: without a guard */
	int64_t left;        /* stuck rows behind those that pace let through, ROWS_COUNT_MAX at most */
	bool stopped;        /* go_on() said so */
	int64_t took_us;
	bool ledger;          /* was it written? */
	char ledger_off[256]; /* why not */
	bool ledger_made;
	char batch[64];         /* name of this scan in the ledger, "" when nothing was written */
	bool limited;           /* stopped at the limit */
	struct failure failure; /* code DEFIB_OK when all went well */
};

/* Called as outcomes become known; either may be NULL. */
struct scan_observer {
	void (*job)(void *ctx, const struct watch *w, const struct candidate *c);
	void (*progress)(void *ctx, const struct watch *w, const struct scan_result *r);
	void *ctx;
};

struct scan_options {
	bool fix;      /* false: a dry run, in read-only transactions */
	int64_t limit; /* of jobs found; 0: the watch's own */
	bool forced;   /* use `remedy` for every stuck job */
	enum remedy remedy;
	const char *reason; /* NULL: the watch's own */
	const char *actor;
	bool ledger_off;
	const char *owner; /* only jobs of this owner; then `running` is not counted */
	/* What delays a remedy; NULL: a one-shot scan believes one look. */
	struct guard *guard;
	struct absence *absence; /* over the database; goes with `guard` */
	bool override_guard;     /* a person goes past doubt, brake and second look */
	/* Asked between batches whether to go on, with the observer's ctx; NULL: always. */
	bool (*go_on)(void *ctx);
	bool mass;      /* the caller knows that many were lost at once: nobody's own fault */
	bool dead_only; /* only jobs whose worker is known to be gone, or is nobody: silence proves
	                   nothing now */
	struct scan_observer observer;
};

/*
 * A scanner keeps what a pass needs (types, statements, ledger) for the next
 * one. Session, watch and options must outlive it; options may change between
 * passes, except for `fix` and `ledger_off`.
 */
struct scanner;
struct scanner *scanner_new(struct session *session, const struct watch *w,
                            const struct scan_options *o);
/* One pass. The result says all, also what failed; returns result->failure.code. */
defib_err scanner_pass(struct scanner *p, struct scan_result *result);
/*
 * No pass: the guard only learns who is heard. For a watch that another daemon leads, so that
 * whoever takes over has seen the living alive.
 */
MUST_CHECK defib_err scanner_attend(struct scanner *p, struct failure *f);
/* The watch as its database was found; NULL: no pass came so far yet. */
const struct binding *scanner_binding(const struct scanner *p);
void scanner_free(struct scanner *p); /* NULL is allowed */

/* A single pass. */
defib_err scan_watch(struct session *session, const struct watch *w, const struct scan_options *o,
                     struct scan_result *result);

/*
 * Did many workers go at once? More than two owners in one look; where nobody
 * knows the owners, more rows than one worker is likely to leave behind.
 */
bool facts_mass(const struct watch *w, const struct facts *facts, int n);

/* Fill in what judge and decide say about a job, with its texts in the arena. */
void candidate_prepare(const struct watch *w, const struct facts *f, const struct judgement *j,
                       const struct scan_options *o, bool ledger, struct arena *a,
                       struct candidate *out);

/*
 * What judge and decide say of one job that was asked about, stuck or not.
 * One that is not stuck has no decision; only its facts, judgement and evidence are
 * filled in. `ledger`: there is one, or there will be.
 */
void judged_candidate(const struct watch *w, const struct facts *f, bool ledger, struct arena *a,
                      struct candidate *out);

#endif
