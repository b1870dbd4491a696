/* SPDX-License-Identifier: Apache-2.0
 * report.h: what happened to the watches in a period: how much was recovered, per day and compared
 * with the period before, how long it took, why, what went wrong, what waits for an operator, and
 * what the thresholds should be.
 *
 * Everything comes from defib's own tables; the user's tables are read only to find which holds are
 * over. A number that is not available is left out, and the report says so; a database that is down
 * is named, and the rest is reported.
 */
#ifndef INSIGHT_REPORT_H
#define INSIGHT_REPORT_H

#include "ledger/digest.h"
#include "watch/settings.h"

#define REPORT_TOP 5                                    /* entries in each list */
#define REPORT_MOST_US (INT64_C(366) * 86400 * 1000000) /* the longest period */
#define REPORT_LEAST_US (INT64_C(60) * 1000000)         /* the shortest */

struct report_day {
	char day[11]; /* "2026-01-02", UTC; the first and the last may be partial days */
	int64_t recovered, held, reported;
};

/* The numbers of a period, as events.h defines them; `recovered` is the sum over the remedies. */
struct report_numbers {
	int64_t detected, recovered;
	int64_t by_remedy[REMEDY_COUNT]; /* of those whose events count as recovered */
	int64_t recovered_by_hand;       /* of the recovered: by an operator */
	int64_t held;                    /* put on hold */
	int64_t rolled_back;             /* rollbacks that were completed */
	int64_t reported;                /* found stuck and left unchanged */
	int64_t exhausted, late, returned, changed, brakes;
	int64_t by_hand; /* acts of operators */
};

struct report_watch {
	const struct watch *watch;
	const struct database *database;
	const char *no_ledger;  /* why there is nothing to report; NULL: there is a ledger */
	struct failure missing; /* what is missing from the numbers, if anything */
	int ndays;
	struct report_day *days; /* every day of the period, including those without events */
	struct report_numbers now, before;
	struct digest_times times; /* from lost_at to the recovery */
	struct digest_list causes, kinds, owners, jobs, actors;
	int64_t mistakes; /* recoveries whose worker was alive */
	int64_t waiting;  /* current holds */
	int nholds;
	struct held_job *holds; /* the oldest of them, at most REPORT_TOP */
	bool has_near_misses;
	int64_t near_misses; /* since the daemon that leads it was started */
	int nadvice;
	const char **advice; /* sentences */
};

/* A database that could not be read, and why. */
struct report_lost {
	const char *database;
	struct failure failure;
};

struct report {
	struct period period;
	int nwatches;
	struct report_watch *watches;
	int nlost;
	struct report_lost *lost;
};

/* A watch and its session; watches of one database share it. */
struct report_source {
	const struct watch *watch;
	const struct database *database;
	struct session *session;
};

/* The last `since_us`; false: too short or too long. An entry that was just written is included. */
bool report_period(int64_t since_us, int64_t now_us, struct period *out);
/* Never fails: what could not be read is stated in the report. */
void report_gather(const struct report_source *sources, int n, const struct period *p,
                   bool ledger_off, struct arena *a, struct report *out);

/* The sum over all watches. */
void report_total(const struct report *r, struct report_numbers *now,
                  struct report_numbers *before);

/* ---- pure parts, for tests ---- */

/* Every day that a period touches. */
int report_days(const struct period *p, struct arena *a, struct report_day **out);
/* Add counted events to the days and to the sums. */
void report_add_up(const struct digest_event *events, int n, struct report_watch *out);

#endif
