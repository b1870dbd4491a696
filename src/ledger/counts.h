/* SPDX-License-Identifier: Apache-2.0
 * counts.h: numbers from the ledger's tables. The first ones are each one statement whose cost does
 * not grow with the ledger.
 */
#ifndef LEDGER_COUNTS_H
#define LEDGER_COUNTS_H

#include "ledger/ledger.h"
#include "store/store.h"

/* Holds of a watch, of which some may be over (watch/facts.h), and retries that wait. */
MUST_CHECK defib_err ledger_count_held(struct store *s, const char *watch, int64_t *holds,
                                       int64_t *retries, struct failure *f);
struct retries_of {
	const char *watch;
	int64_t retries;
};
/* Retries of all watches that have any, in one look. */
MUST_CHECK defib_err ledger_retries_all(struct store *s, struct arena *a, struct retries_of **out,
                                        int *n, struct failure *f);

/* So many entries of one kind. */
struct event_count {
	const char *watch, *event;
	const char *verdict; /* NULL: the job was not judged stuck */
	bool by_person;
	unsigned counts; /* what each of them counts as (events.h) */
	int64_t n;
};
/* How long it took to find a stuck job, and to recover it. */
enum detection_time {
	TO_DETECTION, /* to the reading that found it stuck */
	TO_RECOVERY,  /* to the entry */
	DETECTION_TIMES
};
/* So many jobs that automation found stuck, by how long that took. */
struct detection_count {
	const char *watch;
	int bucket[DETECTION_TIMES]; /* the first bound that was not exceeded; -1: not known */
	int64_t sum_ms[DETECTION_TIMES];
	int64_t n;
};
/* Upper bounds in seconds, rising. What exceeds all of them is in bucket `n`. */
struct time_bounds {
	const double *upper;
	int n;
};
/* Ids that one call looks at: who is far behind comes again. */
#define LEDGER_COUNT_IDS 50000

/* The last entry that is older than this; 0: none is. */
MUST_CHECK defib_err ledger_id_before(struct store *s, int64_t ago_us, int64_t *id,
                                      struct failure *f);

/* Entries behind `after` up to `to`, added up. */
MUST_CHECK defib_err ledger_events_between(struct store *s, int64_t after, int64_t to,
                                           struct arena *a, struct event_count **out, int *n,
                                           struct failure *f);

/* Those of the same entries by which automation found a job stuck; bounds[DETECTION_TIMES]. */
MUST_CHECK defib_err ledger_detections_between(struct store *s, int64_t after, int64_t to,
                                               const struct time_bounds *bounds, struct arena *a,
                                               struct detection_count **out, int *n,
                                               struct failure *f);

/*
 * Entries behind `after`, added up. *last is the id up to which they were
 * looked at, from where the next call goes on; ids are committed in their order (ledger_top()).
 */
MUST_CHECK defib_err ledger_events_since(struct store *s, int64_t after, struct arena *a,
                                         struct event_count **out, int *n, int64_t *last,
                                         struct failure *f);

/* Whether there is a ledger with an entry of the watch. */
MUST_CHECK defib_err ledger_has_watch(struct store *s, const char *watch, bool *tells,
                                      struct failure *f);
/* Whether the built-in queue has jobs, or had some that the ledger tells of. */
MUST_CHECK defib_err queue_in_use(struct store *s, bool *used, struct failure *f);

/* ---- mistakes ---- */

/*
 * Recoveries that were mistakes: the worker was alive, and finished
 * the job after all (LATE_COMPLETION after the recovery).
 *
 * Each recovery counts at most once, and only the last one before a late
 * completion is blamed. What persons did by hand is no verdict and not counted.
 * Only the newest entries of the ledger are looked at, so that the cost stays
 * the same however large it has grown.
 */

#define MISTAKES_ENTRIES 50000 /* of the ledger, the newest */

/* Recoveries, and mistakes among them. */
struct mistakes {
	struct {
		int64_t recoveries, mistakes;
	} day, week;
};
MUST_CHECK defib_err mistakes_count(struct store *s, const char *watch, struct mistakes *out,
                                    struct failure *f);

