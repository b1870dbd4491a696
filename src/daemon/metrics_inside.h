/*
 * metrics_inside.h: what metrics.c keeps and metrics_write.c puts into words.
 */
#ifndef DAEMON_METRICS_INSIDE_H
#define DAEMON_METRICS_INSIDE_H

#include "daemon/metrics.h"

#include <pthread.h>
#include <stdint.h>

struct series {
	enum metric id;
	char *labels[METRIC_LABELS_MAX]; /* as many as the metric has */
	double value;                    /* a histogram: how many were observed */
	double sum;
	uint64_t *counts; /* a histogram's, one a bound */
	uint32_t hash;
	struct series *next; /* in its chain */
};

struct family {
	struct series **all; /* in the order in which they came */
	int n;
};

#define METRICS_CHAINS 1024
struct metrics {
	pthread_mutex_t lock; /* recursive: metrics_hold() is nested with the rest */
	struct family families[METRIC_COUNT];
	struct series *chains[METRICS_CHAINS];
	int n;
};

#endif
