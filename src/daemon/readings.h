/* SPDX-License-Identifier: Apache-2.0
 * readings.h: numbers that only the database has: how many jobs wait and for how long, how long
 * jobs took, new ledger entries, and the state of workers.
 *
 * The ledger is read at each round and after each pass. The rest is read at most every READINGS_MS,
 * for watches that this daemon leads, on a short session of its own that gives up after half a
 * second; one watch uses less than a hundredth of the time. A failed reading is counted, and leaves
 * the old numbers in place.
 */
#ifndef DAEMON_READINGS_H
#define DAEMON_READINGS_H

#include "daemon/metrics.h"
#include "insight/series.h"
#include "ledger/retention.h"

#define READINGS_MS 15000
#define READINGS_KINDS_MAX 20 /* per watch; the rest is "other" */

/* What the series of a watch has. */
struct sampled {
	int64_t minute;            /* that was last written; 0: none */
	struct series_point point; /* the readings of that minute */
	int64_t ended_ms;          /* ended jobs are not counted before: CLOCK_BOOTTIME */
};

/* The memory for one watch. */
struct reading {
	int64_t due_ms;  /* not before: CLOCK_BOOTTIME */
	int64_t runs_us; /* ends of runs up to here were read; 0: none yet */
	char *kinds[READINGS_KINDS_MAX];
	int nkinds;
	bool counts;       /* entries of the ledger are counted … */
	int64_t ledger_id; /* … up to here */
	bool gained;       /* there are some since that was last stored */
	/* As last read, for the series too; SERIES_UNKNOWN: the watch does not say. */
	int64_t waiting, oldest_ms;
	struct sampled sampled;
};
void reading_release(struct reading *r);

/* A worker that was seen. */
struct seen_worker {
	int64_t id;
	bool alive;
};

/* The memory for one database. */
struct readings {
	int64_t due_ms;
	bool begun; /* since we lead */
	struct seen_worker *workers;
	int nworkers;
	bool counts_read;                 /* what retention removed was read before … */
	int64_t removed[RETENTION_COUNT]; /* … and was this much */
	bool listed; /* the workers were read before: a new one has started since */
	int next;    /* the watch whose turn is next */
};
void readings_release(struct readings *r);

struct watch_loop;
/* Before the first pass. */
void readings_begin(struct readings *r, struct watch_loop **loops, int n);
/* The configuration was reloaded: everything is due. */
void readings_renew(struct readings *r, struct watch_loop **loops, int n);
/* Read what is due. `session` is the database loop's; a short one is made from it. */
void readings_take(struct readings *r, const struct session *session, struct metrics *m,
                   const char *database, struct watch_loop **loops, int n);

/* The member of a watch's status that stores up to where the ledger was counted. */
#define READINGS_PLACE "ledger_counted"
/* New ledger entries, whoever wrote them; this daemon began at `started_ms` (CLOCK_BOOTTIME). */
MUST_CHECK defib_err readings_ledger(struct store *s, int64_t started_ms, struct watch_loop **loops,
                                     int n, struct failure *f);

#endif
