/* SPDX-License-Identifier: Apache-2.0
 * readings.h: numbers that only the database knows: how much work waits and for how long,
 * how long jobs took, what the ledger gained, and how workers fare.
 *
 * The ledger is read at each round and after each pass. The rest is taken every
 * READINGS_MS at most, for watches that this daemon leads, on a short session
 * of their own that gives up after half a second; what one watch costs is kept under a
 * hundredth of the time. A reading that fails is counted, and leaves what was known.
 */
#ifndef DAEMON_READINGS_H
#define DAEMON_READINGS_H

#include "daemon/metrics.h"
#include "ledger/retention.h"
#include "store/store.h"

#define READINGS_MS 15000
#define READINGS_KINDS_MAX 20 /* of one watch; the rest is "other" */

/* What is remembered of one watch. */
struct reading {
	int64_t due_ms;  /* not before: CLOCK_BOOTTIME */
	int64_t runs_us; /* ends of runs up to here were seen; 0: none yet */
	char *kinds[READINGS_KINDS_MAX];
	int nkinds;
	bool counts;       /* entries of the ledger are counted … */
	int64_t ledger_id; /* … up to here */
	bool gained;       /* some since that was last written down */
};
void reading_release(struct reading *r);

/* A worker that was seen. */
struct seen_worker {
	int64_t id;
	bool alive;
};

/* What is remembered of one database. */
struct readings {
	int64_t due_ms;
	bool begun; /* since we lead */
	struct seen_worker *workers;
	int nworkers;
	bool kept_read;                   /* what retention removed was read once … */
	int64_t removed[RETENTION_COUNT]; /* … and was so much */
	bool listed;                      /* the workers were read once: a new one has started since */
	int next;                         /* whose turn it is among the watches */
};
void readings_release(struct readings *r);

struct watch_loop;
/* Before the first pass. */
void readings_begin(struct readings *r, struct watch_loop **loops, int n);
/* The configuration was read again: everything is due. */
void readings_renew(struct readings *r, struct watch_loop **loops, int n);
/* What is due. `session` is the database loop's, of which a short one is made. */
void readings_take(struct readings *r, const struct session *session, struct metrics *m,
                   const char *database, struct watch_loop **loops, int n);

/* The member of a watch's status that tells up to where the ledger was counted. */
#define READINGS_PLACE "ledger_counted"
/* What the ledger gained, whoever wrote it; `started_ms` is when this daemon began
 * (CLOCK_BOOTTIME). */
MUST_CHECK defib_err readings_ledger(struct store *s, int64_t started_ms, struct watch_loop **loops,
                                     int n, struct failure *f);

/* What workers report about themselves. */
struct attendant;

#endif
