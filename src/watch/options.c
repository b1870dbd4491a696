/* SPDX-License-Identifier: Apache-2.0
 * options.c: the option table of a watch.
 */

#include "watch/options.h"

#include "config/report.h"
#include "watch/options_values.h"

#include <assert.h>

static const char *const missing_names[] = {"alive", "orphan", NULL};
static const char *const learn_names[] = {"off", "suggest", NULL};

#define S(member) offsetof(struct stats, member)
static const struct opt_row stats_rows[] = {
	OPTION(SQL, "where", S(where), "which rows count; all if not given"),
	OPTION(SQL, "failed", S(failed), "condition: which rows count as failed"),
	OPTION(SQL, "done", S(done),
           "condition: which rows ended well; with finished_at, an index should cover it. If not "
           "given: all that have ended and not failed"),
	OPTION(SQL, "started_at", S(started_at), "start of a run, for its duration"),
	OPTION(SQL, "finished_at", S(finished_at), "end of a run, for its duration"),
	OPTION(SQL, "ready", S(ready),
           "condition: which rows wait to be worked on; if not given, work.ready or waiting"),
	OPTION(SQL, "scheduled", S(scheduled), "condition: which rows wait for their time"),
	OPTION(SQL, "held", S(held),
           "condition: which rows the table itself marks as held; an index should cover it"),
	OPTION(TEXT_LIST, "indexed_states", S(indexed_states),
           "states that an index finds: rows in them are counted, not estimated from a sample, "
           "and only they count as failed"),
	{.name = NULL},
};
#undef S

static const struct opt_row wake_rows[] = {
	OPTION(TEXT, "notify", offsetof(struct wake_rule, notify),
           "the channel to NOTIFY, on PostgreSQL; the payload is the name of the watch"),
	OPTION(DURATION, "every", offsetof(struct wake_rule, every_us), "at most once in this time",
           .standard = "1m", .min = 1000000),
	{.name = NULL},
};

