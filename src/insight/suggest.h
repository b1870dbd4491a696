/* SPDX-License-Identifier: Apache-2.0
 * suggest.h: what observed run times say of a watch's thresholds.
 *
 * A suggestion is SUGGEST_FACTOR times the time within which 99 % of the runs
 * end, but never so short that more than one observed run in a thousand would
 * have exceeded it; at least twice the beat (10 s where there is none). It is
 * made of SUGGEST_RUNS runs or more, and never acts by itself: a person writes
 * it into the configuration.
 *
 * Run times speak of overdue_after, and of stuck_after where the sign of life
 * is written once a run. Where workers beat, silence is not a matter of how
 * long work takes: then only overdue_after is spoken of.
 *
 * Pure: no clock, no database.
 */
#ifndef INSIGHT_SUGGEST_H
#define INSIGHT_SUGGEST_H

#include "insight/run_times.h"
#include "watch/watch.h"

#define SUGGEST_FACTOR 1.5
#define SUGGEST_RUNS 100
#define SUGGEST_FLOOR_US (INT64_C(10) * 1000000)
/* More than so many times today's threshold are hardly run times; without one, a week. */
#define SUGGEST_CEILING 10
#define SUGGEST_CEILING_US (INT64_C(7) * 86400 * 1000000)

enum advice {
	ADVICE_FEW,    /* not enough runs to say anything */
	ADVICE_FITS,   /* today's threshold is about right */
	ADVICE_LOWER,  /* it could be shorter */
	ADVICE_NEAR,   /* no run exceeded it, but there is little room */
	ADVICE_RAISE,  /* runs exceed it: living work is, or will be, recovered */
	ADVICE_NEW,    /* there is none today */
	ADVICE_BEYOND, /* past the ceiling: the times are doubtful, nothing is suggested */
};

struct suggestion {
	const char *option; /* stuck_after or overdue_after */
	bool has_today;
	int64_t today_us;
	double n;
	int64_t p50_us, p95_us, p99_us, longest_us;
	double over_today; /* share of runs that took longer than today's threshold */
	enum advice advice;
	bool has_us; /* a threshold is suggested: */
	int64_t us;
	double over; /* share of runs that took longer than that */
};

/* Whether stuck_after is a matter of how long runs take. */
bool runs_are_silent(const struct watch *w);
/* The threshold that run times speak of, and its option's name. */
const struct threshold *run_threshold(const struct watch *w, const char **option);

void suggest(const struct watch *w, const char *kind, const struct run_times *t,
             struct suggestion *out);
/* "crawl: p99 is 4m 10s; stuck_after 30m could be 6m 15s"; `who` is the kind or the watch. */
void suggestion_sentence(const struct suggestion *s, const char *who, struct buf *out);
/* "0.4 %" */
void share_text(double share, struct buf *out);

#endif
