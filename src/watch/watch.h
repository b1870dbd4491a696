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

#include "watch/act.h"
#include "watch/verdict.h"
#include "watch/workflow.h"

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

/* In enum order, ended by NULL. */
extern const char *const time_type_names[];

#define WATCH_KEYS_MAX 4
#define WATCH_RULES_MAX 16
#define WATCH_SHOW_MAX 8

/*
 * Times that are read from a row: the signs, then one that decides nothing, then those of rows that
 * wait.
 */
enum { TIME_LOST = SIGN_COUNT, TIME_DUE, TIME_LAST_RUN, TIME_COUNT };

/* Limits of some states. */
struct state_limits {
	int n;
	const char **names;  /* as configured … */
	const char **values; /* … and as stored in the row, by `states` */
	int64_t *us;
};

/*
 * A duration. The user may also give it by state, by row and by kind; the first of them that a row
 * has is its limit (watch_limit_of() in facts.h).
 */
struct threshold {
	bool given;
	bool off; /* the user, or a preset, says that there is none */
	int64_t standard_us;
	int n;
	const char **kinds;
	int64_t *us; /* n */
	struct state_limits states;
	struct sql_text own; /* the row's own time-out; null: it has none */
	double own_factor;   /* by which it is raised */
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
	const char *state;    /* as stored in the row; NULL: any */
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

/* What is done for the watch if its jobs are due and nobody starts them. */
struct wake_rule {
	const char *notify; /* the channel that its workers listen on; NULL: nothing is done */
	int64_t every_us;
};

/* What `defib status --numbers` counts besides states; each is optional. */
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

#define POLL_LEAST_US 10000 /* more often, a worker without work keeps a core busy */

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
	struct sql_text state_since; /* when a row entered its state */
	struct sql_text progress;    /* a value that must change … */
	struct sql_text progress_at; /* … or when it last did */
	struct sql_text lost_at; /* when its worker was last known to be alive, if no sign says it */
	struct sql_text waiting; /* which rows wait for a worker … */
	struct sql_text due_at;  /* … since when each could have been started … */
	struct sql_text last_run_at; /* … and, if a row is a schedule, when its last run began */
	struct threshold late_after; /* of due_at; by kind */
	struct wake_rule wake;
	bool only_waits; /* nothing of it ever runs: the watch is about waiting rows alone */
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
	struct threshold stuck_after, overdue_after, stalled_after;
	int64_t beat_us;

	int nrules; /* 0: the default rules */
	struct rule *rules;
	struct action actions[ACT_COUNT]; /* by enum remedy and enum act */
	struct sql_list also;
	struct backoff backoff;
	struct crash_budget crash_budget;
	const char *reason;

	struct text_list show, mask;
	struct text_list viewer_mask; /* further columns that viewers do not see: `mask` of `http` */
	struct state_names states;
	bool key_rises;     /* later rows have larger keys */
	bool may_be_unused; /* having no rows is normal */
	int64_t every_us, batch, limit, statement_timeout_us;
	struct guard_limits guard;
	struct raise_list raise;
	struct startup startup;
	struct sql_text end_when, cancel_when, late_when;
	struct stats stats;
	int learn;
	struct work work;
};

enum missing { MISSING_ALIVE, MISSING_ORPHAN };

/* Its expression; `text` is NULL where the watch has none. */
const struct sql_text *watch_sign(const struct watch *w, enum sign s);
/* The limit that it is measured against. */
const struct threshold *watch_limit(const struct watch *w, enum sign s);
struct threshold *watch_limit_to_change(struct watch *w, enum sign s);
/* The sign to which `missing: orphan` applies. */
enum sign watch_first_sign(const struct watch *w);
/*
 * Whether the time of a sign is not in the table: defib remembers since when it has seen the value
 * that the sign is about (recover/seen.h).
 */
bool watch_remembers(const struct watch *w, enum sign s);
bool watch_remembers_any(const struct watch *w);
/* Whether the watch says which rows wait, and when that is too long. */
bool watch_waits(const struct watch *w);
/* Whether the sign is measured at all. */
bool watch_measures(const struct watch *w, enum sign s);
/* The limit for a kind (NULL: not known), by that alone. False if the watch has none. */
bool threshold_for(const struct threshold *t, const char *kind, int64_t *us);
/* Whether it is the same for all rows. */
bool threshold_plain(const struct threshold *t);
/* The smallest limit that the configuration names. */
int64_t threshold_least(const struct threshold *t);
/* The largest; 0 if there is none. */
int64_t threshold_most(const struct threshold *t);
/* Whether limits or remedies of the watch depend on the state of a row. */
bool watch_uses_state(const struct watch *w);
/* The factor by which its configured hours raise its thresholds at this moment; 1: not raised. */
double watch_raise(const struct watch *w, int64_t now_us);
/* Whether the condition `running` names the column. */
bool watch_running_names(const struct watch *w, const char *column);
/* Whether `mask` names the column, in any case: its values are hidden from logs and viewers. */
bool watch_hides(const struct watch *w, const char *column);
/*
 * Whether `mask` hides what the expression yields: it names a masked column, or a masked member of
 * JSON in a string ("payload->>'email'").
 */
bool watch_hides_value(const struct watch *w, const char *expression);
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
/* True if the watch says how, or nothing has to be said: it can be chosen as a remedy. */
bool watch_can(const struct watch *w, enum remedy r);
/*
 * True if the act is kept in defib's own tables: a hold that the watch does not write, a retry
 * whose second half waits there.
 */
bool watch_act_is_stored(const struct watch *w, int act);
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

#endif
