/* SPDX-License-Identifier: Apache-2.0
 * digest.h: what the ledger holds of one watch in a period, added up by the database:
 * a report over a million entries reads a few dozen rows.
 *
 * Every number is one statement that an index on (watch, at) serves. Where the tables
 * are older than that index they answer all the same, only more slowly.
 *
 * What counts as detected, recovered and held is told in events.h.
 */
#ifndef LEDGER_DIGEST_H
#define LEDGER_DIGEST_H

#include "ledger/ledger.h"

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

/* Recoveries of the period that turned out to be mistakes, whenever that was (mistakes.h). */
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
