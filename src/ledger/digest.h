/* SPDX-License-Identifier: Apache-2.0
 * digest.h: what reports say about the entries of a watch in a period: counts by day and event, the
 * most frequent causes, kinds, owners, jobs and actors, and how long recoveries took.
 *
 * Sums of earlier entries are stored. A daemon sums up every DIGEST_IDS ids of the ledger once
 * (digest_write()); entries never change, so a stored digest stays true. A reader adds up the
 * digests that lie completely within its period, and reads the ledger only for the others and for
 * entries that have no digest yet. It gets the same numbers with and without digests: a report over
 * a month reads a few hundred rows instead of every entry.
 *
 * events.h defines what counts as detected, recovered and held. digest.c has the sums and their
 * stored form, and is pure; digest_store.c reads and writes.
 */
#ifndef LEDGER_DIGEST_H
#define LEDGER_DIGEST_H

#include "ledger/counts.h"

/* ---- what a report gets ---- */

/* Number of entries of one event on one day. */
struct digest_event {
	bool before;     /* in the preceding period of the same length */
	const char *day; /* "2026-01-02", UTC */
	const char *event;
	const char *rule; /* only for guards, which share one event; else NULL */
	bool judged;      /* its jobs had been found stuck */
	bool by_hand;
	int64_t n;
};

enum digest_by {
	DIGEST_CAUSES, /* detected, by verdict and the rule that judged */
	DIGEST_KINDS,  /* detected, by kind */
	DIGEST_OWNERS, /* detected, by owner */
	DIGEST_JOBS,   /* recoveries by job */
	DIGEST_ACTORS, /* what operators did, by name and act */
	DIGEST_LISTS
};

/* A count for one name; `also` is the second name if there are two. */
struct digest_count {
	const char *name, *also; /* also NULL: not known, or there is none */
	int64_t n;
};
struct digest_list {
	struct digest_count *items;
	int n;
};

/* From lost_at to the recovery, for the recoveries for which it is known (sql_seconds_lost). */
struct digest_times {
	int64_t n, median_us, worst_us;
};

struct digest {
	struct digest_event *events; /* of the period and of the one before */
	int nevents;
	struct digest_list tops[DIGEST_LISTS]; /* the most frequent of each, up to a limit */
	struct digest_times times;
};
/* ---- stored digests ---- */

#define DIGEST_IDS 1000 /* of the ledger, per digest */
/* ---- sums; pure ---- */

/* What digests need to know of an entry. */
struct digest_entry {
	int64_t id, at_us;
	const char *watch, *at;   /* `at` as the database writes it */
	const char *event, *rule; /* as in digest_event */
	bool judged, by_hand;
	/* Only of a whole entry, which is counted by them too. */
	const char *verdict, *law, *kind, *owner, *job, *actor;
	bool has_lost;
	int64_t lost_ms; /* how long a job that a scan recovered had no worker */
};

/* Counts by key. Keys are not terminated, and belong to the arena. */
struct digest_map {
	struct digest_sum {
		const char *key;
		size_t len;
		int64_t n;
	} * sums;
	int n, *slots; /* open hash of positions; -1 is empty */
	unsigned size; /* of slots: a power of two, at least twice n */
};

/* Sums of entries of one watch. */
struct digest_sums {
	struct arena *arena;
	struct digest_map events, tops;
	int64_t *times_ms;
	int ntimes, room;
};
void digest_sums_init(struct digest_sums *d, struct arena *a);
void digest_add(struct digest_sums *d, const struct digest_entry *e, bool whole);

/* The stored form of a map, and of times. */
void digest_map_text(const struct digest_map *m, struct buf *out);
void digest_times_text(const struct digest_sums *d, struct buf *out);
/* Add what such texts say; they must live as long as the arena. NULL: nothing. */
void digest_add_texts(struct digest_sums *d, const char *events, const char *tops,
                      const char *times);

/* What they say: events of `before` (may be NULL) and of `now`, lists and times of `now`. */
void digest_of_sums(const struct digest_sums *before, struct digest_sums *now, int limit,
                    struct digest *out);

#endif
