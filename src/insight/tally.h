/* SPDX-License-Identifier: Apache-2.0
 * tally.h: the numbers of one watch: rows by state, what is stuck now, what is
 * held or pending, what was recovered lately, and how long jobs take.
 *
 * Each number is asked for by itself: one that takes too long is missing and
 * says so, and the others still come. For who does not wait, rows of a large table
 * are counted in a sample, and the numbers are called estimated; what is stuck is
 * always counted, up to a bound.
 */
#ifndef INSIGHT_TALLY_H
#define INSIGHT_TALLY_H

#include "ledger/counts.h"
#include "watch/compile.h"

struct tally_count {
	const char *name; /* NULL: null */
	int64_t n;
};

/* What the ledger has of an event, lately. */
struct tally_event {
	const char *name;
	int64_t day, week; /* the last 24 hours, the last 7 days */
};

enum tally_how { TALLY_ALL, TALLY_QUICK };

struct tally {
	bool estimated; /* states and ends: told by a sample */
	int nstates;
	struct tally_count *states; /* as they stand in the rows */
	struct failure states_failed;
	int64_t running;
	bool running_capped; /* there are at least so many */
	int64_t stuck_total; /* counted by the database, those on hold included */
	bool total_capped;   /* there are at least so many */
	int64_t stuck[VERDICT_COUNT];
	bool stuck_capped; /* by verdict: of those that were judged, which is not all */
	struct failure stuck_failed;
	int64_t held, held_running; /* of the held: still running, and so among the stuck */
	int64_t retries;            /* pending */
	int nevents;
	struct tally_event *events;
	/* What they count as, by events.h; `recovered` includes what persons did, which is also apart.
	 */
	struct tally_event detected, recovered, recovered_by_hand, put_on_hold, rolled_back;
	struct tally_event late;  /* reported by a worker that had lost the job */
	struct mistakes mistakes; /* of what was not recovered by hand */
	struct failure ledger_failed;
	bool has_ends, has_failed, has_completed, has_duration;
	int64_t failed, completed, measured, average_us, p95_us;
	struct failure ends_failed;
};

/* Returns the class of what failed for the whole: a lost session. */
MUST_CHECK defib_err tally_watch(struct store *s, const struct watch_sql *q, const struct ledger *l,
                                 enum tally_how how, struct arena *a, struct tally *out,
                                 struct failure *f);

#endif
