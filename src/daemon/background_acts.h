/* SPDX-License-Identifier: Apache-2.0
 * background_acts.h: carries out acts on all jobs that match some terms (ledger/background.h).
 *
 * The process that orders an act counts the matching jobs and notes the last of them by key. The
 * daemon that leads the watch then goes through the matching jobs in key order up to that one: so
 * each job is handled once, whatever the act does to it, and jobs that are created later are left
 * alone. It writes by by_hand(), a batch at a time, as fast as the watch's pace allows, and stores
 * after each batch how far it came. A batch that was committed before a crash, and not yet noted,
 * is found in the ledger.
 */
#ifndef DAEMON_BACKGROUND_ACTS_H
#define DAEMON_BACKGROUND_ACTS_H

#include "ledger/background.h"
#include "recover/by_hand.h"
#include "watch/terms.h"

struct database_loop;

/* ---- ordering one ---- */

#define BACKGROUND_COUNTED_MOST 100000 /* matching jobs that are counted */

struct background_order {
	const struct act_kind *kind;
	const char *const *texts; /* of the terms, as given … */
	const struct term *terms; /* … and as they were understood */
	int nterms;
	const char *step, *reason, *actor;
	bool overrides;
};
/*
 * Count what matches; background_add() then stores `out`, which is in the arena. DEFIB_REFUSED or
 * DEFIB_PERMISSION without a ledger or defib's own tables: it could not be undone or continued.
 */
MUST_CHECK defib_err background_plan(struct session *session, const struct bound *bound,
                                     const struct watch *w, const struct background_order *o,
                                     struct arena *a, struct background_act *out,
                                     struct failure *f);

/* ---- carrying them out ---- */

/* Of a database loop. */
struct background_acts {
	int64_t due_ms; /* when to look for acts next: CLOCK_BOOTTIME */
	int64_t opened; /* the session in which the table was looked for */
	bool there;     /* it can be used */
	char id[64];    /* the act whose batches this process noted last */
	bool written;   /* an earlier process wrote some of them, and may not have noted the last */
};

/* A turn of at most a quarter of a second, with the oldest act that can go on. Fails only if the
 * database is unavailable. */
MUST_CHECK defib_err background_acts_turn(struct database_loop *s, struct failure *f);

#endif
