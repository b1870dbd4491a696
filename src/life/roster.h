/* SPDX-License-Identifier: Apache-2.0
 * roster.h: the registry of workers for display: who is alive, who ended recently and why, and
 * which jobs one of them has.
 */
#ifndef LIFE_ROSTER_H
#define LIFE_ROSTER_H

#include "life/incarnation.h"
#include "store/store.h"

struct roster_row {
	int64_t id;
	const char *name, *state; /* state: alive, left or dead */
	bool known;               /* `who` could be read */
	struct incarnation who;
	bool expired; /* its lease has expired, by the database's clock */
	int64_t started_us, renewed_us, expires_us, lease_us;
	bool has_ended;
	int64_t ended_us;
	const char *cause;
	int64_t holding;
	const char *serves; /* names of watches, one per line; NULL: not known */
	const char *info;   /* JSON, its description of itself; NULL: none */
	bool again;         /* roster_recent(): there was an earlier worker of this name */
};

/* Live workers first, then ended ones, the latest first. `id` 0: all. */
MUST_CHECK defib_err roster_read(struct store *s, int64_t id, int64_t limit, struct arena *a,
                                 struct roster_row **out, int *n, struct failure *f);
/*
 * Newest first; ended workers only within `ended_us`. None if there is no registry, or if it is too
 * old to hold `info`.
 */
MUST_CHECK defib_err roster_recent(struct store *s, int64_t ended_us, int64_t limit,
                                   struct arena *a, struct roster_row **out, int *n,
                                   struct failure *f);

struct roster_job {
	const char *watch; /* NULL: the built-in queue */
	const char *job;
};

/* The jobs that the database says a worker has. */
MUST_CHECK defib_err roster_jobs(struct store *s, int64_t id, int64_t limit, struct arena *a,
                                 struct roster_job **out, int *n, struct failure *f);

/* When a live worker last renewed its lease. */
struct roster_beat {
	int64_t worker, renewed_us; /* the database's clock */
};

/* The first live workers by id, and the database's clock; !*there: there is no registry. */
MUST_CHECK defib_err roster_beats(struct store *s, int64_t limit, struct arena *a, bool *there,
                                  struct roster_beat **out, int *n, int64_t *now_us,
                                  struct failure *f);

#endif
