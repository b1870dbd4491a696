/* SPDX-License-Identifier: Apache-2.0
 * verdict.h: why a job is stuck, and the signs of life that are measured for it: one table each.
 * Code, configuration, command line, ledger, metrics and the page take the names from here.
 */
#ifndef WATCH_VERDICT_H
#define WATCH_VERDICT_H

#include "base/text.h"

/* What a verdict rests on, and what that asks for. */
enum verdict_mark {
	VERDICT_SEEN = 1,    /* its worker's end was seen */
	VERDICT_AGELESS = 2, /* it does not rest on an age, which a look after an outage may misread */
	VERDICT_DOUBTED = 4, /* the daemon's own absence looks the same: doubt, brake, second look */
	VERDICT_PACED = 8,   /* its remedy waits for the pace */
	VERDICT_OF_WORKER = 16, /* what is wrong is wrong with the worker, and with all its jobs */
	VERDICT_OF_RUN = 32,    /* what is wrong began with the run: its worker may be alive */
	VERDICT_NAMED = 64,     /* only rules that name it apply to it; without one it is reported */
	VERDICT_WAITS = 128,    /* the job is not running: reported for its watch, not by job */
};

/* X(id, name, marks, why, what happened to its jobs, tone, picture and tone of charts) */
/* clang-format off */
#define VERDICT_LIST(X) \
	X(NONE, "none", 0, \
	  "it is not stuck", "got stuck", "idle", "dot", "idle") \
	X(DEAD, "dead", VERDICT_SEEN | VERDICT_AGELESS | VERDICT_OF_WORKER, \
	  "its worker has ended", "lost their worker", "bad", "cross", "bad") \
	X(SILENT, "silent", VERDICT_DOUBTED | VERDICT_PACED | VERDICT_OF_WORKER, \
	  "its sign of life is too old", "fell silent", "bad", "clock", "warn") \
	X(OVERDUE, "overdue", VERDICT_PACED | VERDICT_OF_RUN, \
	  "it has run too long", "ran too long", "warn", "clock", "held") \
	X(ORPHAN, "orphan", VERDICT_AGELESS | VERDICT_PACED, \
	  "its worker is unknown", "had no known worker", "warn", "question", "idle") \
	X(STALLED, "stalled", VERDICT_DOUBTED | VERDICT_PACED | VERDICT_OF_RUN | VERDICT_NAMED, \
	  "its progress has not changed for too long", "made no progress", "warn", "clock", "held") \
	X(UNSTARTED, "unstarted", VERDICT_PACED | VERDICT_NAMED | VERDICT_WAITS, \
	  "it is due and nobody starts it", "were not started", "warn", "clock", "idle")

/*
 * The signs of life, in the order in which they are measured.
 * X(id, name in statements, option and member of the watch, option with its limit, whether it is a
 *   deadline (then it lies ahead), whether a worker that is known to be alive refutes it, which
 *   limits by state count for it, rule of judge.c, words before the measured time)
 */
#define SIGN_LIST(X) \
	X(ALIVE, alive, alive_at, stuck_after, false, true, TOO, SILENT, "no sign of life for ") \
	X(EXPIRES, expires, expires_at, stuck_after, true, true, TOO, EXPIRED, \
	  "past its deadline by ") \
	X(STARTED, started, started_at, overdue_after, false, false, APART, OVERDUE, "running for ") \
	X(STATE, state, state_since, overdue_after, false, false, ALONE, LINGERS, \
	  "in its state for ") \
	X(PROGRESS, progress, progress_at, stalled_after, false, false, TOO, STALLED, \
	  "no progress for ")
/* clang-format on */

/*
 * What a limit by state means for a sign. How long a row is in a state has a sign of its own: the
 * time since the start of the run says nothing about it.
 */
enum sign_states {
	SIGN_STATES_TOO,   /* it replaces the other limits */
	SIGN_STATES_APART, /* in such a state the sign is not measured: another one is */
	SIGN_STATES_ALONE, /* the sign is measured in such states only */
};

enum verdict {
#define X(id, ...) VERDICT_##id,
	VERDICT_LIST(X)
#undef X
		VERDICT_COUNT,
	VERDICT_RUNNING_COUNT = VERDICT_UNSTARTED /* those of jobs that run: the others come last */
};

enum sign {
#define X(id, ...) SIGN_##id,
	SIGN_LIST(X)
#undef X
		SIGN_COUNT
};

struct verdict_kind {
	const char *name;
	unsigned marks; /* of enum verdict_mark */
	const char *why, *of_jobs, *tone, *picture, *series;
};
extern const struct verdict_kind verdict_kinds[VERDICT_COUNT];
/* In enum order, ended by NULL. */
extern const char *const verdict_names[];
/* Whether it has one of these marks. */
bool verdict_has(enum verdict v, unsigned marks);
/* 'dead', 'overdue': those with one of these marks, for SQL; at least one has each mark. */
void verdict_list_sql(struct buf *out, unsigned marks);

struct sign_kind {
	const char *name, *option;
	const char *limit; /* the option with it; signs may share one */
	bool deadline, refuted;
	enum sign_states states;
	const char *words;
};
extern const struct sign_kind sign_kinds[SIGN_COUNT];
/* Whether it is the first with its limit, so that something is done once with each limit. */
bool sign_brings_limit(enum sign s);

#endif
