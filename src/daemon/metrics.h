/* SPDX-License-Identifier: Apache-2.0
 * metrics.h: numbers for Prometheus, in memory, written by any thread and read by a scrape that
 * never waits for a database.
 *
 *   metrics_add(m, METRIC_RECOVERED, 5, LABELS("pages", "main", "requeue"));
 *
 * Label values are in the order of the metric's row in METRIC_LIST. A series is created when it is
 * first written; there are at most METRICS_SERIES_MAX, of which one metric may have
 * METRICS_FAMILY_MAX. `m` may be NULL everywhere: nothing is counted.
 */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include "ledger/counts.h"
#include "worker/worker.h"

#define METRIC_LABELS_MAX 4
#define METRIC_BOUNDS_MAX 24
#define METRICS_SERIES_MAX 30000
#define METRICS_FAMILY_MAX 5000

/*
 * Every metric: one row produces the enum, the exposition and docs/metrics.md. X(id, kind, name,
 * (labels), buckets, help)
 *
 * Names follow Prometheus: seconds and bytes as units, counters end in _total. Labels are few and
 * bounded: what grows with the number of jobs is never a label. A counter of the daemon starts at 0
 * with its process; only the leader of a watch counts for it, so that sums over several daemons are
 * right. Detected, recovered, held and rolled back jobs are counted from the ledger
 * (ledger/events.h), whoever did it.
 */
/* Upper bounds in seconds. */
#define METRIC_BUCKETS_LIST(X)                                                                     \
	X(NONE, 0)                                                                                     \
	X(BRIEF, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)                   \
	X(DETECT, DETECTION_BOUNDS)                                                                    \
	X(RECOVER, 0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400, 604800)  \
	X(RUN, JOB_TIME_BOUNDS)

