/* SPDX-License-Identifier: Apache-2.0 */
/* readings_workers.c: what workers report about themselves; see readings.h. */

#include "daemon/readings_workers.h"

#include "daemon/watch_loop.h"
#include "life/roster.h"

#include <jansson.h>
#include <string.h>

/* ---- one worker ---- */

/* Members of its report, and the metrics that they become. */
static const struct {
	const char *part, *member; /* part NULL: of the object itself */
	enum metric metric;
} numbers[] = {
	{NULL, "ticks", METRIC_WORKER_TICKS},        {NULL, "claims", METRIC_WORKER_CLAIMS},
	{NULL, "tries", METRIC_WORKER_TRIES},        {NULL, "failures", METRIC_WORKER_FAILURES},
	{"spool", "jobs", METRIC_WORKER_SPOOL},      {"spool", "bytes", METRIC_WORKER_SPOOL_BYTES},
	{"spool", "set_aside", METRIC_WORKER_ASIDE},
};
#define ENDS_MAX 16 /* per worker: it may report any text */
#define SERVES_MAX 50

static void count_numbers(struct metrics *m, const json_t *info, const char *const *labels)
{
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		const json_t *from = numbers[i].part ? json_object_get(info, numbers[i].part) : info;
		const json_t *n = json_object_get(from, numbers[i].member);
		if (json_is_number(n))
			metrics_set(m, numbers[i].metric, json_number_value(n), labels);
	}
}

/* How long its jobs ran; a bound that we do not have goes to the next higher one. */
static void count_run_times(struct metrics *m, const json_t *took, const char *const *labels)
{
	double counts[JOB_TIME_BUCKETS] = {0};
	const char *bound;
	const json_t *n;
	if (!json_is_object(took))
		return;
	json_object_foreach(json_object_get(took, "buckets"), bound, n)
	{
		int i = 0;
		while (i < JOB_TIME_BUCKETS - 1 && strtod(bound, NULL) > job_time_bounds[i])
			i++;
		counts[i] += json_number_value(n) > 0 ? json_number_value(n) : 0;
	}
	metrics_set_buckets(m, METRIC_WORKER_TOOK, counts,
	                    json_number_value(json_object_get(took, "sum")), labels);
}

static void count_info(struct metrics *m, const struct roster_row *w, const json_t *info,
                       const char *const *labels)
{
	const json_t *clock = json_object_get(info, "clock_ms"), *n;
	const char *breaker = json_string_value(json_object_get(info, "breaker")), *end;
	int left = ENDS_MAX;
	count_numbers(m, info, labels);
	count_run_times(m, json_object_get(info, "took"), labels);
	if (breaker)
		metrics_set(m, METRIC_WORKER_BREAKER, breaker[0] == 'o', labels);
	if (json_is_number(clock))
		metrics_set(m, METRIC_WORKER_SKEW,
		            json_number_value(clock) / 1e3 - (double)w->renewed_us / 1e6, labels);
	json_object_foreach(json_object_get(info, "settled"), end, n)
	{
		if (left-- > 0 && json_is_number(n))
			metrics_set(m, METRIC_WORKER_SETTLED, json_number_value(n),
			            LABELS(w->name, labels[1], end));
	}
}

/* A worker that does not say what it serves can only work on the built-in queue. */
static const char *worker_readings_served(const struct roster_row *w)
{
	return w->serves ? w->serves : BUILTIN_NAME;
}

static void count_served(struct metrics *m, const struct roster_row *w, const char *database)
{
	char name[128];
	int left = SERVES_MAX;
	for (const char *at = worker_readings_served(w); *at && left > 0; left--) {
		size_t n = strcspn(at, "\n");
		snprintf(name, sizeof name, "%.*s", (int)n, at);
		metrics_set(m, METRIC_WORKER_SERVES, 1, LABELS(w->name, database, name));
		at += n + (at[n] == '\n');
	}
}

static void count_worker(struct metrics *m, const struct roster_row *w, const char *database)
{
	const char *const *labels = LABELS(w->name, database);
	json_auto_t *info = w->info ? json_loads(w->info, 0, NULL) : NULL;
	metrics_set(m, METRIC_WORKER_UP, !w->expired, labels);
	metrics_set(m, METRIC_WORKER_JOBS, (double)w->holding, labels);
	count_served(m, w, database);
	count_info(m, w, info, labels);
}

