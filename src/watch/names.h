/* SPDX-License-Identifier: Apache-2.0
 * names.h: verdicts, remedies, acts and time types, as enums with their names. Code,
 * configuration, command line, ledger and metrics all take the names from here.
 */
#ifndef WATCH_NAMES_H
#define WATCH_NAMES_H

/* X(enum, name, why) */
#define VERDICT_LIST(X)                                                                            \
	X(NONE, "none", "it is not stuck")                                                             \
	X(DEAD, "dead", "its worker has ended")                                                        \
	X(SILENT, "silent", "its sign of life is too old")                                             \
	X(OVERDUE, "overdue", "it has run too long")                                                   \
	X(ORPHAN, "orphan", "its worker is unknown")

enum verdict {
#define X(id, name, why) VERDICT_##id,
	VERDICT_LIST(X)
#undef X
		VERDICT_COUNT
};

/* X(enum, name) */
#define REMEDY_LIST(X)                                                                             \
	X(REQUEUE, "requeue")                                                                          \
	X(RETRY, "retry")                                                                              \
	X(FAIL, "fail")                                                                                \
	X(ROLLBACK, "rollback")                                                                        \
	X(HOLD, "hold")                                                                                \
	X(REPORT, "report")

enum remedy {
#define X(id, name) REMEDY_##id,
	REMEDY_LIST(X)
#undef X
		REMEDY_COUNT
};

/*
 * Beside the remedies, what a person, a clock or an undo writes to a job.
 * Numbered behind the remedies, so that both index one table of statements.
 * X(enum, name)
 */
#define ACT_LIST(X)                                                                                \
	X(THEN, "retry.then") /* the second half of a retry, when its wait is over */                  \
	X(RELEASE, "release") /* a person lets go of a hold, and the job runs again */                 \
	X(LIFT, "release")    /* only the hold ends: the row is left as it is */                       \
	X(CANCEL, "cancel")                                                                            \
	X(END, "end")                                                                                  \
	X(UNDO, "undo")

enum act {
	ACT_BEHIND_REMEDIES = REMEDY_COUNT - 1,
#define X(id, name) ACT_##id,
	ACT_LIST(X)
#undef X
		ACT_COUNT
};

/* X(enum, name) */
#define TIME_TYPE_LIST(X)                                                                          \
	X(AUTO, "auto")                                                                                \
	X(TIMESTAMPTZ, "timestamptz")                                                                  \
	X(UTC, "utc")                                                                                  \
	X(EPOCH, "epoch")                                                                              \
	X(EPOCH_MS, "epoch_ms")                                                                        \
	X(TEXT, "text")

enum time_type {
#define X(id, name) TIME_TYPE_##id,
	TIME_TYPE_LIST(X)
#undef X
};

/* Names in enum order, ended by NULL. */
extern const char *const verdict_names[];
extern const char *const remedy_names[];
extern const char *const time_type_names[];

const char *verdict_why(enum verdict v);
/* Of an enum remedy or an enum act: the option that says how. */
const char *act_name(int act);
/* Index of `name` in `names`, or -1. */
int word_index(const char *const *names, const char *name);

#endif