/* clang-format off */
#define BY_WATCH ("watch", "database")
#define BY_WORKER ("worker", "database")
#define METRIC_LIST(X) \
	/* ---- what is stuck, and what became of it: by watch */ \
	X(RUNNING, GAUGE, "defib_jobs_running", BY_WATCH, NONE, \
	  "Jobs that were running at the last scan; at most the first 100,000 are counted.") \
	X(STUCK, GAUGE, "defib_jobs_stuck", BY_WATCH, NONE, \
	  "Jobs that the last scan found stuck, counted before any was recovered.") \
	X(STUCK_OLDEST, GAUGE, "defib_jobs_stuck_oldest_seconds", BY_WATCH, NONE, \
	  "Age of the oldest sign of life of a job that the last scan found stuck: the whole age, " \
	  "not the time beyond the threshold. Jobs on hold are not counted.") \
	X(FOUND, COUNTER, "defib_stuck_found_total", BY_WATCH, NONE, \
	  "Stuck jobs found; a job that stays stuck is counted again by each scan.") \
	X(DETECTED, COUNTER, "defib_stuck_detected_total", ("watch", "database", "verdict"), NONE, \
	  "Jobs that scans found stuck, each counted once: recovered, put on hold or reported, by a " \
	  "daemon, worker, command or database function.") \
	X(RECOVERED, COUNTER, "defib_recovered_total", ("watch", "database", "remedy", "by"), NONE, \
	  "Stuck jobs that were requeued, retried, failed or began to be rolled back, by " \
	  "`automation` (whichever part of it) or by a `person`.") \
	X(HELD, COUNTER, "defib_held_total", ("watch", "database", "by"), NONE, \
	  "Stuck jobs that were put on hold, by `automation` or by a `person`.") \
	X(ROLLED_BACK, COUNTER, "defib_rolled_back_total", BY_WATCH, NONE, \
	  "Completed rollbacks, of stuck jobs and of those whose step failed.") \
	X(SPARED, COUNTER, "defib_not_written_total", ("watch", "database", "why"), NONE, \
	  "Stuck jobs that were not changed: they had changed since, were locked by another " \
	  "transaction, or the database refused the write.") \
	X(NEAR_MISSES, COUNTER, "defib_near_misses_total", BY_WATCH, NONE, \
	  "Jobs that were silent at one look and heard again before the second.") \
	X(EVENTS, COUNTER, "defib_ledger_events_total", ("watch", "database", "event"), NONE, \
	  "Ledger entries of daemons, workers, commands and operators.") \
	X(RECENT_RECOVERIES, GAUGE, "defib_recoveries_recent", ("watch", "database", "window"), NONE, \
	  "Recoveries of the last day or week, from the ledger, without those made by hand.") \
	X(RECENT_MISTAKES, GAUGE, "defib_mistakes_recent", ("watch", "database", "window"), NONE, \
	  "Of these, false positives: the worker was alive and finished the job after all.") \
	X(ON_HOLD, GAUGE, "defib_jobs_on_hold", BY_WATCH, NONE, \
	  "Jobs on hold, waiting for an operator.") \
	X(LATE, GAUGE, "defib_jobs_late", BY_WATCH, NONE, \
	  "Waiting jobs that are due for longer than late_after, whether or not others are being " \
	  "started; at most the first 100,000 are counted.") \
	X(UNSTARTED, GAUGE, "defib_jobs_unstarted", BY_WATCH, NONE, \
	  "Of these, the jobs of kinds of which nobody starts any.") \
	X(LATE_OLDEST, GAUGE, "defib_jobs_late_oldest_seconds", BY_WATCH, NONE, \
	  "How long the oldest late job has waited; of unstarted ones, if there are any.") \
	X(RETRIES_FIRED, COUNTER, "defib_retries_fired_total", BY_WATCH, NONE, \
	  "Retries whose wait ended and whose jobs were made available again.") \
	X(RETRIES_PENDING, GAUGE, "defib_retries_pending", BY_WATCH, NONE, \
	  "Retries that are not due yet.") \
	X(DETECTION, HISTOGRAM, "defib_detection_seconds", BY_WATCH, DETECT, \
	  "Time from the end of a job's worker, if it was seen, else from its last sign of life, to " \
	  "the scan that found it stuck.") \
	X(RECOVERY, HISTOGRAM, "defib_recovery_seconds", BY_WATCH, RECOVER, \
	  "Time from the same moment to the commit that recovered the job.") \
	/* ---- scans */ \
	X(PASSES, COUNTER, "defib_passes_total", ("watch", "database", "result"), NONE, \
	  "Scans of the watch, by result: ok or failed.") \
	X(LAST_PASS, GAUGE, "defib_last_pass_time_seconds", BY_WATCH, NONE, \
	  "Unix time at which the last scan finished: alert if it stops rising (dead man's switch).") \
	X(PASS_JOBS, GAUGE, "defib_last_pass_jobs", ("watch", "database", "outcome"), NONE, \
	  "Stuck jobs of the last scan, by outcome.") \
	X(EVERY, GAUGE, "defib_pass_every_seconds", BY_WATCH, NONE, \
	  "The configured interval between scans.") \
	X(INTERVAL, GAUGE, "defib_pass_interval_seconds", BY_WATCH, NONE, \
	  "Time between the starts of the last two scans.") \
	X(SCAN, HISTOGRAM, "defib_scan_seconds", BY_WATCH, BRIEF, "How long a scan took.") \
	X(LAG, HISTOGRAM, "defib_pass_lag_seconds", BY_WATCH, BRIEF, "How late a scan began.") \
	/* ---- guards */ \
	X(LEADER, GAUGE, "defib_leader", BY_WATCH, NONE, "1 if this daemon leads the watch, else 0.") \
	X(GUARDED, GAUGE, "defib_jobs_guarded", ("watch", "database", "guard"), NONE, \
	  "Stuck jobs that a guard held back in the last scan.") \
	X(BRAKE, GAUGE, "defib_brake_engaged", BY_WATCH, NONE, \
	  "1 while the brake holds: too many workers fell silent at once.") \
	X(BRAKES, COUNTER, "defib_brakes_total", BY_WATCH, NONE, "How often the brake engaged.") \
	X(DOUBT, GAUGE, "defib_doubt", BY_WATCH, NONE, \
	  "1 while silence is excused because the daemon itself was away.") \
	X(PAUSED, GAUGE, "defib_paused", BY_WATCH, NONE, "1 while an operator has paused recovery.") \
	X(FACTOR, GAUGE, "defib_threshold_factor", BY_WATCH, NONE, \
	  "By how much thresholds are currently raised; 1: as configured.") \
	X(PACE_RATE, GAUGE, "defib_pace_jobs_per_second", BY_WATCH, NONE, \
	  "How many recovered jobs per second may currently return; 0: no limit.") \
	X(PACE_WAITING, GAUGE, "defib_pace_waiting_jobs", BY_WATCH, NONE, \
	  "Stuck jobs that wait for the pace.") \
	/* ---- readings of the table */ \
	X(QUEUE, GAUGE, "defib_queue_jobs", ("watch", "database", "state"), NONE, \
	  "Waiting jobs, ready or scheduled; at most the first 100,000 are counted.") \
	X(QUEUE_OLDEST, GAUGE, "defib_queue_oldest_seconds", ("watch", "database", "state"), NONE, \
	  "Age of the oldest of them.") \
	X(JOB, HISTOGRAM, "defib_job_seconds", ("watch", "database", "kind"), RUN, \
	  "Run times of jobs that ended by themselves; a sample if there are very many.") \
	X(ENDED, COUNTER, "defib_jobs_ended_total", ("watch", "database", "end"), NONE, \
	  "Jobs that ended, by end: done or failed, if the watch has stats.finished_at; the first " \
	  "reading counts those of the last hour.") \
	X(READ, GAUGE, "defib_reading_time_seconds", BY_WATCH, NONE, \
	  "Unix time at which the table was last read for these numbers.") \
	X(READ_FAILURES, COUNTER, "defib_reading_failures_total", BY_WATCH, NONE, \
	  "Readings that failed or took too long: the old values stay. Without a watch: readings of " \
	  "the ledger and the workers.") \
	/* ---- workers */ \
	X(WORKERS, GAUGE, "defib_workers", BY_WATCH, NONE, \
	  "Workers that are alive and serve the watch.") \
	X(WORKER_STARTS, COUNTER, "defib_worker_starts_total", BY_WATCH, NONE, \
	  "Workers that registered since the daemon began to lead.") \
	X(WORKER_RESTARTS, COUNTER, "defib_worker_restarts_total", BY_WATCH, NONE, \
	  "Of these, how many had a predecessor of the same name.") \
	X(WORKER_DEATHS, COUNTER, "defib_worker_deaths_total", BY_WATCH, NONE, \
	  "Workers that were declared dead.") \
	X(WORKER_UP, GAUGE, "defib_worker_up", BY_WORKER, NONE, \
	  "1 while the worker's lease is in force.") \
	X(WORKER_SERVES, GAUGE, "defib_worker_serves", ("worker", "database", "watch"), NONE, \
	  "1 for each watch that the worker works on.") \
	X(WORKER_JOBS, GAUGE, "defib_worker_jobs", BY_WORKER, NONE, \
	  "Jobs that the worker has in hand.") \
	X(WORKER_TICKS, COUNTER, "defib_worker_ticks_total", BY_WORKER, NONE, \
	  "How often the worker asked for jobs since it started.") \
	X(WORKER_TOOK, HISTOGRAM, "defib_worker_job_seconds", BY_WORKER, RUN, \
	  "Run times of the worker's jobs that ended by themselves, since it started.") \
	X(WORKER_CLAIMS, COUNTER, "defib_worker_claims_total", BY_WORKER, NONE, \
	  "Jobs that the worker has claimed since it started.") \
	X(WORKER_SETTLED, COUNTER, "defib_worker_settled_total", ("worker", "database", "end"), NONE, \
	  "Jobs that the worker has settled since it started, by end.") \
	X(WORKER_TRIES, COUNTER, "defib_worker_connection_tries_total", BY_WORKER, NONE, \
	  "How often the worker tried to use the database: connections and calls to settle.") \
	X(WORKER_FAILURES, COUNTER, "defib_worker_connection_failures_total", BY_WORKER, NONE, \
	  "Of these, how many got no connection.") \
	X(WORKER_BREAKER, GAUGE, "defib_worker_breaker_open", BY_WORKER, NONE, \
	  "1 while the worker's circuit breaker keeps it from claiming.") \
	X(WORKER_SPOOL, GAUGE, "defib_worker_spool_jobs", BY_WORKER, NONE, \
	  "Results that wait in the worker's spool.") \
	X(WORKER_SPOOL_BYTES, GAUGE, "defib_worker_spool_bytes", BY_WORKER, NONE, \
	  "Size of the worker's spool.") \
	X(WORKER_ASIDE, GAUGE, "defib_worker_set_aside_jobs", BY_WORKER, NONE, \
	  "Results that the database refuses to record, kept in the worker's spool and offered " \
	  "again every minute.") \
	X(WORKER_SKEW, GAUGE, "defib_worker_clock_skew_seconds", BY_WORKER, NONE, \
	  "By how much the worker's clock is ahead of the database's.") \
	/* ---- the daemon itself */ \
	X(BUILD, GAUGE, "defib_build_info", ("version"), NONE, "Always 1.") \
	X(STARTED, GAUGE, "defib_start_time_seconds", (), NONE, \
	  "Unix time at which the daemon started.") \
	X(RELOADS, COUNTER, "defib_reloads_total", ("result"), NONE, \
	  "Reloads of the configuration, by result: ok, or failed and the old one stays.") \
	X(DATABASE_UP, GAUGE, "defib_database_up", ("database"), NONE, \
	  "1 while the database answers.") \
	X(TRIES, COUNTER, "defib_connection_tries_total", ("database"), NONE, \
	  "How often the daemon tried to use the database: once per round.") \
	X(FAILURES, COUNTER, "defib_connection_failures_total", ("database"), NONE, \
	  "Of these, how many failed.") \
	X(KEPT, GAUGE, "defib_kept_rows", ("database", "what"), NONE, \
	  "Ended rows that are still kept in defib's own tables, as of the last round of retention: " \
	  "done jobs, failed jobs, leases and the like; an estimate if there are very many.") \
	X(KEPT_OLDEST, GAUGE, "defib_kept_oldest_seconds", ("database", "what"), NONE, \
	  "Age of the oldest of them.") \
	X(PRUNED, COUNTER, "defib_pruned_rows_total", ("database", "what"), NONE, \
	  "Rows that retention removed, in daemons, workers and commands.") \
	X(SERIES_DROPPED, COUNTER, "defib_series_dropped_total", (), NONE, \
	  "Series that were dropped because there are too many.") \
	/* ---- HTTP and alerts */ \
	X(HTTP_REQUESTS, COUNTER, "defib_http_requests_total", ("code"), NONE, \
	  "Requests, by class of the status code: 2xx, 3xx, 4xx, 5xx.") \
	X(HTTP_SECONDS, HISTOGRAM, "defib_http_request_seconds", (), BRIEF, \
	  "How long requests took, without live streams.") \
	X(HTTP_CONNECTIONS, GAUGE, "defib_http_connections", (), NONE, "Open connections.") \
	X(HTTP_STREAMS, GAUGE, "defib_http_streams", (), NONE, "Clients that follow live events.") \
	X(HTTP_DENIED, COUNTER, "defib_http_denied_total", (), NONE, \
	  "Requests whose token or worker's secret was wrong or missing.") \
	X(ALERTS_FIRING, GAUGE, "defib_alerts_firing", ("rule", "severity"), NONE, \
	  "Alerts of the daemon's own rules that are firing.") \
	X(DELIVERIES, COUNTER, "defib_alert_deliveries_total", ("sink", "result"), NONE, \
	  "Messages to sinks, by result: ok, retry or given_up.") \
	X(OUTBOX, GAUGE, "defib_alert_outbox_messages", ("database"), NONE, \
	  "Messages that wait to be sent.")
