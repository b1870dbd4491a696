/*
 * options.c: the option table of a watch, and the readers of its richer
 * values: thresholds by kind, actions, rules, states, pools.
 */
#include "watch/watch.h"

#include "base/clock.h"
#include "base/text.h"

#include <assert.h>

/* ---- thresholds: "60m", or {scrape: 300s, default: 1800s} ---- */

static void read_threshold(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct threshold *t = target;
	*t = (struct threshold){0};
	if (!node)
		return;
	t->given = true;
	if (node->kind != CFG_MAP) {
		cfg_duration(r, node, &t->standard_us);
		return;
	}
	t->kinds = ARENA_ARRAY(r->arena, const char *, node->n);
	t->us = ARENA_ARRAY(r->arena, int64_t, node->n);
	bool standard = false;
	for (int i = 0; i < node->n; i++) {
		int64_t us = 0;
		if (!cfg_duration(r, node->items[i], &us))
			continue;
		if (text_eq(node->keys[i], "default")) {
			t->standard_us = us;
			standard = true;
		} else {
			t->kinds[t->n] = node->keys[i];
			t->us[t->n++] = us;
		}
	}
	if (!standard)
		cfg_problem(r, node->at, "a threshold by kind needs a default, for kinds that are not listed");
}

bool threshold_for(const struct threshold *t, const char *kind, int64_t *us)
{
	if (!t->given)
		return false;
	*us = t->standard_us;
	for (int i = 0; kind && i < t->n; i++)
		if (text_eq(t->kinds[i], kind))
			*us = t->us[i];
	return true;
}

int64_t threshold_least(const struct threshold *t)
{
	int64_t least = t->standard_us;
	for (int i = 0; i < t->n; i++)
		if (t->us[i] < least)
			least = t->us[i];
	return least;
}

const struct sql_text *watch_sign(const struct watch *w, enum sign s)
{
	const struct sql_text *const signs[] = {&w->alive_at, &w->expires_at, &w->started_at};
	assert(s >= 0 && s < SIGN_COUNT);
	return signs[s];
}

enum sign watch_first_sign(const struct watch *w)
{
	for (int sign = 0; sign < SIGN_COUNT; sign++)
		if (watch_sign(w, (enum sign)sign)->text)
			return (enum sign)sign;
	return SIGN_ALIVE;
}

bool watch_has_attempts(const struct watch *w)
{
	return w->attempts.text && w->max_attempts.text;
}

/* ---- lists of SQL ---- */

static int read_sql_list(struct cfg_reader *r, const struct cfg_node *node, struct sql_text **out)
{
	int n = node->kind == CFG_LIST ? node->n : 1, kept = 0;
	*out = ARENA_ARRAY(r->arena, struct sql_text, n);
	for (int i = 0; i < n; i++)
		if (cfg_sql(r, node->kind == CFG_LIST ? node->items[i] : node, &(*out)[kept]))
			kept++;
	return kept;
}

struct sql_list {
	int n;
	struct sql_text *items;
};
/* `also` is read as one struct; it must look like the pair of members in struct watch. */
_Static_assert(offsetof(struct watch, also) - offsetof(struct watch, nalso) ==
                   offsetof(struct sql_list, items) - offsetof(struct sql_list, n),
               "nalso and also are read as a struct sql_list");

static void read_also(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct sql_list *list = target;
	*list = (struct sql_list){0};
	if (node)
		list->n = read_sql_list(r, node, &list->items);
}

/* ---- actions: a SET list, {sql: […]}, {call: f(…)} ---- */

static void read_action(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct action *a = target;
	*a = (struct action){0};
	if (!node)
		return;
	if (node->kind == CFG_SCALAR) {
		a->form = ACTION_SET;
		cfg_sql(r, node, &a->set);
		return;
	}
	struct cfg_node *sql = cfg_get(node, "sql"), *call = cfg_get(node, "call");
	if (node->kind != CFG_MAP || node->n != 1 || (!sql && !call)) {
		cfg_problem(r, node->at,
		            "expects a SET list, or sql: [statements], or call: function(…)");
	} else if (sql) {
		a->form = ACTION_SQL;
		a->n = read_sql_list(r, sql, &a->sql);
	} else {
		a->form = ACTION_CALL;
		cfg_sql(r, call, &a->set);
	}
}

