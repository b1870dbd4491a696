/* SPDX-License-Identifier: Apache-2.0
 * watch.h: the model of a watch, as the user described it.
 *
 * The room turns a configuration into statements. Begin with settings.h, which reads a whole file.
 * `watch_rows` (options.c) is the option table of a watch, check.c checks it, bind.h asks the
 * database for types, compile.h makes statements from watch and binding, and the files named _sql
 * write the statements for lists, counts, leases and claims. This header is plain data and knows no
 * database.
 */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include "watch/workflow.h"

/*
 * Verdicts, remedies, acts and time types, as enums with their names. Code,
 * configuration, command line, ledger and metrics all take the names from here.
 */

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
 * What operators, timers and undo write to a job, besides the remedies. Numbered after the
 * remedies, so that both index one table of statements. X(enum, name)
 */
#define ACT_LIST(X)                                                                                \
	X(THEN, "retry.then") /* the second half of a retry, when its wait is over */                  \
	X(RELEASE, "release") /* an operator releases a hold, and the job runs again */                \
	X(LIFT, "release")    /* only the hold ends: the row is unchanged */                           \
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
/* Of an enum remedy or an enum act: the name of its option. */
const char *act_name(int act);

#define WATCH_KEYS_MAX 4
#define WATCH_RULES_MAX 16
#define WATCH_SHOW_MAX 8

/* The signs of life. */
enum sign { SIGN_ALIVE, SIGN_EXPIRES, SIGN_STARTED, SIGN_COUNT };
/* Times that are read from a row: the signs, then one that decides nothing. */
enum { TIME_LOST = SIGN_COUNT, TIME_COUNT };

/* A duration, by kind if the user configured it so. */
struct threshold {
	bool given;
	int64_t standard_us;
	int n;
	const char **kinds;
	int64_t *us; /* n */
};

struct sql_list {
	int n;
	struct sql_text *items;
};

/* How a remedy is carried out. */
struct action {
	enum { ACTION_NONE, ACTION_SET, ACTION_SQL, ACTION_CALL } form;
	struct sql_text set; /* ACTION_SET: a SET list; ACTION_CALL: function(…) */
	int n;
	struct sql_text *sql; /* ACTION_SQL */
};

enum attempts_term { ATTEMPTS_ANY, ATTEMPTS_LEFT, ATTEMPTS_EXHAUSTED };

/* One line of `remedies`: every given term must match. */
struct rule {
	enum verdict verdict; /* VERDICT_NONE: any */
	const char *kind;     /* NULL: any */
	enum attempts_term attempts;
	int64_t crashes;      /* at least this many, including this one; 0: any */
	struct sql_text when; /* SQL over t */
	enum remedy remedy;
	struct cfg_mark at;
};

struct backoff {
	int64_t base_us, cap_us;
	double factor;
	bool jitter;
	bool given; /* given by the user; else our own workers wait as for the built-in queue */
};

struct crash_budget {
	int64_t max; /* 0: off */
	int64_t within_us;
	bool given; /* given by the user: counts even if the table has attempts */
};

struct state_names {
	int n;
	const char **codes, **names; /* names ends with NULL */
	bool all;                    /* there are no other states */
};

enum startup_mode { STARTUP_RECOVER, STARTUP_DO, STARTUP_OFF };
struct startup {
	enum startup_mode mode;
	enum remedy remedy;
	const char *reason;
};

struct guard_limits {
	bool off;
	double brake_share;
	int64_t brake_owners, brake_ceiling_us;
	double pace_per_s;
	int64_t pace_burst;
};

/* Hours at which thresholds are raised (options_values.c), in UTC. */
struct raise_span {
	unsigned days;          /* on which it begins: bit 0 is Monday */
	int64_t from_us, to_us; /* since midnight; if `to` is not after `from`: on the next day */
	double factor;
};
struct raise_list {
	int n;
	struct raise_span *items;
};
#define RAISE_MOST 100 /* largest allowed factor */

