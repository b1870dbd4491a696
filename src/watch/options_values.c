/* SPDX-License-Identifier: Apache-2.0
 * options_values.c: readers of a watch's richer values: thresholds by kind,
 * actions, rules, states, and what may be a map or the word off.
 */
#include "watch/options_values.h"

#include "base/program_env.h"
#include "base/text.h"

#include <string.h>

/* ---- thresholds: "60m", or {scrape: 300s, default: 1800s} ---- */

void read_threshold(struct cfg_reader *r, const struct cfg_node *node, void *target)
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
		cfg_problem(r, node->at,
		            "a threshold by kind needs a default, for kinds that are not listed");
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

void read_statements(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct sql_list *list = target;
	*list = (struct sql_list){0};
	if (node)
		list->n = read_sql_list(r, node, &list->items);
}

/* ---- actions: a SET list, {sql: […]}, {call: f(…)} ---- */

void read_action(struct cfg_reader *r, const struct cfg_node *node, void *target)
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
		cfg_problem(r, node->at, "expects a SET list, or sql: [statements], or call: function(…)");
	} else if (sql) {
		a->form = ACTION_SQL;
		a->n = read_sql_list(r, sql, &a->sql);
	} else {
		a->form = ACTION_CALL;
		cfg_sql(r, call, &a->set);
	}
}

/* Where only a SET list will do. */
void read_set(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct action *a = target;
	*a = (struct action){0};
	if (node && cfg_sql(r, node, &a->set))
		a->form = ACTION_SET;
}

