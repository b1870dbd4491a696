/* SPDX-License-Identifier: Apache-2.0
 * sampling.h: the leader of a watch adds its numbers to the series (insight/series.h).
 *
 * After each round of readings: how many jobs wait, and run, as the metrics have it; jobs that have
 * ended since the last time; ledger entries since then. Up to where it counted is stored with the
 * numbers, in one transaction, so a daemon that is killed loses nothing and the next one counts
 * nothing twice. A watch of which nothing is new is written once a minute.
 */
#ifndef DAEMON_SAMPLING_H
#define DAEMON_SAMPLING_H

#include "insight/series.h"

/* The memory for one watch. */
struct sampled {
	int64_t minute;            /* that was last written; 0: none */
	struct series_point point; /* the readings of that minute */
	int64_t ended_ms;          /* ended jobs are not counted before: CLOCK_BOOTTIME */
};

struct watch_loop;
/* For the watches that are led. */
MUST_CHECK defib_err sampling_take(struct store *s, struct watch_loop **loops, int n,
                                   struct failure *f);

#endif