/* clang-format on */

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
	const char *labels[METRIC_LABELS_MAX + 1]; /* ends with NULL */
	const double *bounds;                      /* of a histogram; upper, ascending */
	int nbounds;
};
/* The description of a metric. */
const struct metric_about *metric_about(enum metric id);
const char *metric_kind_name(enum metric_kind kind);

#define LABELS(...) ((const char *const[METRIC_LABELS_MAX]){__VA_ARGS__})
#define NO_LABELS ((const char *const[METRIC_LABELS_MAX]){NULL})

struct metrics;
struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);

/* A gauge, or a counter that is counted elsewhere (it may fall when that process restarts). */
void metrics_set(struct metrics *m, enum metric id, double value, const char *const *labels);
/* A counter, or a gauge that several writers change. */
void metrics_add(struct metrics *m, enum metric id, double by, const char *const *labels);
/* A value for a histogram, in seconds; below 0 counts as 0. */
void metrics_observe(struct metrics *m, enum metric id, double seconds, const char *const *labels);
/* Several values of one bucket (metric_bucket()), and their sum in seconds. */
void metrics_observe_many(struct metrics *m, enum metric id, int bucket, double n, double sum,
                          const char *const *labels);
/* The first bound that a value does not exceed; the number of bounds if it exceeds all. */
int metric_bucket(enum metric id, double seconds);
/* A histogram that is counted elsewhere: one count per bound and one above all of them. */
void metrics_set_buckets(struct metrics *m, enum metric id, const double *counts, double sum,
                         const char *const *labels);