/* `retry` may also be {now: SET list, then: SET list}. */
static void read_retry(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct watch *w = target;
	struct cfg_node *now = node ? cfg_get(node, "now") : NULL;
	w->retry_then = (struct sql_text){0};
	if (!now) {
		read_action(r, node, &w->actions[REMEDY_RETRY]);
		return;
	}
	struct cfg_node *then = cfg_get(node, "then");
	read_action(r, now, &w->actions[REMEDY_RETRY]);
	if (!then || node->n != 2)
		cfg_problem(r, node->at, "retry expects one SET list, or now: and then: with one each");
	else
		cfg_sql(r, then, &w->retry_then);
}

/* ---- rules ---- */

static const char *const attempts_names[] = {"any", "left", "exhausted", NULL};

struct rule_options {
	int verdict, attempts, remedy;
	const char *kind;
	int64_t crashes;
	struct sql_text when;
};

#define O(member) offsetof(struct rule_options, member)
static const struct opt_row rule_rows[] = {
    {.name = "verdict", .type = OPT_CHOICE, .offset = O(verdict), .choices = verdict_names,
     .standard = "none", .help = "only for this verdict"},
    {.name = "kind", .type = OPT_TEXT, .offset = O(kind), .help = "only for this kind"},
    {.name = "attempts", .type = OPT_CHOICE, .offset = O(attempts), .choices = attempts_names,
     .standard = "any", .help = "only while attempts are left, or when they are exhausted"},
    {.name = "crashes", .type = OPT_INT, .offset = O(crashes),
     .help = "only from so many crashes on, this one included"},
    {.name = "when", .type = OPT_SQL, .offset = O(when), .help = "only where this SQL is true of the row"},
    {.name = "do", .type = OPT_CHOICE, .offset = O(remedy), .choices = remedy_names, .required = true,
     .help = "the remedy"},
    {.name = NULL},
};
#undef O

struct rule_list {
	int n;
	struct rule *items;
};
_Static_assert(offsetof(struct watch, rules) - offsetof(struct watch, nrules) ==
                   offsetof(struct rule_list, items) - offsetof(struct rule_list, n),
               "nrules and rules are read as a struct rule_list");

static void read_rules(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct rule_list *list = target;
	*list = (struct rule_list){0};
	if (!node)
		return;
	if (node->kind != CFG_LIST || node->n < 1 || node->n > WATCH_RULES_MAX) {
		cfg_problem(r, node->at, "expects a list of 1 to %d rules such as {attempts: left, do: requeue}",
		            WATCH_RULES_MAX);
		return;
	}
	list->items = ARENA_ARRAY(r->arena, struct rule, node->n);
	for (int i = 0; i < node->n; i++) {
		struct rule_options o = {0};
		char number[16];
		snprintf(number, sizeof number, "%d", i + 1);
		size_t mark = cfg_enter(r, number);
		cfg_read(r, rule_rows, node->items[i], &o);
		cfg_leave(r, mark);
		list->items[list->n++] = (struct rule){
		    .verdict = (enum verdict)o.verdict,
		    .kind = o.kind,
		    .attempts = (enum attempts_term)o.attempts,
		    .crashes = o.crashes,
		    .when = o.when,
		    .remedy = (enum remedy)o.remedy,
		    .at = node->items[i]->at,
		};
	}
}

/* ---- names of coded states: {3: COMPLETE} ---- */

static void read_states(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct state_names *s = target;
	*s = (struct state_names){0};
	if (!node)
		return;
	if (node->kind != CFG_MAP) {
		cfg_problem(r, node->at, "expects a map of codes to names such as {3: COMPLETE}");
		return;
	}
	s->codes = ARENA_ARRAY(r->arena, const char *, node->n);
	s->names = ARENA_ARRAY(r->arena, const char *, node->n);
	for (int i = 0; i < node->n; i++) {
		if (!cfg_text(r, node->items[i], &s->names[s->n]))
			continue;
		s->codes[s->n++] = node->keys[i];
	}
}

