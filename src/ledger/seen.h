/* SPDX-License-Identifier: Apache-2.0
 * seen.h: what was seen of jobs at earlier looks: for each value that a watch remembers, since when
 * it has been the same. One small row per job and value in defib's own table, so that a restart or
 * another leader continues where the last one was. The row of the watch itself says when its jobs
 * were last looked at: a row of a job is only written when its value changes.
 */
#ifndef LEDGER_SEEN_H
#define LEDGER_SEEN_H

#include "store/store.h"

#define SEEN_MOST 10000 /* jobs of one watch */

struct seen {
	const char *job, *what; /* what: the name of the sign */
	const char *value;
	const char *run;  /* which run of the job had it: another one begins anew */
	int64_t since_us; /* the database's clock */
};

/* A look at all jobs of a watch. */
struct seen_look {
	int64_t at_us;    /* 0: there was none */
	int64_t usual_us; /* from the one before it to this one */
};

struct seen_memory {
	bool there; /* the table exists, and this role may use it */
	struct seen_look last;
	int n;
	struct seen *all;
};

/* Of these jobs; NULL: of all. Nothing if there is no table. */
MUST_CHECK defib_err seen_read(struct store *s, const char *watch, const char *const *jobs,
                               int njobs, struct arena *a, struct seen_memory *out,
                               struct failure *f);
/*
 * There is a look now, and the last one was `was`: *won is false if another process looked since.
 * All that is remembered began later by `shift_us`, which nobody could see.
 */
MUST_CHECK defib_err seen_turn(struct store *s, const char *watch, const struct seen_look *was,
                               const struct seen_look *now, int64_t shift_us, bool *won,
                               struct failure *f);
/* Remember, or forget, these; at most SEEN_STEP at once. */
#define SEEN_STEP 1000
MUST_CHECK defib_err seen_put(struct store *s, const char *watch, const struct seen *all, int n,
                              struct arena *a, struct failure *f);
MUST_CHECK defib_err seen_drop(struct store *s, const char *watch, const struct seen *all, int n,
                               struct arena *a, struct failure *f);

#endif
