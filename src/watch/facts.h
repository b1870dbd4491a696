/* SPDX-License-Identifier: Apache-2.0
 * facts.h: everything that is known about one job at one moment. Judge and
 * decide see nothing else.
 */
#ifndef WATCH_FACTS_H
#define WATCH_FACTS_H

#include "watch/watch.h"

/* ---- holds ---- */

/*
 * Why a job is on hold, and whether it still is.
 *
 * A hold is a row of defib.hold. It is in force until an operator releases the job, which deletes
 * the row, or until the job moves on, which leaves the row in place. hold_state() tells the two
 * apart, and hold_in_force_sql() writes the same rule for statements. Nothing else decides it.
 */

struct buf;
struct dialect;

/*
 * X(enum, name, words): the name is used in defib.hold, in the API and in filters; the words are
 * for people.
 */
#define HOLD_CAUSE_LIST(X)                                                                         \
	X(BY_HAND, "by hand", "an operator holds it")                                                  \
	X(UNDONE, "undone", "an operator undid its recovery")                                          \
	X(POISON, "poison",                                                                            \
	  "it was recovered too often in too short a time, and may kill its workers")                  \
	X(ATTEMPTS, "attempts", "it has no attempts left")                                             \
	X(RULE, "rule", "a rule of the watch holds it")                                                \
	X(STEPS, "steps", "it is unknown which steps of its workflow have finished")                   \
	X(STARTUP, "startup", "a worker or daemon held it when it started")
/* Of a row that is an excuse; a hold has none of this name. */
#define HOLD_EXCUSE "excuse"

/* Names alone, for statements and comparisons. */
#define HOLD_BY_HAND "by hand"
#define HOLD_UNDONE "undone"
#define HOLD_POISON "poison"
#define HOLD_STEPS "steps"

/*
 * The cause in words. An unknown cause is returned as it is; no cause means that an operator holds
 * the job.
 */
const char *hold_cause_words(const char *cause);
/* Whether an operator made such a hold. */
bool hold_by_person(const char *cause);

/* ---- whether it is in force ---- */

/*
 * An entry about a job is valid for the owner and the sign of life that the job had when it was
 * made.
 */
struct owner_sign {
	const char *owner;
	bool has_sign;
	int64_t sign_us;
};
bool owner_sign_same(const struct owner_sign *a, const struct owner_sign *b);

struct hold_facts {
	bool recorded; /* defib.hold has a row for the job … */
	const char *cause;
	struct owner_sign made, now; /* … made for this owner and sign of life; and the current ones */
	/*
	 * Another watch on the table made it, by expressions of its own: it is over when this watch
	 * sees a sign of life after that time.
	 */
	bool by_other;
	int64_t at_us;
	bool in_words; /* the watch writes holds to the user's table */
	bool running;
	bool moved; /* columns that `running` names have changed since the hold */
};

/* States in force come last. */
enum hold_state {
	HOLD_STATE_NONE,     /* it has no hold */
	HOLD_STATE_OVER,     /* defib.hold has a row for it, but the job has moved on */
	HOLD_STATE_OPERATOR, /* an operator holds it, or undid its recovery */
	HOLD_STATE_POISON,   /* it was recovered too often */
	HOLD_STATE_WATCH,    /* the watch or a worker holds it: attempts, a rule, steps, a start */
	HOLD_STATE_ROW,      /* no hold of defib is in force, but the row itself says that it is held */
};
enum hold_state hold_state(const struct hold_facts *h);
/* The same, if it is known whether the row itself says that it is held. */
enum hold_state hold_state_of_row(enum hold_state own, bool row_says);
bool hold_in_force(enum hold_state state);

/* The expressions with which a statement names a hold and its job. */
struct hold_sql {
	const char *hold;            /* the alias of defib.hold */
	const char *owner, *sign_us; /* the job's current ones */
	const char *running;         /* NULL: all rows of the statement are running */
	bool in_words;
	const char *watch; /* a literal: holds of other watches count too; NULL: there are none */
};
/*
 * The condition that a hold is in force, except for hold_facts.moved, which needs the ledger and
 * the row's columns: a job that is not running and has moved on satisfies it too.
 */
void hold_in_force_sql(const struct dialect *d, const struct hold_sql *h, struct buf *out);

/* ---- facts ---- */

/* A longer value of `progress` is kept as a hash, behind this prefix. */
#define SEEN_VALUE_MOST 200
#define SEEN_HASH "sha256 "

enum known { KNOWN_NOT = -1, KNOWN_NO = 0, KNOWN_YES = 1 };

