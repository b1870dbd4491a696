/* SPDX-License-Identifier: Apache-2.0
 * series.h: numbers of each watch over time, for charts: how many jobs wait and run, how long the
 * oldest has waited, how many ended well or failed, how many were recovered by verdict, and how
 * long it took to detect them.
 *
 * Three ranges, each in steps of its own length: what is older than a range is removed, so the
 * table has at most SERIES_ROWS rows per watch. The leading daemon adds what happened since the
 * last time to a step of each range (daemon/sampling.c). Counts go to the minute in which it
 * happened, also if the daemon was away at that time, and add up. Waiting, running and oldest are
 * readings: a step has the highest, so that longer steps hide no peak. A step without a reading has
 * none.
 *
 * Points and their arithmetic are pure; series_write() and series_read() use the table.
 */
#ifndef INSIGHT_SERIES_H
#define INSIGHT_SERIES_H

#include "ledger/counts.h"

/* X(enum, name, length of a step in seconds, number of steps) */
#define SERIES_RANGE_LIST(X)                                                                       \
	X(HOUR, "1h", 60, 60)                                                                          \
	X(DAY, "24h", 900, 96)                                                                         \
	X(WEEK, "7d", 7200, 84)

enum series_range {
#define X(id, name, step_s, steps) SERIES_##id,
	SERIES_RANGE_LIST(X)
#undef X
		SERIES_RANGES
};
struct series_range_about {
	const char *name;
	int64_t step_s;
	int steps;
};
extern const struct series_range_about series_ranges[SERIES_RANGES];
/* The range of this name; -1: there is none. */
int series_range_named(const char *name);
/* Of one watch, at most: every range with one step more than it shows, and its position. */
#define SERIES_ROWS (61 + 97 + 85 + 1)

/* ---- a point: one step of one watch, or of several together ---- */

#define SERIES_BUCKETS 25 /* of DETECTION_BOUNDS, and one above all of them */
extern const struct time_bounds series_bounds;

#define SERIES_UNKNOWN (-1)
struct series_point {
	int64_t waiting, oldest_ms, running; /* highest reading; SERIES_UNKNOWN: none */
	int64_t done, failed;                /* SERIES_UNKNOWN: the watch does not say */
	int64_t recovered[VERDICT_COUNT];    /* by verdict */
	int64_t detection[SERIES_BUCKETS];   /* jobs found stuck, by the time it took */
};
extern const struct series_point series_none;

/* More of the same step and watch. */
void series_add(struct series_point *into, const struct series_point *more);
/* The same step of another watch: readings add up too, except the oldest. */
void series_join(struct series_point *into, const struct series_point *other);
int64_t series_recovered(const struct series_point *p);
/*
 * The time within which this share (0 … 1) of the jobs was detected, in seconds, interpolated
 * within its bucket as Prometheus does it; below 0: none was.
 */
double series_detection(const struct series_point *p, double share);

void series_json(const struct series_point *p, struct buf *out);
/* Reads the same form; what it does not know is left out. */
void series_parse(const char *json, struct series_point *out);

/* ---- the table ---- */

/* Up to where a watch was counted. */
struct series_place {
	const char *watch;
	int64_t turn;     /* how often it was written; 0: never */
	int64_t ledger;   /* id of the last ledger entry */
	int64_t ended_us; /* ends of jobs, by the database's clock */
};
/* Of all watches that have one. */
MUST_CHECK defib_err series_places(struct store *s, struct arena *a, struct series_place **out,
                                   int *n, struct failure *f);

struct series_minute {
	int64_t minute; /* since 1970 */
	struct series_point point;
};
/* What happened to a watch since its last place. */
struct series_news {
	struct series_place place; /* the new one; `turn` is that of the last one */
	struct series_minute *minutes;
	int n;
};
/*
 * Adds the news of several watches, and removes what is older than its range by `now_s`, in one
 * transaction. The news of a watch are ignored if another daemon has written since its last place
 * was read.
 */
MUST_CHECK defib_err series_write(struct store *s, const struct series_news *news, int n,
                                  int64_t now_s, struct arena *a, struct failure *f);

/* The steps of a range, of one watch or of all of them together. */
struct series {
	const struct series_range_about *about;
	int64_t from_s;              /* when the first step begins; the last one contains `now_s` */
	struct series_point *points; /* about->steps */
};
/* `watch` NULL: all. A table that does not exist yet is empty. */
MUST_CHECK defib_err series_read(struct store *s, enum series_range range, const char *watch,
                                 int64_t now_s, struct arena *a, struct series *out,
                                 struct failure *f);
/* The same of each watch of a database: *out is in the order of `watches`. */
MUST_CHECK defib_err series_read_each(struct store *s, enum series_range range,
                                      const char *const *watches, int n, int64_t now_s,
                                      struct arena *a, struct series **out, struct failure *f);

#endif