static void drop_workers(struct metrics *m, const char *database)
{
	static const enum metric all[] = {
		METRIC_WORKER_SERVES,  METRIC_WORKER_TICKS, METRIC_WORKER_TOOK,
		METRIC_WORKER_UP,      METRIC_WORKER_JOBS,  METRIC_WORKER_CLAIMS,
		METRIC_WORKER_SETTLED, METRIC_WORKER_TRIES, METRIC_WORKER_FAILURES,
		METRIC_WORKER_BREAKER, METRIC_WORKER_SPOOL, METRIC_WORKER_SPOOL_BYTES,
		METRIC_WORKER_ASIDE,   METRIC_WORKER_SKEW,
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		metrics_drop(m, all[i], LABELS(NULL, database, NULL));
}

/* ---- workers of a watch ---- */

static bool worker_readings_serves(const struct roster_row *w, const struct watch *watch)
{
	return serves_watch(worker_readings_served(w), watch->name);
}

static void add_to_watches(const struct roster_row *w, enum metric metric,
                           struct watch_loop **loops, int n)
{
	for (int i = 0; i < n; i++) {
		const struct watch_metrics *m = &loops[i]->meter;
		if (loops[i]->leads && worker_readings_serves(w, loops[i]->watch))
			metrics_add(m->metrics, metric, 1, LABELS(m->watch, m->database));
	}
}

static void begin_watches(struct watch_loop **loops, int n)
{
	static const enum metric counts[] = {METRIC_WORKER_STARTS, METRIC_WORKER_RESTARTS,
	                                     METRIC_WORKER_DEATHS};
	for (int i = 0; i < n; i++) {
		const struct watch_metrics *m = &loops[i]->meter;
		const char *const *labels = LABELS(m->watch, m->database);
		if (!loops[i]->leads)
			continue;
		metrics_set(m->metrics, METRIC_WORKERS, 0, labels);
		for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
			metrics_ready(m->metrics, counts[k], labels);
	}
}

/* ---- all workers ---- */

static const struct seen_worker *seen(const struct readings *r, int64_t id)
{
	for (int i = 0; i < r->nworkers; i++)
		if (r->workers[i].id == id)
			return &r->workers[i];
	return NULL;
}

/* What changed since the last reading. */
static void count_changes(const struct readings *r, const struct roster_row *w,
                          struct watch_loop **loops, int n)
{
	const struct seen_worker *before = seen(r, w->id);
	if (!before && r->listed) {
		add_to_watches(w, METRIC_WORKER_STARTS, loops, n);
		if (w->again)
			add_to_watches(w, METRIC_WORKER_RESTARTS, loops, n);
	}
	if (text_eq(w->state, "dead") && (before ? before->alive : r->listed))
		add_to_watches(w, METRIC_WORKER_DEATHS, loops, n);
}

static void worker_readings_remember(struct readings *r, const struct roster_row *rows, int n)
{
	r->workers = mem_grow(r->workers, sizeof *r->workers * (size_t)(n + 1));
	for (int i = 0; i < n; i++)
		r->workers[i] = (struct seen_worker){rows[i].id, text_eq(rows[i].state, "alive")};
	r->nworkers = n;
	r->listed = true;
}

void readings_workers(struct readings *r, const struct roster_row *rows, int n, struct metrics *m,
                      const char *database, struct watch_loop **loops, int nloops)
{
	metrics_hold(m);
	drop_workers(m, database);
	begin_watches(loops, nloops);
	/* Oldest first: of two with one name the newer overwrites. */
	for (int i = n - 1; i >= 0; i--) {
		count_changes(r, &rows[i], loops, nloops);
		if (!text_eq(rows[i].state, "alive"))
			continue;
		count_worker(m, &rows[i], database);
		if (!rows[i].expired)
			add_to_watches(&rows[i], METRIC_WORKERS, loops, nloops);
	}
	metrics_let(m);
	worker_readings_remember(r, rows, n);
}