/* What is known of the jobs that wait, beyond the single row (guard/starts.h). */
enum starts { STARTS_UNKNOWN, STARTS_SEEN, STARTS_NONE };

struct facts {
	const char *job; /* the key as one text; a composite key as a JSON array */
	const char *key[WATCH_KEYS_MAX];
	const char *owner, *kind;
	const char *state;    /* as stored; NULL: nothing depends on it */
	const char *progress; /* its value, or the hash of a long one; NULL: none, or not watched */
	enum known owner_alive;
	bool has_attempts, has_max_attempts;
	int64_t attempts, max_attempts;
	bool has_epoch;
	int64_t epoch;
	bool has_sign[SIGN_COUNT];
	int64_t sign_us[SIGN_COUNT];
	bool has_own[SIGN_COUNT]; /* the row's own time-out, as the limit of a sign */
	int64_t own_us[SIGN_COUNT];
	bool has_lost; /* known: when its worker ended, or last renewed its lease … */
	int64_t lost_us;
	int64_t now_us; /* the database's clock when the facts were read */
	bool running;
	bool waiting; /* it waits to be started … */
	bool has_due, has_last_run;
	int64_t due_us; /* … since this time: its due_at, or an earlier one that had no run */
	int64_t last_run_us;
	bool moved_on;      /* its due_at is later than due_us … */
	int64_t next_us;    /* … namely this */
	enum starts starts; /* whether jobs of its kind are being started */
	uint32_t when;      /* bit i: the condition of rule i holds */
	int64_t crashes;    /* recoveries before this one, within the crash budget's time */
	bool mass;          /* many workers were lost at once, which is not this job's fault */
	bool restart;       /* left by an instance that is gone, found at the next start; not a crash */
	bool clean;         /* its program ended normally: the job is lost, but it is not a crash */
	enum hold_state hold;                 /* whether it is on hold … */
	const char *hold_cause, *hold_reason; /* … and why, while the hold is in force */
	enum verdict excused; /* by which an operator said that it is not stuck; VERDICT_NONE: none … */
	const char *excused_by, *excuse_reason; /* … who, why, … */
	int64_t excused_at_us;                  /* … and when */
	bool released; /* an operator ended a hold of it, with this owner, sign of life and attempts */
	bool late;     /* late_when holds; read only for specific jobs of a watch with retry.then */
	bool noted;    /* the ledger records it as detected, with this owner and sign of life */
	const char *position;
	const char *show[WATCH_SHOW_MAX]; /* already masked, as the watch says for everybody */
	/* Values of columns that are masked, to recognise them in free text; by binding.masked. */
	const char *const *masked_names, **masked;
	int nmasked;
	const char
		*steps_done;    /* which steps the row says are finished; only if specific jobs are read */
	const char *before; /* JSON of the columns that remedies write */
};

/* One rule of judge. The id is recorded in the ledger; `why` is used in explanations. */
struct judge_rule {
	const char *id;
	enum verdict verdict;
	const char *why;
};

/* Where the limit of a row is from. */
struct limit_from {
	enum { LIMIT_STANDARD, LIMIT_OF_KIND, LIMIT_OF_STATE, LIMIT_OF_ROW } of;
	const char *name; /* of the kind or state */
};
/*
 * The limit of a sign for a row: that of its state, else its own time-out, else that of its kind,
 * else the default. False: the sign has none for it. limit_sql.h writes the same for statements.
 */
bool watch_limit_of(const struct watch *w, enum sign s, const struct facts *f, int64_t *us,
                    struct limit_from *from);
/* "state cancelling" or "its own time-out"; "": the watch has it for all rows, or for a kind. */
void limit_origin(const struct limit_from *from, struct buf *out);
/* "5m", "5m of state cancelling", "5m, its own time-out" */
void limit_text(int64_t us, const struct limit_from *from, struct buf *out);

struct judgement {
	enum verdict verdict;
	const struct judge_rule *rule;
	enum sign sign; /* what was measured, if anything */
	bool measured;
	bool waited;         /* it was measured since when the job has been due, and no sign */
	int64_t measured_us; /* silence, run time, time past the deadline, or time since it was due */
	int64_t limit_us;    /* what it was compared with */
	struct limit_from limit_from;
	const char *value; /* which did not change for so long; NULL: a time was measured */
};

/* Whether an operator excused the job from this verdict: it is not stuck then. */
bool judged_excused(const struct facts *f, const struct judgement *j);
/* The same of a judgement that is shown to people, in which an excused job has no verdict. */
bool shown_excused(const struct facts *f, const struct judgement *j);

/* Whether a second reading found the job as it was judged. */
bool facts_same(const struct watch *w, const struct facts *judged, const struct facts *now);

#endif