/* ---- startup: recover | off | {do: fail, reason: …} ---- */

struct startup_options {
	int remedy;
	const char *reason;
};
static const struct opt_row startup_rows[] = {
    {.name = "do", .type = OPT_CHOICE, .offset = offsetof(struct startup_options, remedy),
     .choices = remedy_names, .required = true, .help = "the remedy for rows of gone instances"},
    {.name = "reason", .type = OPT_TEXT, .offset = offsetof(struct startup_options, reason),
     .help = "the reason that is written"},
    {.name = NULL},
};

static void read_startup(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct startup *s = target;
	const char *word = "recover";
	*s = (struct startup){.mode = STARTUP_RECOVER};
	if (node && node->kind == CFG_MAP) {
		struct startup_options o = {0};
		cfg_read(r, startup_rows, node, &o);
		*s = (struct startup){STARTUP_DO, (enum remedy)o.remedy, o.reason};
		return;
	}
	bool on;
	if (!node || !cfg_text(r, node, &word) || text_eq(word, "recover"))
		return;
	if (bool_parse(word, &on))
		s->mode = on ? STARTUP_RECOVER : STARTUP_OFF;
	else
		cfg_problem(r, node->at, "expects recover, off, or {do: REMEDY, reason: TEXT}");
}

/* ---- crash_budget, guard: a map, or off ---- */

#define C(member) offsetof(struct crash_budget, member)
static const struct opt_row crash_rows[] = {
    {.name = "max", .type = OPT_INT, .offset = C(max), .standard = "3",
     .help = "this many recoveries within the time hold the job as poison"},
    {.name = "within", .type = OPT_DURATION, .offset = C(within_us), .standard = "72h",
     .help = "the time that counts"},
    {.name = NULL},
};
#undef C

#define G(member) offsetof(struct guard, member)
static const struct opt_row guard_rows[] = {
    {.name = "brake_share", .type = OPT_NUMBER, .offset = G(brake_share), .standard = "0.55",
     .help = "share of beating owners that fall silent at once before the brake holds"},
    {.name = "brake_owners", .type = OPT_INT, .offset = G(brake_owners), .standard = "2",
     .help = "the brake needs more silent owners than this"},
    {.name = "brake_ceiling", .type = OPT_DURATION, .offset = G(brake_ceiling_us), .standard = "10m",
     .help = "the brake lets go after this at the latest"},
    {.name = "pace", .type = OPT_NUMBER, .offset = G(pace_per_s), .standard = "50",
     .help = "recovered jobs a second that the daemon gives back at first"},
    {.name = "burst", .type = OPT_INT, .offset = G(pace_burst), .standard = "100",
     .help = "jobs that are given back at once before pacing starts"},
    {.name = NULL},
};
#undef G

/* True when the node is the word off (or none, no, false). */
static bool says_off(const struct cfg_node *node)
{
	bool on;
	return node && node->kind == CFG_SCALAR && bool_parse(node->text, &on) && !on;
}

static void read_crash_budget(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct crash_budget *c = target;
	bool off = says_off(node);
	cfg_read(r, crash_rows, off ? NULL : node, c);
	c->given = node != NULL;
	if (off)
		c->max = 0;
}

static void read_guard(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct guard *g = target;
	bool off = says_off(node);
	cfg_read(r, guard_rows, off ? NULL : node, g);
	g->off = off;
}

/* ---- the work part ---- */

