/* SPDX-License-Identifier: Apache-2.0
 * story.h: all that is kept about one job: its row, its moments, the steps and
 * progress that workers told of, the ledger's entries, a hold, a pending retry.
 */
#ifndef INSIGHT_STORY_H
#define INSIGHT_STORY_H

#include "ledger/retries.h"
#include "recover/attach.h"
#include "recover/browse.h"

/* When something happened that the row itself tells. */
enum moment { MOMENT_CREATED, MOMENT_STARTED, MOMENT_FINISHED, MOMENT_COUNT };

struct story_step {
	const char *name, *state, *output, *error;
	int64_t position, epoch;
	bool has_started;
	int64_t started_us, finished_us;
};

struct story_progress {
	bool there;
	const char *step, *text;
	int64_t epoch, at_us;
};

/* What a job of the built-in queue was given and what it gave, as JSON; NULL: nothing. */
struct story_data {
	bool there; /* it is such a job, and they may be read */
	const char *payload, *result, *tags;
};

#define STORY_ENTRIES_MAX 1000

struct story {
	struct browsed row;
	int ncolumns;
	const char **names, **values; /* of the whole row, not masked */
	bool failed;                  /* as the watch's stats say */
	bool ready;                   /* as its work.ready says: a worker may take it */
	bool has[MOMENT_COUNT];
	int64_t at_us[MOMENT_COUNT];
	int nsteps;
	struct story_step *steps; /* in their order */
	struct story_progress progress;
	struct story_data data;
	int nentries;
	struct ledger_row *entries; /* oldest first; the latest STORY_ENTRIES_MAX */
	bool has_hold;              /* which may be over: row.facts.held says */
	struct held_job hold;
	bool has_retry;
	struct pending_retry retry;
	bool has_claim; /* its table tells which session took it */
	struct claim claim;
};

/* *found is false when there is no such row. */
MUST_CHECK defib_err story_read(struct store *s, const struct watch_sql *q, const struct ledger *l,
                                const char *job, struct arena *a, struct story *out, bool *found,
                                struct failure *f);

#endif