/* The first column is the question that the key answers. */
/* clang-format off */
#define KEY(question, kind, key, member, text, ...) \
	OPTION(kind, key, offsetof(struct watch, member), text, .group = WATCH_KEYS_##question, \
	       ##__VA_ARGS__)
/* clang-format on */
const struct opt_row watch_rows[] = {
	KEY(FIRST, TEXT, "name", name, "the watch's name", .required = true),
	KEY(FIRST, TEXT, "preset", preset, "start from a shipped watch; other keys override"),
	KEY(SCANS, TEXT, "database", database, "name of its database; the first one if not given"),
	KEY(SCANS, BOOL, "enabled", enabled, "whether the watch is on", .standard = "true"),
	KEY(SHOWN, TEXT, "group", group, "watches of one group are summed in reports"),
	KEY(SHOWN, TEXT, "label", label, "name in reports"),
	KEY(FIRST, TEXT, "table", table, "the table, with its schema if necessary", .required = true),
	KEY(FIRST, TEXT_LIST, "key", key, "the column, or list of columns, that names a row",
        .required = true),
	KEY(FIRST, SQL, "running", running,
        "which rows are running; required, unless the watch has waiting"),
	KEY(FIRST, SQL, "alive_at", alive_at, "last sign of life"),
	KEY(HANGS, SQL, "expires_at", expires_at, "a deadline; stuck_after is then the slack after it"),
	KEY(NEVER_ENDS, SQL, "started_at", started_at, "start of the run, for overdue_after"),
	KEY(HANGS, SQL, "lost_at", lost_at,
        "when its worker was last known to be alive, if no sign of life says it (a lease ends "
        "later than that); the times to detection and recovery count from it"),
	KEY(HANGS, CHOICE, "missing", missing, "what a null sign of life means",
        .choices = missing_names, .standard = "alive"),
	KEY(FIRST, CUSTOM, "stuck_after", stuck_after,
        "silence longer than this is stuck; or by kind, state or row, with a default",
        .read = read_threshold),
	KEY(NEVER_ENDS, CUSTOM, "overdue_after", overdue_after,
        "a run longer than this is stuck; or by kind, state or row, with a default: a limit by "
        "state counts from when the row entered the state",
        .read = read_threshold),
	KEY(NEVER_ENDS, SQL, "state_since", state_since,
        "when a row entered its state, for the limits by state of overdue_after; if not given, "
        "since defib has seen it there"),
	KEY(HANGS, DURATION, "beat", beat_us, "how often the owner beats"),
	KEY(HANGS, SQL, "progress", progress,
        "expression: a value that changes while a job gets on; defib remembers since when it has "
        "seen the same one. Null: the job reports none, and is never stalled"),
	KEY(HANGS, SQL, "progress_at", progress_at,
        "instead, if the table knows it: when the progress last changed"),
	KEY(HANGS, CUSTOM, "stalled_after", stalled_after,
        "no change of the progress for longer than this is `stalled`: reported, unless a rule "
        "names the verdict; or by kind, state or row, with a default; or off",
        .read = read_optional_threshold),
	KEY(NEVER_ENDS, SQL, "kind", kind, "expression: the kind of a row"),
	KEY(HANGS, SQL, "owner", owner, "expression: the worker that holds the row"),
	KEY(HANGS, SQL, "owner_alive", owner_alive,
        "expression: is that worker alive; null, and any row whose owner is null, is unknown"),
	KEY(FIRST, SQL, "attempts", attempts, "expression: attempts so far"),
	KEY(FIRST, SQL, "max_attempts", max_attempts, "number or expression: attempts allowed"),
	KEY(LATE, SQL, "epoch", epoch, "expression: a number that rises with every claim"),
	KEY(HANGS, CHOICE, "time_type", time_type,
        "the form of times in columns whose type leaves it open", .choices = time_type_names,
        .standard = "auto"),
	KEY(HANGS, TEXT, "time_zone", time_zone,
        "the zone of columns whose type has none, such as America/New_York: times are read and "
        "written in it; not given: UTC. On PostgreSQL"),
	KEY(NEVER_STARTS, SQL, "waiting", waiting,
        "which rows wait to be started; a watch may consist of these alone, without running"),
	KEY(NEVER_STARTS, SQL, "due_at", due_at,
        "since when a row could have been started. Null: it is not due"),
	KEY(NEVER_STARTS, CUSTOM, "late_after", late_after,
        "a row that is due for longer than this is `unstarted` if no job of its kind is being "
        "started: reported, unless a rule names the verdict; or by kind, with a default; or off",
        .read = read_optional_threshold),
	KEY(NEVER_STARTS, SQL, "last_run_at", last_run_at,
        "for rows that are schedules: when the last run of a row began. A row is `unstarted` if no "
        "run began since due_at, whatever the other rows do"),
	KEY(NEVER_STARTS, MAP, "wake", wake,
        "what a scan does for the watch, beside its rules, if its jobs are unstarted: their "
        "workers may have missed that there is work; it needs the ledger",
        .rows = wake_rows),
	KEY(DONE, CUSTOM, "remedies", nrules,
        "a list of rules; the first that matches applies; if not given: requeue while "
        "attempts are left, then hold",
        .read = read_rules, .rows = rule_rows),
	KEY(FIRST, CUSTOM, "requeue", actions[REMEDY_REQUEUE],
        "how to requeue a job: SET list, sql: […] or call: f(…)", .read = read_action),
	KEY(DONE, BOOL, "stays_running", stays_running,
        "true if requeue and retry cannot make `running` false, because waiting and running "
        "rows look the same; the sign of life must change instead",
        .standard = "false"),
	KEY(DONE, CUSTOM, "fail", actions[REMEDY_FAIL], "how to fail a job", .read = read_action),
	KEY(DONE, CUSTOM, "hold", actions[REMEDY_HOLD],
        "how to hold a job for an operator; if not given, in defib's own table",
        .read = read_action),
	KEY(BY_HAND, CUSTOM, "release", actions[ACT_RELEASE],
        "how an operator releases a held job; if not given, as requeue, or as retry where "
        "only that is given",
        .read = read_action),
	KEY(DONE, CUSTOM, "rollback", actions[REMEDY_ROLLBACK], "how to start undoing a job",
        .read = read_action),
	{.name = "retry",
     .type = OPT_CUSTOM,
     .offset = 0,
     .group = WATCH_KEYS_DONE,
     .read = read_retry,
     .help = "how to try again after the backoff: one SET list, or now: and then:"},
	KEY(DONE, CUSTOM, "also", also,
        "statements over the relation stuck, run in the same transaction", .read = read_statements),
	KEY(DONE, CUSTOM, "backoff", backoff, "waits between retries", .read = read_backoff,
        .rows = backoff_rows),
	KEY(DONE, CUSTOM, "crash_budget", crash_budget,
        "limit on recoveries of one job if the table has no attempts; or off",
        .read = read_crash_budget, .rows = crash_rows),
	KEY(DONE, SQL, "steps_done", steps_done,
        "expression: which steps of its workflow a row has finished, by any worker: a list of "
        "names (JSON, or text[]), or the step that it is at, before which all are finished; "
        "null: not known"),
	KEY(DONE, TEXT, "reason", reason,
        "text of the reason, with {verdict} {silent} {owner} {kind}; a masked owner stays masked",
        .standard = "Recovered by defib: {verdict} for {silent}"),
	KEY(SHOWN, TEXT_LIST, "show", show, "columns by which people know a job"),
	KEY(SHOWN, SQL, "state", state,
        "expression: the state of a row; if not given, the column that running asks about"),
	KEY(SHOWN, SQL, "since", since,
        "expression: the time from which the age in lists counts; if not given, the sign of life"),
	KEY(SHOWN, SQL, "text", text,
        "expression: the text that a search covers; if not given, the shown columns"),
	KEY(SHOWN, SQL, "search", search,
        "expression: further text that a search by `any~` covers, such as errors"),
	KEY(SHOWN, MAP, "stats", stats, "what numbers about the watch count besides states",
        .rows = stats_rows),
	KEY(SHOWN, CUSTOM, "states", states,
        "names for coded states, as a map; or a list of all states", .read = read_states),
	KEY(SHOWN, BOOL, "key_rises", key_rises,
        "true if later rows have greater keys: lists by age then use the index of the key",
        .standard = "false"),
	KEY(SCANS, BOOL, "may_be_unused", may_be_unused,
        "true if the table may never have had a running row: scans do not warn of it",
        .standard = "false"),
	KEY(SHOWN, TEXT_LIST, "mask", mask, "columns never shown in logs or to viewers"),
	KEY(SCANS, DURATION, "every", every_us, "how often the daemon scans", .standard = "60s",
        .min = 1000),
	KEY(SCANS, INT, "batch", batch, "the most rows changed in one transaction", .standard = "1000",
        .min = 1, .max = 10000),
	KEY(SCANS, INT, "limit", limit, "the most rows recovered in one scan; 0: no limit"),
	KEY(SCANS, DURATION, "statement_timeout", statement_timeout_us,
        "the time limit of every statement of a scan", .standard = "5s", .min = 1000),
	KEY(GUARDS, CUSTOM, "guard", guard, "brake and pace of the daemon; or off", .read = read_guard,
        .rows = guard_rows),
	KEY(GUARDS, CUSTOM, "raise", raise,
        "hours at which the daemon's thresholds are longer: a list of these", .read = read_raise,
        .rows = raise_rows),
	KEY(DONE, CUSTOM, "startup", startup,
        "what to do at start with rows of ended instances: recover, off, or {do, reason}",
        .read = read_startup, .rows = startup_rows),
	KEY(BY_HAND, SQL, "end_when", end_when, "which rows an operator may end"),
	KEY(BY_HAND, CUSTOM, "end", actions[ACT_END], "SET list that ends one", .read = read_set),
	KEY(BY_HAND, SQL, "cancel_when", cancel_when,
        "which rows an operator may cancel; if not given, all"),
	KEY(BY_HAND, CUSTOM, "cancel", actions[ACT_CANCEL], "SET list that asks one to stop",
        .read = read_set),
	KEY(LATE, SQL, "late_when", late_when,
        "how to tell that another worker completed the job late"),
	KEY(NEVER_ENDS, CHOICE, "learn", learn,
        "whether thresholds are suggested from observed run times", .choices = learn_names,
        .standard = "suggest"),
	KEY(WORK, CUSTOM, "work", work, "how defib's workers use this table", .read = read_work,
        .rows = work_rows),
	{.name = NULL},
};
#undef KEY

/* The origin of a value of the current map: a position, a variable. */
static const char *watch_options_origin_of(const struct cfg_reader *r, const char *name)
{
	const char *path = arena_printf(r->arena, "%s.%s", buf_text(&r->path), name);
	for (int i = r->nshown - 1; i >= 0; i--)
		if (text_eq(r->shown[i].path, path))
			return r->shown[i].origin;
	return "default";
}

/* The code of a state, if `states` gives it one; else the name is the code. */
static const char *state_code(const struct state_names *states, const char *name)
{
	for (int i = 0; i < states->n; i++)
		if (text_eq(states->names[i], name))
			return states->codes[i];
	return name;
}

static void code_limits(struct cfg_reader *r, const struct watch *w, struct state_limits *limits)
{
	const char **values = ARENA_ARRAY(r->arena, const char *, limits->n);
	for (int i = 0; i < limits->n; i++)
		values[i] = state_code(&w->states, limits->names[i]);
	limits->values = values;
}

/* Limits and remedies name states as people do; rows have codes. */
static void code_states(struct cfg_reader *r, struct watch *w)
{
	code_limits(r, w, &w->stuck_after.states);
	code_limits(r, w, &w->overdue_after.states);
	code_limits(r, w, &w->stalled_after.states);
	for (int i = 0; i < w->nrules; i++)
		if (w->rules[i].state)
			w->rules[i].state = state_code(&w->states, w->rules[i].state);
}

/*
 * A watch about waiting rows alone, such as a table of schedules. Lists and ages use the time at
 * which a row was due; nothing of it is ever judged as running.
 */
static void take_waiting_alone(struct cfg_reader *r, struct watch *w)
{
	if (!w->waiting.text) {
		report_missing(r, "running", w->at);
		return;
	}
	w->only_waits = w->may_be_unused = true;
	w->running = (struct sql_text){"false", w->waiting.at};
	w->alive_at = w->due_at;
	w->stuck_after = w->late_after;
}

void watch_read(struct cfg_reader *r, const struct cfg_node *map, struct watch *w)
{
	assert(map != NULL);
	*w = (struct watch){.at = map->at};
	cfg_read(r, watch_rows, map, w);
	if (!w->running.text)
		take_waiting_alone(r, w);
	code_states(r, w);
	if (!w->enabled)
		w->off_because =
			arena_printf(r->arena, "enabled is false (%s)", watch_options_origin_of(r, "enabled"));
}

/* ---- the `work` section of a watch: how defib's workers use its table ---- */

#define P(member) offsetof(struct pool, member)
static const struct opt_row pool_rows[] = {
	OPTION(TEXT, "kind", P(kind), "the kind this pool works on"),
	OPTION(INT, "concurrency", P(concurrency), "how many jobs of this pool run at the same time",
           .standard = "1", .min = 1, .max = 10000),
	{.name = NULL},
};
#undef P

struct pool_list {
	int n;
	struct pool *items;
};
_Static_assert(offsetof(struct work, pools) - offsetof(struct work, npools) ==
                   offsetof(struct pool_list, items) - offsetof(struct pool_list, n),
               "npools and pools are read as a struct pool_list");

static void read_pools(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct pool_list *list = target;
	if (!node)
		return;
	if (node->kind != CFG_LIST) {
		cfg_problem(r, node->at, "expects a list of pools such as {kind: crawl, concurrency: 6}");
		return;
	}
	list->items = ARENA_ARRAY(r->arena, struct pool, node->n);
	for (int i = 0; i < node->n; i++)
		cfg_read(r, pool_rows, node->items[i], &list->items[list->n++]);
}

struct burst_options {
	int64_t limit, window_us;
};
_Static_assert(offsetof(struct work, burst_window_us) - offsetof(struct work, burst_limit) ==
                   offsetof(struct burst_options, window_us),
               "burst is read as a struct burst_options");
static const struct opt_row burst_rows[] = {
	OPTION(INT, "limit", offsetof(struct burst_options, limit),
           "the most jobs a worker takes within the window after its start; 0: no limit"),
	OPTION(DURATION, "window", offsetof(struct burst_options, window_us), "the window",
           .standard = "60s"),
	{.name = NULL},
};

#define W(member) offsetof(struct work, member)
const struct opt_row work_rows[] = {
	OPTION(BOOL, "enabled", W(enabled), "whether defib's workers take jobs from this table",
           .standard = "true"),
	OPTION(SQL, "ready", W(ready), "which rows may be claimed", .required = true),
	OPTION(SQL, "order", W(order), "the order of claiming"),
	OPTION(SQL, "priority", W(priority),
           "a condition or number: rows where it is greater go first"),
	OPTION(SET, "claim", W(claim), "SET list of a claim"),
	OPTION(SET, "done", W(done), "SET list of a success"),
	OPTION(SET, "failed", W(failed), "SET list of an error"),
	OPTION(SET, "timed_out", W(timed_out), "SET list of a time-out"),
	OPTION(SET, "release", W(release),
           "SET list that releases an unfinished job; requeue if not given"),
	OPTION(SET, "retry", W(retry),
           "SET list of a failed attempt that is followed by another; if not given: release, with "
           "what failed writes of :error"),
	OPTION(TEXT, "workflow", W(workflow), "run the steps of this workflow instead of a command"),
	OPTION(SET, "step", W(step),
           "SET list of a finished step that is not the last; release if not given"),
	OPTION(SQL, "rollback_ready", W(rollback_ready), "which rows to roll back, step by step"),
	OPTION(SET, "rolled_back", W(rolled_back), "SET list of a row whose steps were undone"),
	OPTION(CUSTOM, "beat", W(beat),
           "statements at the claim and at every beat, over the relation work",
           .read = read_statements),
	OPTION(CUSTOM, "after", W(after),
           "statements when a row is settled or released, over the relation work",
           .read = read_statements),
	OPTION(INT, "batch", W(batch),
           "the most rows claimed per poll interval; 0: as many as there are free slots",
           .standard = "0", .max = 10000),
	OPTION(DURATION, "poll", W(poll_us), "how often to look for work", .standard = "1s",
           .min = POLL_LEAST_US),
	OPTION(BOOL, "startup_tick", W(startup_tick), "look for work at once at start",
           .standard = "true"),
	OPTION(DURATION, "timeout", W(timeout_us), "time limit of a job; none if not given"),
	OPTION(DURATION, "grace", W(grace_us),
           "how long a job may continue after shutdown begins or its time limit ends",
           .standard = "30s"),
	OPTION(BOOL, "exclusive", W(exclusive),
           "kill the running program when the lease ends without contact to the database",
           .standard = "false"),
	OPTION(TEXT_LIST, "command", W(command), "the program to run"),
	OPTION(CUSTOM, "pass_environment", W(pass_environment), PASS_ENVIRONMENT_HELP,
           .read = read_pass_environment),
	OPTION(TEXT, "spool", W(spool),
           "directory where results wait while the database is unavailable, or off; the state "
           "directory if not given"),
	OPTION(TEXT, "no_session_error", W(no_session_error),
           "the error of a job whose program got no session (exit code 69), three times",
           .standard = NO_SESSION_ERROR),
	OPTION(TEXT, "unrecorded_message", W(unrecorded_message),
           "start of the critical log line that names a job whose result could not be recorded",
           .standard = UNRECORDED_MESSAGE),
	OPTION(INT, "concurrency", W(concurrency), "jobs at once", .standard = "1", .min = 1,
           .max = 10000),
	OPTION(CUSTOM, "pools", W(npools), "instead of concurrency: pools by kind", .read = read_pools),
	OPTION(DURATION, "stagger", W(stagger_us), "pause between the start of one worker and the next",
           .standard = "0s"),
	OPTION(MAP, "burst", W(burst_limit), "limit on what a worker takes just after its start",
           .rows = burst_rows),
	{.name = NULL},
};
#undef W

void read_work(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct work *w = target;
	if (!node)
		return;
	cfg_read(r, work_rows, node, w);
	w->given = true;
}

/* ---- all SQL of a watch ---- */

static void each_sql(const struct opt_row *rows, const char *prefix, const void *of,
                     watch_sql_fn *fn, void *ctx)
{
	for (; rows->name; rows++) {
		const void *at = (const char *)of + rows->offset;
		char option[64];
		snprintf(option, sizeof option, "%s%s%s", prefix, rows->name, rows->rows ? "." : "");
		if (rows->type == OPT_SQL || rows->type == OPT_SET)
			fn(ctx, option, at, rows->type == OPT_SET);
		else if (rows->type == OPT_MAP && rows->rows)
			each_sql(rows->rows, option, at, fn, ctx);
	}
}

void watch_each_sql(const struct watch *w, watch_sql_fn *fn, void *ctx)
{
	each_sql(watch_rows, "", w, fn, ctx);
	fn(ctx, "stuck_after.sql", &w->stuck_after.own, false);
	fn(ctx, "overdue_after.sql", &w->overdue_after.own, false);
	fn(ctx, "stalled_after.sql", &w->stalled_after.own, false);
	each_sql(work_rows, "work.", &w->work, fn, ctx);
}