/* Create the series, empty, if it does not exist: rates need a 0 to begin with. */
void metrics_ready(struct metrics *m, enum metric id, const char *const *labels);

/* The current value; for a histogram its count and *sum (may be NULL). False: no such series. */
bool metrics_value(struct metrics *m, enum metric id, const char *const *labels, double *value,
                   double *sum);
/* The sum of all series of a metric with these labels (NULL: any); 0 if there are none. */
double metrics_total(struct metrics *m, enum metric id, const char *const *labels);

/* Remove series of one metric; NULL as a label value means any. */
void metrics_drop(struct metrics *m, enum metric id, const char *const *labels);
/* Remove everything of a watch, or with watch NULL of a database: a reload removed it. */
void metrics_forget(struct metrics *m, const char *database, const char *watch);

/* Several changes of which a scrape sees all or none; may be nested. */
void metrics_hold(struct metrics *m);
void metrics_let(struct metrics *m);

/*
 * A second name for a metric, which dashboards already use. Its series have the labels watch,
 * worker and database only; those that differ in another label are added up, so that two of such
 * metrics can be divided.
 */
struct metric_alias {
	enum metric id;
	const char *name;
};
struct metric_aliases {
	int n;
	struct metric_alias *items;
};
#define METRIC_ALIASES_MAX 64
#define METRIC_ALIAS_BYTES 100
/*
 * All series as Prometheus text 0.0.4, or as OpenMetrics 1.0, and those of aliases (NULL: none).
 * Content types: METRICS_TEXT_TYPE, METRICS_OPEN_TYPE.
 */
void metrics_write(struct metrics *m, const struct metric_aliases *aliases, bool openmetrics,
                   struct buf *out);
#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

#endif
