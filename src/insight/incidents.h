/* SPDX-License-Identifier: Apache-2.0
 * incidents.h: what happened, as incidents: entries of the ledger about stuck jobs that have
 * one cause and follow each other closely are one incident, and it reads as one line.
 *
 *   host b lost 3 workers, 41 jobs recovered in 9 ms, 1 held
 *
 * The cause is the host of the workers if it is known, else the watch. Grouping is pure: entries
 * are read by incidents_read(), and hosts come from the registry of workers (incidents_name()).
 */
#ifndef INSIGHT_INCIDENTS_H
#define INSIGHT_INCIDENTS_H

#include "store/store.h"
#include "watch/watch.h"

#define INCIDENT_GAP_US (INT64_C(60) * 1000000) /* without an entry: the incident is over */
#define INCIDENT_NAMES 3                        /* workers and watches that it names */

/* An entry about a job that was judged stuck. */
struct incident_entry {
	int64_t at_us;
	const char *watch, *job, *event;
	enum verdict verdict;
	const char *owner, *worker, *host; /* NULL: not known */
	int64_t lost_us;                   /* from the loss to this entry; -1: not known */
	bool by_person;
};

struct incident {
	int64_t from_us, to_us;
	const char *host; /* NULL: not known, and the watch is the cause */
	const char *watches[INCIDENT_NAMES], *workers[INCIDENT_NAMES];
	int nwatches, nworkers;                /* all of them, including those that are not named */
	enum verdict verdict;                  /* of most of its jobs */
	int64_t jobs;                          /* that were found stuck */
	int64_t recovered, held, failed, left; /* failed: of those recovered; left: only reported */
	int64_t median_us;                     /* from loss to recovery; -1: not known */
};

/*
 * Entries in any order become incidents, the latest first. A job that occurs again in the same
 * incident counts once, by its last entry.
 */
void incidents_group(const struct incident_entry *entries, int n, struct arena *a,
                     struct incident **out, int *nout);
/* "host b lost 3 workers" */
void incident_what(const struct incident *i, struct buf *out);
/* "41 jobs recovered in 9ms, 1 held" */
void incident_outcome(const struct incident *i, struct buf *out);

/* An entry's owner is a worker's id where defib's own workers have the jobs: its name and host. */
struct incident_worker {
	int64_t id;
	const char *name, *host;
};
void incidents_name(struct incident_entry *entries, int n, const struct incident_worker *workers,
                    int nworkers);

/* Entries of a watch in the last `since_us`, the latest `limit` of them; `more`: there are others.
 */
MUST_CHECK defib_err incidents_read(struct store *s, const char *watch, int64_t since_us, int limit,
                                    struct arena *a, struct incident_entry **out, int *n,
                                    bool *more, struct failure *f);

#endif