/* `retry` may also be {now: SET list, then: SET list}. */
void read_retry(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct watch *w = target;
	struct cfg_node *now = node ? cfg_get(node, "now") : NULL;
	w->actions[ACT_THEN] = (struct action){0};
	if (!now) {
		read_action(r, node, &w->actions[REMEDY_RETRY]);
		return;
	}
	struct cfg_node *then = cfg_get(node, "then");
	read_action(r, now, &w->actions[REMEDY_RETRY]);
	if (!then || node->n != 2)
		cfg_problem(r, node->at, "retry expects one SET list, or now: and then: with one each");
	else
		read_set(r, then, &w->actions[ACT_THEN]);
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
const struct opt_row rule_rows[] = {
	{.name = "verdict",
     .type = OPT_CHOICE,
     .offset = O(verdict),
     .choices = verdict_names,
     .standard = "none",
     .help = "only for this verdict"},
	{.name = "kind", .type = OPT_TEXT, .offset = O(kind), .help = "only for this kind"},
	{.name = "attempts",
     .type = OPT_CHOICE,
     .offset = O(attempts),
     .choices = attempts_names,
     .standard = "any",
     .help = "only while attempts are left, or when they are exhausted"},
	{.name = "crashes",
     .type = OPT_INT,
     .offset = O(crashes),
     .help = "only from this number of crashes on, this one included"},
	{.name = "when",
     .type = OPT_SQL,
     .offset = O(when),
     .help = "only where this SQL condition holds for the row"},
	{.name = "do",
     .type = OPT_CHOICE,
     .offset = O(remedy),
     .choices = remedy_names,
     .required = true,
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

void read_rules(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct rule_list *list = target;
	*list = (struct rule_list){0};
	if (!node)
		return;
	if (node->kind != CFG_LIST || node->n < 1 || node->n > WATCH_RULES_MAX) {
		cfg_problem(r, node->at,
		            "expects a list of 1 to %d rules such as {attempts: left, do: requeue}",
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

void read_states(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct state_names *s = target;
	*s = (struct state_names){0};
	if (!node)
		return;
	if (node->kind != CFG_MAP && node->kind != CFG_LIST) {
		cfg_problem(r, node->at, "expects a map of codes to names such as {3: COMPLETE}");
		return;
	}
	s->all = node->kind == CFG_LIST;
	s->codes = ARENA_ARRAY(r->arena, const char *, node->n);
	s->names = ARENA_ARRAY(r->arena, const char *, node->n + 1);
	for (int i = 0; i < node->n; i++) {
		if (!cfg_text(r, node->items[i], &s->names[s->n]))
			continue;
		s->codes[s->n] = s->all ? s->names[s->n] : node->keys[i];
		s->n++;
	}
}

/* ---- startup: recover | off | {do: fail, reason: …} ---- */

struct startup_options {
	bool enabled;
	int remedy;
	const char *reason;
};
const struct opt_row startup_rows[] = {
	{.name = "enabled",
     .type = OPT_BOOL,
     .offset = offsetof(struct startup_options, enabled),
     .standard = "true",
     .help = "false is the same as startup: off, and can come from the environment"},
	{.name = "do",
     .type = OPT_CHOICE,
     .offset = offsetof(struct startup_options, remedy),
     .choices = remedy_names,
     .required = true,
     .help = "the remedy for rows of ended instances"},
	{.name = "reason",
     .type = OPT_TEXT,
     .offset = offsetof(struct startup_options, reason),
     .help = "the reason to record"},
	{.name = NULL},
};

void read_startup(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct startup *s = target;
	const char *word = "recover";
	*s = (struct startup){.mode = STARTUP_RECOVER};
	if (node && node->kind == CFG_MAP) {
		struct startup_options o = {0};
		cfg_read(r, startup_rows, node, &o);
		enum startup_mode mode = o.enabled ? STARTUP_DO : STARTUP_OFF;
		*s = (struct startup){mode, (enum remedy)o.remedy, o.reason};
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
const struct opt_row crash_rows[] = {
	{.name = "max",
     .type = OPT_INT,
     .offset = C(max),
     .standard = "3",
     .help = "this many recoveries within the time hold the job as poison"},
	{.name = "within",
     .type = OPT_DURATION,
     .offset = C(within_us),
     .standard = "72h",
     .help = "the time within which recoveries count"},
	{.name = NULL},
};
#undef C

#define G(member) offsetof(struct guard_limits, member)
const struct opt_row guard_rows[] = {
	{.name = "brake_share",
     .type = OPT_NUMBER,
     .offset = G(brake_share),
     .standard = "0.55",
     .help = "share of beating owners that fall silent at once before the brake holds"},
	{.name = "brake_owners",
     .type = OPT_INT,
     .offset = G(brake_owners),
     .standard = "2",
     .help = "the brake needs more silent owners than this"},
	{.name = "brake_ceiling",
     .type = OPT_DURATION,
     .offset = G(brake_ceiling_us),
     .standard = "10m",
     .help = "the brake releases after this at the latest"},
	{.name = "pace",
     .type = OPT_NUMBER,
     .offset = G(pace_per_s),
     .standard = "50",
     .help = "recovered jobs per second at first"},
	{.name = "burst",
     .type = OPT_INT,
     .offset = G(pace_burst),
     .standard = "100",
     .help = "jobs recovered at once before pacing starts"},
	{.name = NULL},
};
#undef G

/* True when the node is the word off (or none, no, false). */
static bool says_off(const struct cfg_node *node)
{
	bool on;
	return node && node->kind == CFG_SCALAR && bool_parse(node->text, &on) && !on;
}

void read_crash_budget(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct crash_budget *c = target;
	bool off = says_off(node);
	cfg_read(r, crash_rows, off ? NULL : node, c);
	c->given = node != NULL;
	if (off)
		c->max = 0;
}

void read_guard(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct guard_limits *g = target;
	bool off = says_off(node);
	cfg_read(r, guard_rows, off ? NULL : node, g);
	g->off = off;
}

#define B(member) offsetof(struct backoff, member)
const struct opt_row backoff_rows[] = {
	{.name = "base",
     .type = OPT_DURATION,
     .offset = B(base_us),
     .standard = "60s",
     .help = "wait before the first retry"},
	{.name = "factor",
     .type = OPT_NUMBER,
     .offset = B(factor),
     .standard = "2",
     .help = "each further wait is this many times longer"},
	{.name = "cap",
     .type = OPT_DURATION,
     .offset = B(cap_us),
     .standard = "1h",
     .help = "no wait is longer"},
	{.name = "jitter",
     .type = OPT_BOOL,
     .offset = B(jitter),
     .standard = "false",
     .help = "spread waits at random between zero and their full length"},
	{.name = NULL},
};
#undef B

void read_backoff(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct backoff *b = target;
	cfg_read(r, backoff_rows, node, b);
	b->given = node != NULL;
}

/* ---- the environment of programs ---- */

void read_pass_environment(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct text_list *list = target;
	*list = (struct text_list){0};
	if (!node || !cfg_text_items(r, node, list))
		return;
	for (int i = 0; i < list->n; i++) {
		const char *entry = list->items[i], *equals = strchr(entry, '=');
		size_t n = equals ? (size_t)(equals - entry) : strlen(entry);
		if (program_env_entry_ok(entry))
			cfg_show(r, arena_strndup(r->arena, entry, n), node->at, equals ? "***" : "passed on");
		else
			cfg_problem(r, node->at, "\"%.*s\" is not a variable name; write NAME or NAME=value",
			            (int)n, entry);
	}
}

const char *const *pass_environment_both(const struct text_list *a, const struct text_list *b,
                                         struct arena *arena)
{
	const char **all = ARENA_ARRAY(arena, const char *, a->n + b->n + 1);
	for (int i = 0; i < a->n; i++)
		all[i] = a->items[i];
	for (int i = 0; i < b->n; i++)
		all[a->n + i] = b->items[i];
	return all;
}
