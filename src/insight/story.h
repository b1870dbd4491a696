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

/* Outcomes of attempts besides those of settlements … */
#define STORY_LOST "lost" /* it ended with its worker */
#define STORY_RUNNING "running"
/* … and the state of a step without a record, if it is not running. */
#define STORY_UNFINISHED "unfinished"

struct story_attempt {
	const char *outcome, *error;
	const char *worker; /* its name; NULL: not known */
	int64_t number;     /* 0: not known */
	bool undo;          /* it was to undo the step */
	bool recorded;      /* the step's own record describes it */
	bool has_epoch, has_started, has_ended;
	int64_t epoch, started_us, ended_us;
};

struct story_step {
	const char *name, *state, *output, *error, *worker;
	int64_t position, epoch, attempt; /* attempt 0: not known, or none */
	bool has_started, has_finished;   /* not finished: there is no record of it */
	int64_t started_us, finished_us;
	int nattempts;
	struct story_attempt *attempts; /* in order of time; see step_attempts.c */
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

/*
 * *found is false if there is no such row. `flows` are the workflows of the built-in queue, which
 * name the step that a job is at; NULL: not known.
 */
MUST_CHECK defib_err story_read(struct store *s, const struct watch_sql *q, const struct ledger *l,
                                const struct workflow_list *flows, const char *job, struct arena *a,
                                struct story *out, bool *found, struct failure *f);

#endif