/* What `defib stats` counts besides states; each is optional. */
struct stats {
	struct sql_text where;  /* which rows */
	struct sql_text failed; /* which of them count as failed … */
	struct sql_text done;   /* … and which ended well */
	struct sql_text started_at, finished_at;
	struct sql_text ready, scheduled; /* which rows wait, for a worker or for their time */
	struct sql_text held;             /* which rows say themselves that they are held */
	struct text_list indexed_states;  /* counted exactly, without a sample */
};

struct pool {
	const char *kind;
	int64_t concurrency;
};

/* A worker's texts if its watch configures no others; a queue has no watch that could. */
#define NO_SESSION_ERROR "the program got no session"
#define UNRECORDED_MESSAGE "result not recorded"

/* How defib's own workers use the table. */
struct work {
	bool given;
	bool enabled;
	struct sql_text ready, order, priority;
	struct sql_text claim, done, failed, timed_out, release;
	struct sql_text retry;  /* SET list of a failed attempt that is followed by another */
	struct sql_text chosen; /* of jobs chosen by key: what is claimed, instead of what is ready */
	const char *workflow;   /* its steps are run instead of a command */
	struct workflow_list workflows; /* all of the configuration: a row's kind may name one */
	struct sql_text step;           /* SET list of a step that was done, when more follow */
	struct sql_text rollback_ready,
		rolled_back;             /* which rows must be undone; what to write when they are */
	struct sql_list beat, after; /* statements while a job runs, and at its end */
	int64_t batch, poll_us, timeout_us, grace_us, stagger_us, concurrency;
	bool startup_tick, exclusive;
	struct text_list command;
	struct text_list pass_environment; /* of the program: NAME or NAME=value */
	const char *spool; /* directory, or a word for no; NULL: the default directory */
	const char *no_session_error, *unrecorded_message;
	int64_t burst_limit, burst_window_us;
	int npools;
	struct pool *pools;
};

struct watch {
	struct cfg_mark at;
	const char *name, *database, *group, *label, *preset;
	bool enabled;
	const char *off_because; /* why it is off: the setting and the variable that turned it off */
	const char *table;
	struct text_list key;
	struct sql_text running, alive_at, expires_at, started_at;
	struct sql_text lost_at; /* when its worker was last known to be alive, if no sign says it */
	struct sql_text kind, owner, owner_alive, attempts, max_attempts;
	struct sql_text steps_done; /* which steps of its workflow a row has finished */
	struct sql_text epoch;      /* a number that rises with every claim */
	struct sql_text
		state; /* what `list` shows as a row's state; NULL: the column that `running` names */
	struct sql_text since;  /* where a row's age in `list` counts from; NULL: its sign of life */
	struct sql_text text;   /* what `list --where text~…` searches; NULL: the shown columns */
	struct sql_text search; /* further text that `any~…` searches; NULL: none */
	int missing;            /* enum missing */
	int time_type;          /* enum time_type */
	const char *time_zone;  /* of times without a zone; NULL: UTC */
	bool stays_running;     /* a requeued job looks the same as a running one */
	struct threshold stuck_after, overdue_after;
	int64_t beat_us;

	int nrules; /* 0: the default rules */
	struct rule *rules;
	struct action actions[ACT_COUNT]; /* by enum remedy and enum act */
	struct sql_list also;
	struct backoff backoff;
	struct crash_budget crash_budget;
	const char *reason;

	struct text_list show, mask;
	struct state_names states;
	bool key_rises;     /* later rows have larger keys */
	bool may_be_unused; /* having no rows is normal */
	int64_t every_us, batch, limit, statement_timeout_us;
	struct guard_limits guard;
	struct raise_list raise;
	struct startup startup;
	struct sql_text end_when, late_when;
	struct stats stats;
	int learn;
	struct work work;
};

enum missing { MISSING_ALIVE, MISSING_ORPHAN };

extern const struct opt_row watch_rows[];

/* Read one watch from its map; problems are recorded in the reader. */
void watch_read(struct cfg_reader *r, const struct cfg_node *map, struct watch *w);
/*
 * Call `fn` for each option of the tables that is SQL, given or not: expressions, and SET lists of
 * `work`. Actions, rules and lists of statements are not included.
 */
