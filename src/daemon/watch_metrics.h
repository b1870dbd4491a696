/* SPDX-License-Identifier: Apache-2.0
 * watch_metrics.h: turns events on a watch into numbers: a pass and its jobs, ledger entries, who
 * leads, how the database answers. Only arithmetic: nothing here queries a database.
 *
 * Detected, recovered and held jobs are counted from the ledger (ledger/events.h), whoever wrote
 * it: readings.c reads on after a cursor. If a watch has no ledger, only the daemon's own passes
 * are known, and are counted instead.
 */
#ifndef DAEMON_WATCH_METRICS_H
#define DAEMON_WATCH_METRICS_H

#include "daemon/metrics.h"
#include "recover/scan.h"

/* What the current pass decided. */
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
	int64_t began_ms, oldest_us; /* of the current pass, or the last one */
	struct watch_metrics_own own;
	int64_t brakes;
	bool shown;      /* the series that rates need from the beginning exist */
	bool leads;      /* as last set */
	bool has_gauges; /* the gauges that only a leader knows exist */
};

void watch_metrics_init(struct watch_metrics *m, struct metrics *metrics, const char *watch,
                        const char *database);
void watch_metrics_release(struct watch_metrics *m);

/* A pass begins; it was due at that time, by CLOCK_BOOTTIME (0: it was requested). */
void watch_metrics_begin(struct watch_metrics *m, int64_t due_ms, int64_t now_ms);
/* A stuck job and its outcome; `now_us` by the database's clock. */
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
/*
 * How long it took to find and recover the jobs that scans found stuck, by the buckets of the
 * metrics.
 */
void watch_metrics_times(struct watch_metrics *m, const struct detection_count *d);
/* The bounds of those buckets: out[DETECTION_TIMES]. */
void watch_metrics_bounds(struct time_bounds *out);
/* Jobs that ended since the last time. */
void watch_metrics_ended(struct watch_metrics *m, int64_t done, int64_t failed);
/* What was recovered at the start, before any pass, if there is no ledger. */
void watch_metrics_startup(struct watch_metrics *m, const int64_t *outcomes);
/* Whether this daemon leads the watch. What only a leader knows is removed when another leads. */
void watch_metrics_leads(struct watch_metrics *m, bool leads);
/* It does not, because the database is unavailable: the last values stay, with their age. */
void watch_metrics_away(struct watch_metrics *m);
/* The watch was removed. */
void watch_metrics_end(struct watch_metrics *m);

/* The daemon starts; its configuration was reloaded, or was not because it is invalid. */
void watch_metrics_start(struct metrics *m, int64_t wall_us);
void watch_metrics_reload(struct metrics *m, bool ok);
/* A round of a database loop: could the database be queried? */
void watch_metrics_round(struct metrics *m, const char *database, bool up);

#endif
