/* SPDX-License-Identifier: Apache-2.0
 * tally.h: the numbers of one watch: rows by state, what is stuck now, what is held or pending,
 * what was recovered recently, and how long jobs take.
 *
 * Each number is read separately: one that takes too long is left out and marked, and the others
 * are still returned. For callers that cannot wait, rows of a large table are counted from a
 * sample, and the numbers are marked as estimated; stuck jobs are always counted, up to a limit.
 */
#ifndef INSIGHT_TALLY_H
#define INSIGHT_TALLY_H

#include "ledger/counts.h"
#include "watch/compile.h"

struct tally_count {
	const char *name; /* NULL: null */
	int64_t n;
	bool estimated; /* from a sample */
};

/* Recent ledger entries of an event. */
struct tally_event {
	const char *name;
	int64_t day, week; /* the last 24 hours, the last 7 days */
};

/* Jobs that wait for a worker, not for their time. */
struct waiting {
	bool known; /* the watch says which (stats.ready, work.ready) */
	int64_t n;
	bool capped; /* there are at least this many */
	bool has_oldest;
	int64_t oldest_us; /* age of the oldest of them */
};
/* One indexed count, up to DEPTH_COUNT_MAX. */
MUST_CHECK defib_err waiting_count(struct store *s, const struct watch_sql *q, struct arena *a,
                                   struct waiting *out, struct failure *f);

/* QUICK: large tables from a sample. BRIEF: only what indexes find, neither states nor ends. */
enum tally_how { TALLY_ALL, TALLY_QUICK, TALLY_BRIEF };

struct tally {
	enum tally_how how;
	bool ledger;    /* there is one to count in */
	bool estimated; /* states and ends: from a sample */
	int nstates;
	struct tally_count *states; /* as stored in the rows */
	struct failure states_failed;
	struct waiting waiting;
	struct failure waiting_failed;
	int64_t running;
	bool running_capped; /* the real number is at least this */
	int64_t stuck_total; /* counted by the database, including those on hold */
	bool total_capped;   /* the real number is at least this */
	int64_t stuck[VERDICT_COUNT];
	bool stuck_capped; /* by verdict: only of those that were judged, which is not all */
	struct failure stuck_failed;
	int64_t held, held_running; /* of the held: still running, and so counted as stuck */
	int64_t excused;            /* by an operator: not counted as stuck */
	int64_t retries;            /* pending */
	int nevents;
	struct tally_event *events;
	/*
	 * What they count as, by events.h; `recovered` includes operators' acts, which are also listed
	 * separately.
	 */
	struct tally_event detected, recovered, recovered_by_hand, put_on_hold, rolled_back;
	struct tally_event late;  /* reported by a worker that had lost the job */
	struct mistakes mistakes; /* of those not recovered by hand */
	struct failure ledger_failed;
	bool has_ends, has_failed, has_completed, has_duration;
	int64_t failed, completed, measured, average_us, p95_us;
	struct failure ends_failed;
};

/* Returns an error only if the whole call failed: a lost session. */
MUST_CHECK defib_err tally_watch(struct store *s, const struct watch_sql *q, const struct ledger *l,
                                 enum tally_how how, struct arena *a, struct tally *out,
                                 struct failure *f);

#endif
