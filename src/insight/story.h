/* SPDX-License-Identifier: Apache-2.0
 * story.h: everything stored about one job: its row, its times, the steps and progress that workers
 * reported, its ledger entries, a hold, a pending retry.
 */
#ifndef INSIGHT_STORY_H
#define INSIGHT_STORY_H

#include "ledger/retries.h"
#include "recover/attach.h"
#include "recover/browse.h"

/* Times that the row itself records. */
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

/* The input and output of a job of the built-in queue, as JSON; NULL: none. */
struct story_data {
	bool there; /* it is such a job, and they may be read */
	const char *payload, *result, *tags;
};

#define STORY_ENTRIES_MAX 1000

struct story {
	struct browsed row;
	int ncolumns;
	const char **names, **values; /* of the whole row, unmasked */
	bool failed;                  /* as the watch's stats define it */
	bool ready;                   /* as its work.ready defines it: a worker may claim it */
	bool has[MOMENT_COUNT];
	int64_t at_us[MOMENT_COUNT];
	int nsteps;
	struct story_step *steps; /* in their order */
	struct story_progress progress;
	struct story_data data;
	int nentries;
	struct ledger_row *entries; /* oldest first; only the latest STORY_ENTRIES_MAX */
	bool has_hold;              /* which may be over: see row.facts.held */
	struct held_job hold;
	bool has_retry;
	struct pending_retry retry;
	bool has_claim; /* its table records which session claimed it */
	struct claim claim;
};

/* *found is false if there is no such row. */
MUST_CHECK defib_err story_read(struct store *s, const struct watch_sql *q, const struct ledger *l,
                                const char *job, struct arena *a, struct story *out, bool *found,
                                struct failure *f);

#endif