#define P(member) offsetof(struct pool, member)
static const struct opt_row pool_rows[] = {
    {.name = "kind", .type = OPT_TEXT, .offset = P(kind), .help = "the kind this pool works on"},
    {.name = "concurrency", .type = OPT_INT, .offset = P(concurrency), .standard = "1", .min = 1,
     .max = 10000, .help = "jobs at once in this pool"},
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
	*list = (struct pool_list){0};
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
    {.name = "limit", .type = OPT_INT, .offset = offsetof(struct burst_options, limit),
     .help = "jobs a worker takes at most within the window after its start; 0: no limit"},
    {.name = "window", .type = OPT_DURATION, .offset = offsetof(struct burst_options, window_us),
     .standard = "60s", .help = "the window"},
    {.name = NULL},
};

#define W(member) offsetof(struct work, member)
static const struct opt_row work_rows[] = {
    {.name = "enabled", .type = OPT_BOOL, .offset = W(enabled), .standard = "true",
     .help = "whether defib's workers take jobs from this table"},
    {.name = "ready", .type = OPT_SQL, .offset = W(ready), .required = true,
     .help = "which rows may be claimed"},
    {.name = "order", .type = OPT_SQL, .offset = W(order), .help = "which of them first"},
    {.name = "priority", .type = OPT_SQL, .offset = W(priority),
     .help = "a condition or number: rows where it is greater go first"},
    {.name = "claim", .type = OPT_SQL, .offset = W(claim), .help = "SET list of a claim"},
    {.name = "done", .type = OPT_SQL, .offset = W(done), .help = "SET list of a success"},
    {.name = "failed", .type = OPT_SQL, .offset = W(failed), .help = "SET list of an error"},
    {.name = "timed_out", .type = OPT_SQL, .offset = W(timed_out), .help = "SET list of a time-out"},
    {.name = "release", .type = OPT_SQL, .offset = W(release),
     .help = "SET list that hands an unfinished job back"},
    {.name = "batch", .type = OPT_INT, .offset = W(batch), .standard = "10", .min = 1, .max = 10000,
     .help = "rows a claim takes at most"},
    {.name = "poll", .type = OPT_DURATION, .offset = W(poll_us), .standard = "1s",
     .help = "how often to look for work"},
    {.name = "startup_tick", .type = OPT_BOOL, .offset = W(startup_tick), .standard = "true",
     .help = "look for work at once at start"},
    {.name = "timeout", .type = OPT_DURATION, .offset = W(timeout_us),
     .help = "time limit of a job; none if not given"},
    {.name = "grace", .type = OPT_DURATION, .offset = W(grace_us), .standard = "30s",
     .help = "how long a job may go on at shutdown or after its time limit"},
    {.name = "exclusive", .type = OPT_BOOL, .offset = W(exclusive), .standard = "false",
     .help = "kill the work when the lease ends without contact"},
    {.name = "command", .type = OPT_TEXT_LIST, .offset = W(command), .help = "the program to run"},
    {.name = "concurrency", .type = OPT_INT, .offset = W(concurrency), .standard = "1", .min = 1,
     .max = 10000, .help = "jobs at once"},
    {.name = "pools", .type = OPT_CUSTOM, .offset = W(npools), .read = read_pools,
     .help = "instead of concurrency: pools by kind"},
    {.name = "stagger", .type = OPT_DURATION, .offset = W(stagger_us), .standard = "0s",
     .help = "pause between the start of one worker and the next"},
    {.name = "burst", .type = OPT_MAP, .offset = W(burst_limit), .rows = burst_rows,
     .help = "limit on what a worker takes just after its start"},
    {.name = NULL},
};
#undef W

static void read_work(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct work *w = target;
	*w = (struct work){0};
	if (!node)
		return;
	cfg_read(r, work_rows, node, w);
	w->given = true;
}

/* ---- the watch ---- */

#define B(member) offsetof(struct backoff, member)
static const struct opt_row backoff_rows[] = {
    {.name = "base", .type = OPT_DURATION, .offset = B(base_us), .standard = "60s",
     .help = "wait before the first retry"},
    {.name = "factor", .type = OPT_NUMBER, .offset = B(factor), .standard = "2",
     .help = "each further wait is this many times longer"},
    {.name = "cap", .type = OPT_DURATION, .offset = B(cap_us), .standard = "1h",
     .help = "no wait is longer"},
    {.name = "jitter", .type = OPT_BOOL, .offset = B(jitter), .standard = "false",
     .help = "spread waits at random between zero and their full length"},
    {.name = NULL},
};
#undef B

