/* SPDX-License-Identifier: Apache-2.0
 * metrics.h: numbers for Prometheus, in memory, written by any thread and read by
 * a scrape that never waits for a database.
 *
 *   metrics_add(m, METRIC_RECOVERED, 5, LABELS("pages", "main", "requeue"));
 *
 * Label values stand in the order of the metric's row in metric_list.h. A series is
 * made when it is first written; there are METRICS_SERIES_MAX at most, of which one
 * metric may have METRICS_FAMILY_MAX. `m` may be NULL everywhere: nobody counts.
 */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include "base/buf.h"
#include "daemon/metric_list.h"

#include <stdbool.h>

#define METRIC_LABELS_MAX 4
#define METRICS_SERIES_MAX 30000
#define METRICS_FAMILY_MAX 5000

enum metric {
#define X(id, kind, name, labels, buckets, help) METRIC_##id,
	METRIC_LIST(X)
#undef X
		METRIC_COUNT
};
enum metric_kind { METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM };

struct metric_about {
	const char *name, *help;
	enum metric_kind kind;
	int nlabels;
	const char *labels[METRIC_LABELS_MAX];
	const double *bounds; /* of a histogram; upper, rising */
	int nbounds;
};
/* What is known of a metric; the same pointer each time. */
const struct metric_about *metric_about(enum metric id);

#define LABELS(...) ((const char *const[METRIC_LABELS_MAX]){__VA_ARGS__})
#define NO_LABELS ((const char *const[METRIC_LABELS_MAX]){NULL})

struct metrics;
struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);

/* A gauge; also a counter that somebody else counts (it may fall when he starts anew). */
void metrics_set(struct metrics *m, enum metric id, double value, const char *const *labels);
/* A counter, or a gauge that several move. */
void metrics_add(struct metrics *m, enum metric id, double by, const char *const *labels);
/* A value for a histogram, in seconds; below 0 counts as 0. */
void metrics_observe(struct metrics *m, enum metric id, double seconds, const char *const *labels);
/* A histogram that somebody else counts: one count a bound and one above them all. */
void metrics_set_buckets(struct metrics *m, enum metric id, const double *counts, double sum,
                         const char *const *labels);
/* Make the series if it is not there, empty: rates need a 0 to begin with. */
void metrics_ready(struct metrics *m, enum metric id, const char *const *labels);

/* What was written; a histogram's is its count and *sum (may be NULL). False: no such series. */
bool metrics_value(struct metrics *m, enum metric id, const char *const *labels, double *value,
                   double *sum);
/* All series of a metric whose labels are these (NULL: any) added up; 0 where there is none. */
double metrics_total(struct metrics *m, enum metric id, const char *const *labels);

/* Take away series of one metric; NULL as a label value means any. */
void metrics_drop(struct metrics *m, enum metric id, const char *const *labels);
/* Take away everything of a watch, or with watch NULL of a database: a reload removed it. */
void metrics_forget(struct metrics *m, const char *database, const char *watch);

/* Several changes that a scrape sees all or none of; may be nested. */
void metrics_hold(struct metrics *m);
void metrics_let(struct metrics *m);

/*
 * All series as Prometheus text 0.0.4, or as OpenMetrics 1.0. Content types:
 * METRICS_TEXT_TYPE, METRICS_OPEN_TYPE.
 */
void metrics_write(struct metrics *m, bool openmetrics, struct buf *out);
#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* The table as Markdown: docs/metrics.md. */
void metrics_docs(struct buf *out);

#endif