typedef void watch_sql_fn(void *ctx, const char *option, const struct sql_text *sql, bool set);
void watch_each_sql(const struct watch *w, watch_sql_fn *fn, void *ctx);
/* Its expression; `text` is NULL where the watch has none. */
const struct sql_text *watch_sign(const struct watch *w, enum sign s);
/* The options that configure them, by enum sign. */
extern const char *const sign_options[];
/* The sign to which `missing: orphan` applies. */
enum sign watch_first_sign(const struct watch *w);
/* The limit for a kind (NULL: not known). False if the watch has none. */
bool threshold_for(const struct threshold *t, const char *kind, int64_t *us);
/* The smallest limit of any kind. */
int64_t threshold_least(const struct threshold *t);
/* The largest; 0 if there is none. */
int64_t threshold_most(const struct threshold *t);
/* The factor by which its configured hours raise its thresholds at this moment; 1: not raised. */
double watch_raise(const struct watch *w, int64_t now_us);
/* Whether the condition `running` names the column. */
bool watch_running_names(const struct watch *w, const char *column);
/* Whether `mask` names the column: its values are hidden from logs and viewers. */
bool watch_hides(const struct watch *w, const char *column);
/* A copy of the watch with longer thresholds; what it points to is shared. */
struct watch *watch_raised(const struct watch *w, double factor, struct arena *a);
/* From 1 to RAISE_MOST: thresholds are never shortened this way. */
bool raise_factor_ok(double factor);
/* True if its rows limit how often they are tried. */
bool watch_has_attempts(const struct watch *w);
/* True if `also` statements run with this act: with each remedy that writes to the table. */
bool watch_also(const struct watch *w, int act);
/*
 * Whether `defib undo` can take back what the act did. Of the user's own statements it is not known
 * what they changed, and a hold that only ended left nothing in the row.
 */
bool watch_can_undo(const struct watch *w, int act);
/* True if the watch writes holds to its own table, not only to defib.hold. */
bool watch_writes_hold(const struct watch *w);
/*
 * The act whose statement releases a held job: release, else requeue or retry; if none is given,
 * ACT_RELEASE, which then writes nothing.
 */
int watch_releases_by(const struct watch *w);
/*
 * What a worker writes to a row that it releases: work.release, else requeue, which makes the
 * rows of lost workers ready again. Its text is NULL if there is neither.
 */
const struct sql_text *watch_worker_releases_by(const struct watch *w);

/* ---- parameters ---- */

/* The names that a user may write as `:name`, by context. */

enum param_scope {
	PARAMS_NONE,     /* predicates, and statements that read the relation `stuck` */
	PARAMS_RECOVERY, /* SET lists and calls of remedies */
	PARAMS_WORK,     /* SET lists of claiming and settling */
};

/* All of them as a table, for the reference. */
void params_reference(struct buf *out);

bool param_known(const struct watch *w, enum param_scope scope, const char *name);
/* The nearest known name, or NULL. */
const char *param_nearest(const struct watch *w, enum param_scope scope, const char *name);

/* ---- grants ---- */

/*
 * The privileges that a role needs on the tables that a watch names, as GRANTs for a DBA.
 *
 * Derived from the watch alone, without a database: its table, its columns from the SET lists, and
 * other tables that the user's SQL names.
 */

/* How much of a watch the role does; each level includes the ones before it. */
enum watch_use { WATCH_READ, WATCH_RECOVER, WATCH_WORK };

/* A privilege that the role needs on a table, or (`column`) on one of its columns. */
typedef void watch_need(void *ctx, const char *table, const char *privilege, const char *column);
/* Tables are as SQL names them, quoted where they must be; columns are plain names. */
void watch_each_need(const struct watch *w, enum watch_use use, struct arena *a, watch_need *each,
                     void *ctx);
/* The same as GRANTs, one statement per line. `role` is quoted. */
void watch_grants(const struct watch *w, enum watch_use use, const char *role, struct arena *a,
                  struct buf *out);

#endif