static void read_backoff(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct backoff *b = target;
	cfg_read(r, backoff_rows, node, b);
	b->given = node != NULL;
}

static const char *const missing_names[] = {"alive", "orphan", NULL};
static const char *const learn_names[] = {"off", "suggest", NULL};

#define W(member) offsetof(struct watch, member)
#define ACTION(remedy) (offsetof(struct watch, actions) + (remedy) * sizeof(struct action))
const struct opt_row watch_rows[] = {
    {.name = "name", .type = OPT_TEXT, .offset = W(name), .required = true,
     .help = "the watch's name"},
    {.name = "preset", .type = OPT_TEXT, .offset = W(preset),
     .help = "start from a shipped watch; other keys override"},
    {.name = "database", .type = OPT_TEXT, .offset = W(database),
     .help = "name of its database; the first one if not given"},
    {.name = "enabled", .type = OPT_BOOL, .offset = W(enabled), .standard = "true",
     .help = "whether the watch is on"},
    {.name = "group", .type = OPT_TEXT, .offset = W(group),
     .help = "watches of one group are summed in reports"},
    {.name = "label", .type = OPT_TEXT, .offset = W(label), .help = "name in reports"},
    {.name = "table", .type = OPT_TEXT, .offset = W(table), .required = true,
     .help = "the table, with its schema if need be"},
    {.name = "key", .type = OPT_TEXT_LIST, .offset = W(key), .required = true,
     .help = "the column, or list of columns, that names a row"},
    {.name = "running", .type = OPT_SQL, .offset = W(running), .required = true,
     .help = "which rows are being worked on"},
    {.name = "alive_at", .type = OPT_SQL, .offset = W(alive_at), .help = "last sign of life"},
    {.name = "expires_at", .type = OPT_SQL, .offset = W(expires_at),
     .help = "a deadline; stuck_after is slack then"},
    {.name = "started_at", .type = OPT_SQL, .offset = W(started_at),
     .help = "start of the run, for overdue_after"},
    {.name = "missing", .type = OPT_CHOICE, .offset = W(missing), .choices = missing_names,
     .standard = "alive", .help = "what a null sign of life means"},
    {.name = "stuck_after", .type = OPT_CUSTOM, .offset = W(stuck_after), .read = read_threshold,
     .help = "silence longer than this is stuck; or by kind, with a default"},
    {.name = "overdue_after", .type = OPT_CUSTOM, .offset = W(overdue_after), .read = read_threshold,
     .help = "a run longer than this is stuck; or by kind, with a default"},
    {.name = "beat", .type = OPT_DURATION, .offset = W(beat_us), .help = "how often the owner beats"},
    {.name = "kind", .type = OPT_SQL, .offset = W(kind), .help = "expression: the kind of a row"},
    {.name = "owner", .type = OPT_SQL, .offset = W(owner), .help = "expression: the worker that has it"},
    {.name = "owner_alive", .type = OPT_SQL, .offset = W(owner_alive),
     .help = "expression: is that worker alive (null: unknown)"},
    {.name = "attempts", .type = OPT_SQL, .offset = W(attempts),
     .help = "expression: attempts so far"},
    {.name = "max_attempts", .type = OPT_SQL, .offset = W(max_attempts),
     .help = "number or expression: attempts allowed"},
    {.name = "time_type", .type = OPT_CHOICE, .offset = W(time_type), .choices = time_type_names,
     .standard = "auto", .help = "how the table writes time"},
    {.name = "remedies", .type = OPT_CUSTOM, .offset = W(nrules), .read = read_rules,
     .help = "ordered rules; default: requeue while attempts are left, then hold"},
    {.name = "requeue", .type = OPT_CUSTOM, .offset = ACTION(REMEDY_REQUEUE), .read = read_action,
     .help = "how to give a job back: SET list, sql: […] or call: f(…)"},
    {.name = "fail", .type = OPT_CUSTOM, .offset = ACTION(REMEDY_FAIL), .read = read_action,
     .help = "how to fail a job"},
    {.name = "hold", .type = OPT_CUSTOM, .offset = ACTION(REMEDY_HOLD), .read = read_action,
     .help = "how to keep a job for a person; if not given, in defib's own table"},
    {.name = "rollback", .type = OPT_CUSTOM, .offset = ACTION(REMEDY_ROLLBACK), .read = read_action,
     .help = "how to start undoing a job"},
    {.name = "retry", .type = OPT_CUSTOM, .offset = 0, .read = read_retry,
     .help = "how to try again after the backoff: one SET list, or now: and then:"},
    {.name = "also", .type = OPT_CUSTOM, .offset = W(nalso), .read = read_also,
     .help = "statements over stuck in the same transaction"},
    {.name = "backoff", .type = OPT_CUSTOM, .offset = W(backoff), .read = read_backoff,
     .rows = backoff_rows, .help = "waits between retries"},
    {.name = "crash_budget", .type = OPT_CUSTOM, .offset = W(crash_budget), .read = read_crash_budget,
     .rows = crash_rows, .help = "bound on recoveries of one job where the table has no attempts; or off"},
    {.name = "reason", .type = OPT_TEXT, .offset = W(reason),
     .standard = "Recovered by defib: {verdict} for {silent}",
     .help = "text, with {verdict} {silent} {owner} {kind}"},
    {.name = "show", .type = OPT_TEXT_LIST, .offset = W(show),
     .help = "columns that name a job to a person"},
    {.name = "states", .type = OPT_CUSTOM, .offset = W(states), .read = read_states,
     .help = "names for coded states"},
    {.name = "mask", .type = OPT_TEXT_LIST, .offset = W(mask),
     .help = "columns never shown in logs or to viewers"},
    {.name = "every", .type = OPT_DURATION, .offset = W(every_us), .standard = "60s",
     .help = "how often the daemon scans"},
    {.name = "batch", .type = OPT_INT, .offset = W(batch), .standard = "1000", .min = 1, .max = 10000,
     .help = "rows changed in one transaction at most"},
    {.name = "limit", .type = OPT_INT, .offset = W(limit),
     .help = "rows recovered in one scan at most; 0: no limit"},
    {.name = "statement_timeout", .type = OPT_DURATION, .offset = W(statement_timeout_us),
     .standard = "5s", .help = "no statement of ours runs longer"},
    {.name = "guard", .type = OPT_CUSTOM, .offset = W(guard), .read = read_guard, .rows = guard_rows,
     .help = "brake and pace of the daemon; or off"},
    {.name = "startup", .type = OPT_CUSTOM, .offset = W(startup), .read = read_startup,
     .rows = startup_rows, .help = "rows of gone instances at start: recover, off, or {do, reason}"},
    {.name = "end_when", .type = OPT_SQL, .offset = W(end_when), .help = "which rows may be ended"},
    {.name = "end", .type = OPT_SQL, .offset = W(end), .help = "SET list that ends one"},
    {.name = "cancel", .type = OPT_SQL, .offset = W(cancel), .help = "SET list that asks one to stop"},
    {.name = "late_when", .type = OPT_SQL, .offset = W(late_when),
     .help = "how a late completion by a foreign worker shows"},
    {.name = "learn", .type = OPT_CHOICE, .offset = W(learn), .choices = learn_names,
     .standard = "suggest", .help = "whether thresholds are suggested from observed run times"},
    {.name = "work", .type = OPT_CUSTOM, .offset = W(work), .read = read_work, .rows = work_rows,
     .help = "how defib's workers use this table"},
    {.name = NULL},
};
#undef W
#undef ACTION

void watch_read(struct cfg_reader *r, const struct cfg_node *map, struct watch *w)
{
	assert(map != NULL);
	*w = (struct watch){.at = map->at};
	cfg_read(r, watch_rows, map, w);
}
