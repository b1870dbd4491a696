/* SPDX-License-Identifier: Apache-2.0
 * counts.h: numbers from the ledger's tables. Each of the first functions is one statement whose
 * cost does not grow with the ledger.
 */
#ifndef LEDGER_COUNTS_H
#define LEDGER_COUNTS_H

#include "ledger/ledger.h"

/* Holds, some of which may be over (watch/facts.h), and waiting retries. */
struct held_rows {
	int64_t own;     /* that the watch made */
	int64_t others;  /* that other watches made for rows of its table */
	int64_t excuses; /* of rows of its table, whichever watch made them */
	int64_t retries;
};
MUST_CHECK defib_err ledger_count_held(struct store *s, const char *watch, const char *table_key,
                                       struct held_rows *out, struct failure *f);
struct retries_of {
	const char *watch;
	int64_t retries;
};
/* Retries of all watches that have any, in one query. */
MUST_CHECK defib_err ledger_retries_all(struct store *s, struct arena *a, struct retries_of **out,
                                        int *n, struct failure *f);

/* Number of entries of one kind. */
struct event_count {
	const char *watch, *event;
	const char *verdict; /* NULL: the job was not judged stuck */
	bool by_person;
	unsigned counts; /* what each of them counts as (events.h) */
	int64_t n;
};
/* Time to find a stuck job, and to recover it. */
enum detection_time {
	TO_DETECTION, /* until the reading that found it stuck */
	TO_RECOVERY,  /* until the entry */
	DETECTION_TIMES
};
/* Number of jobs that a scan found stuck, by how long that took. */
struct detection_count {
	const char *watch;
	int bucket[DETECTION_TIMES]; /* the first bound that was not exceeded; -1: not known */
	int64_t sum_ms[DETECTION_TIMES];
	int64_t n;
};
/* Upper bounds in seconds, ascending. Values above all bounds are in bucket `n`. */
struct time_bounds {
	const double *upper;
	int n;
};
/* The bounds for the time to detection, everywhere. */
#define DETECTION_BOUNDS                                                                           \
	0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600,     \
		1800, 3600, 7200, 21600, 43200, 86400

/* Ids that one call reads. A caller that is further behind calls again. */
#define LEDGER_COUNT_IDS 50000

/* The last entry that is older than this; 0: none. */
MUST_CHECK defib_err ledger_id_before(struct store *s, int64_t ago_us, int64_t *id,
                                      struct failure *f);

/* Totals of the entries after `after` up to `to`. */
MUST_CHECK defib_err ledger_events_between(struct store *s, int64_t after, int64_t to,
                                           struct arena *a, struct event_count **out, int *n,
                                           struct failure *f);

/* Of the same entries, those in which a scan found a job stuck; bounds[DETECTION_TIMES]. */
MUST_CHECK defib_err ledger_detections_between(struct store *s, int64_t after, int64_t to,
                                               const struct time_bounds *bounds, struct arena *a,
                                               struct detection_count **out, int *n,
                                               struct failure *f);

/*
 * Of the same entries, jobs that were recovered and jobs that a scan found stuck, by the minute of
 * the entry, its verdict and the time to detection.
 */
struct minute_count {
	const char *watch;
	int64_t minute; /* since 1970 */
	const char *verdict;
	int bucket; /* of the time to detection; -1: not known */
	int64_t recovered, detected;
};
MUST_CHECK defib_err ledger_minutes_between(struct store *s, int64_t after, int64_t to,
                                            const struct time_bounds *bounds, struct arena *a,
                                            struct minute_count **out, int *n, struct failure *f);

/*
 * Totals of the entries after `after`. *last is the last id that was read, where the next call
 * continues; ids are committed in order (ledger_top()).
 */
MUST_CHECK defib_err ledger_events_since(struct store *s, int64_t after, struct arena *a,
                                         struct event_count **out, int *n, int64_t *last,
                                         struct failure *f);

/* Whether there is a ledger with an entry for the watch. */
MUST_CHECK defib_err ledger_has_watch(struct store *s, const char *watch, bool *tells,
                                      struct failure *f);
/* Whether the built-in queue has jobs, or had jobs that the ledger mentions. */
MUST_CHECK defib_err queue_in_use(struct store *s, bool *used, struct failure *f);

/* ---- mistakes ---- */

/*
 * Recoveries that were mistakes: the worker was alive and finished the job after all
 * (LATE_COMPLETION after the recovery).
 *
 * Each recovery counts at most once, and only the last one before a late completion is blamed.
 * Operators' acts are not verdicts and are not counted.
 */

/* Of the ledger, the newest: candidates are looked for among these. */
#define MISTAKES_ENTRIES 50000

/* Recoveries, and mistakes among them. */
struct mistakes {
	struct {
		int64_t recoveries, mistakes;
	} day, week;
};
MUST_CHECK defib_err mistakes_count(struct store *s, const char *watch, struct mistakes *out,
                                    struct failure *f);

/* The last recovery of a job, if it is not yet known to be a mistake. */
struct recovered {
	const char *job, *event;
	const char *at;    /* ISO, UTC */
	const char *owner; /* from the evidence; NULL: not known */
};
/* Not older than this, newest first. */
MUST_CHECK defib_err mistakes_candidates(struct store *s, const char *watch, int64_t within_us,
                                         int64_t limit, struct arena *a, struct recovered **out,
                                         int *n, struct failure *f);
/*
 * Record the late completions of these jobs in a transaction of its own; those that another process
 * recorded meanwhile are left out. *noted is how many were recorded.
 */
MUST_CHECK defib_err mistakes_note(struct store *s, const struct ledger_context *ctx,
                                   const struct ledger_entry *entries, int n, int64_t within_us,
                                   struct arena *a, int64_t *noted, struct failure *f);

/* ---- periods ---- */

/*
 * Totals of one watch over a period, computed by the database. Each is one statement that can use
 * an index on (watch, at). Tables from before that index give the same answers, only more slowly.
 */

/* Microseconds since 1970; the end is exclusive. */
struct period {
	int64_t from_us, to_us;
};

/* How many jobs were found stuck and recovered in each of `buckets` equal parts of a period. */
struct digest_bucket {
	int64_t detected, recovered;
};
MUST_CHECK defib_err digest_trend(struct store *s, const char *watch, const struct period *p,
                                  int buckets, struct arena *a, struct digest_bucket **out,
                                  struct failure *f);

/* Recoveries of the period that turned out to be mistakes, whenever that was found. */
MUST_CHECK defib_err digest_mistakes(struct store *s, const char *watch, const struct period *p,
                                     int64_t *mistakes, struct failure *f);

/* ---- how long a job had no worker, for other statements over the ledger ---- */

/*
 * Seconds from `lost_at` in the evidence of an entry `l` to a moment (an expression of the ledger's
 * time type), to the millisecond, at least 0; null if unknown. Entries from before `lost_at` was
 * recorded use their signs of life; a deadline counts only if it had passed.
 */
void sql_seconds_lost(const char *until, struct buf *out);
/* The same up to the reading that found the job stuck. */
void sql_seconds_to_detection(struct buf *out);
/* The bucket of a column of seconds; null if the column is null. */
void sql_bucket(const char *column, const struct time_bounds *b, struct buf *out);

#endif
