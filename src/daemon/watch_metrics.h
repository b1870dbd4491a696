/* SPDX-License-Identifier: Apache-2.0
 * watch_metrics.h: from what happened on a watch to numbers: a pass and its jobs, entries of the
 * ledger, who leads, how the database answers. Only arithmetic: nothing here asks a database.
 *
 * What was detected, recovered and held is what the ledger says (ledger/events.h), whoever
 * wrote it: readings.c reads on behind a cursor. Where a watch has no ledger, what the
 * daemon's own passes did is all that is known, and is counted instead.
 */
#ifndef DAEMON_WATCH_METRICS_H
#define DAEMON_WATCH_METRICS_H

#include "daemon/metrics.h"
#include "ledger/counts.h"
#include "recover/scan.h"

/* What the pass that goes on decided. */
struct watch_metrics_own {
	int64_t detected[VERDICT_COUNT], recovered[REMEDY_COUNT];
	struct {
		int64_t n[METRIC_BOUNDS_MAX + 1]; /* by bucket */
		double sum_s[METRIC_BOUNDS_MAX + 1];
	} times[DETECTION_TIMES];
};

/* One watch. */
struct watch_metrics {
	struct metrics *metrics; /* NULL: no metrics */
	char *watch, *database;
	int64_t began_ms, oldest_us; /* of the pass that goes on, or the last one */
	struct watch_metrics_own own;
	int64_t brakes;
	bool shown;      /* series that rates need a beginning for are there */
	bool leads;      /* as last set */
	bool has_gauges; /* what only a leader knows is there */
};

void watch_metrics_init(struct watch_metrics *m, struct metrics *metrics, const char *watch,
                        const char *database);
void watch_metrics_release(struct watch_metrics *m);

/* A pass begins; it was due then, by CLOCK_BOOTTIME (0: it was asked for). */
void watch_metrics_begin(struct watch_metrics *m, int64_t due_ms, int64_t now_ms);
/* A stuck job, after what was done about it; `now_us` by the database's clock. */
void watch_metrics_job(struct watch_metrics *m, const struct candidate *c, int64_t now_us);

/* The result of a pass. */
struct watch_metrics_pass {
	const struct watch *watch;
	const struct scan_result *result;
	const struct guard_report *guard;
	double factor;
	const struct mistakes *mistakes; /* NULL: not counted */
	int64_t wall_us;
};
void watch_metrics_pass(struct watch_metrics *m, const struct watch_metrics_pass *p);
/* Entries of the ledger of this watch. */
void watch_metrics_entries(struct watch_metrics *m, const struct event_count *e);
/* How long those that automation found stuck took, by the buckets of the metrics. */
void watch_metrics_times(struct watch_metrics *m, const struct detection_count *d);
/* The bounds of those buckets: out[DETECTION_TIMES]. */
void watch_metrics_bounds(struct time_bounds *out);
/* What was recovered at the start, before any pass, where there is no ledger. */
void watch_metrics_startup(struct watch_metrics *m, const int64_t *outcomes);
/* Whether this daemon leads the watch. What only a leader can know goes when another does. */
void watch_metrics_leads(struct watch_metrics *m, bool leads);
/* It does not, because the database is away: what was seen last stays, and shows its age. */
void watch_metrics_away(struct watch_metrics *m);
/* The watch is gone. */
void watch_metrics_end(struct watch_metrics *m);

/* The daemon starts; its configuration was read again, or was not because it is wrong. */
void watch_metrics_start(struct metrics *m, int64_t wall_us);
void watch_metrics_reload(struct metrics *m, bool ok);
/* A round of a database's database loop: could it be asked? */
void watch_metrics_round(struct metrics *m, const char *database, bool up);

#endif