/* A recovery of a job that nobody has called a mistake yet, the job's last. */
struct recovered {
	const char *job, *event;
	const char *at;    /* ISO, UTC */
	const char *owner; /* by the evidence; NULL: not known */
};
/* Not older than this, newest first. */
MUST_CHECK defib_err mistakes_candidates(struct store *s, const char *watch, int64_t within_us,
                                         int64_t limit, struct arena *a, struct recovered **out,
                                         int *n, struct failure *f);
/*
 * Note the late completions of these jobs, in a transaction of its own; those
 * that another has noted meanwhile are left out. *noted is how many were.
 */
MUST_CHECK defib_err mistakes_note(struct store *s, const struct ledger_context *ctx,
                                   const struct ledger_entry *entries, int n, int64_t within_us,
                                   struct arena *a, int64_t *noted, struct failure *f);

/* ---- digests ---- */

/*
 * What the ledger holds of one watch in a period, added up by the database:
 * a report over a million entries reads a few dozen rows.
 *
 * Every number is one statement that an index on (watch, at) serves. Where the tables
 * are older than that index they answer all the same, only more slowly.
 *
 * What counts as detected, recovered and held is told in events.h.
 */

/* Microseconds since 1970; the end is not part of it. */
struct period {
	int64_t from_us, to_us;
};

/* So many entries of one event on one day. */
struct digest_event {
	bool before;     /* in the period of the same length before it */
	const char *day; /* "2026-01-02", UTC */
	const char *event;
	const char *rule; /* of guards only, which share one event; else NULL */
	bool judged;      /* its jobs had been found stuck */
	bool by_hand;
	int64_t n;
};
MUST_CHECK defib_err digest_events(struct store *s, const char *watch, const struct period *p,
                                   struct arena *a, struct digest_event **out, int *n,
                                   struct failure *f);

enum digest_by {
	DIGEST_CAUSES, /* detected, by verdict and the rule that judged */
	DIGEST_KINDS,  /* detected, by kind */
	DIGEST_OWNERS, /* detected, by owner */
	DIGEST_JOBS,   /* recoveries by job */
	DIGEST_ACTORS, /* what persons did, by who and what */
	DIGEST_LISTS
};

/* So many of one name; `also` is the second name where there are two. */
struct digest_count {
	const char *name, *also; /* NULL: not known */
	int64_t n;
};
struct digest_list {
	struct digest_count *items;
	int n;
};
/* The most frequent by each, so many at most: out[DIGEST_LISTS], in one reading of the period. */
MUST_CHECK defib_err digest_tops(struct store *s, const char *watch, const struct period *p,
                                 int64_t limit, struct arena *a, struct digest_list *out,
                                 struct failure *f);

/* What was found stuck and recovered in each of `buckets` equal parts of a period. */
struct digest_bucket {
	int64_t detected, recovered;
};
MUST_CHECK defib_err digest_trend(struct store *s, const char *watch, const struct period *p,
                                  int buckets, struct arena *a, struct digest_bucket **out,
                                  struct failure *f);

/* From lost_at to the recovery, of those recoveries of which it is known (sql_seconds_lost). */
struct digest_times {
	int64_t n, median_us, worst_us;
};
MUST_CHECK defib_err digest_times(struct store *s, const char *watch, const struct period *p,
                                  struct digest_times *out, struct failure *f);

/* Recoveries of the period that turned out to be mistakes, whenever that was. */
MUST_CHECK defib_err digest_mistakes(struct store *s, const char *watch, const struct period *p,
                                     int64_t *mistakes, struct failure *f);

/* ---- how long a job had been without its worker, for other statements over the ledger */

/*
 * Seconds from `lost_at` in the evidence of an entry `l` to a moment (an expression of the
 * ledger's type of time), to the millisecond, never less than 0; null where it is not known. An
 * entry that is older than `lost_at` has its signs of life, of which a deadline counts only when it
 * was over.
 */
void sql_seconds_lost(const char *until, struct buf *out);
/* The same to the reading that found the job stuck. */
void sql_seconds_to_detection(struct buf *out);

#endif
