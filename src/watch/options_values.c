/* SPDX-License-Identifier: Apache-2.0
 * options_values.c: readers for a watch's structured values: thresholds by kind, actions, rules,
 * states, and options that are a map or the word off.
 */
#include "watch/options_values.h"

#include "base/clock.h"
#include "base/program_env.h"

#include <assert.h>

/* True when the node is the word off (or none, no, false). */
static bool says_off(const struct cfg_node *node)
{
	bool on;
	return node && node->kind == CFG_SCALAR && bool_parse(node->text, &on) && !on;
}

/*
 * ---- thresholds ----
 *
 *   60m                                          for all rows
 *   {scrape: 300s, default: 1800s}               by kind
 *   {state: {cancelling: 5m}, kind: {scrape: 300s}, sql: timeout, default: 1800s}
 *
 * The keys of the second form are kinds. It is the third form if `sql` is there, or if `state` or
 * `kind` is a map.
 */

/* Durations by name; `standard` takes the one called default, NULL: there is none. */
struct duration_map {
	int n;
	const char **names;
	int64_t *us;
	int64_t *standard;
	bool has_standard;
};

static void read_durations(struct cfg_reader *r, const struct cfg_node *map,
                           struct duration_map *out)
{
	out->names = ARENA_ARRAY(r->arena, const char *, map->n);
	out->us = ARENA_ARRAY(r->arena, int64_t, map->n);
	for (int i = 0; i < map->n; i++) {
		int64_t us = 0;
		if (!cfg_duration(r, map->items[i], &us))
			continue;
		if (out->standard && text_eq(map->keys[i], "default")) {
			*out->standard = us;
			out->has_standard = true;
		} else {
			out->names[out->n] = map->keys[i];
			out->us[out->n++] = us;
		}
	}
}

static void need_default(struct cfg_reader *r, const struct cfg_node *node)
{
	cfg_problem(r, node->at,
	            "a threshold by kind, state or row needs a default, for all that are not listed");
}

static void read_threshold_by_kind(struct cfg_reader *r, const struct cfg_node *node,
                                   struct threshold *t)
{
	struct duration_map kinds = {.standard = &t->standard_us};
	read_durations(r, node, &kinds);
	t->n = kinds.n;
	t->kinds = kinds.names;
	t->us = kinds.us;
	if (!kinds.has_standard)
		need_default(r, node);
}

/* The part `name` of a threshold, which is a map of durations. */
static void read_limits_by_name(struct cfg_reader *r, const struct cfg_node *node, const char *name,
                                struct duration_map *out)
{
	const struct cfg_node *map = cfg_get(node, name);
	if (!map)
		return;
	if (map->kind == CFG_MAP)
		read_durations(r, map, out);
	else
		cfg_problem(r, map->at, "%s expects a map such as {NAME: 5m}", name);
}

static void read_own_limit(struct cfg_reader *r, const struct cfg_node *node, struct threshold *t)
{
	int64_t us;
	if (!node)
		return;
	if (node->kind == CFG_SCALAR && duration_parse(node->text, &us))
		cfg_problem(r, node->at,
		            "sql expects an expression of the row, such as sql: timeout_s; a kind of this "
		            "name is written as kind: {sql: %s}",
		            node->text);
	else
		cfg_sql(r, node, &t->own);
}

static void read_threshold_by_row(struct cfg_reader *r, const struct cfg_node *node,
                                  struct threshold *t)
{
	static const char *const keys[] = {"default", "kind", "sql", "state", NULL};
	struct duration_map kinds = {0}, states = {0};
	const struct cfg_node *standard = cfg_get(node, "default");
	for (int i = 0; i < node->n; i++)
		if (word_index(keys, node->keys[i]) < 0)
			cfg_problem(r, node->items[i]->at,
			            "a threshold with state, kind or sql has no \"%s\"; write a kind as kind: "
			            "{%s: …}",
			            node->keys[i], node->keys[i]);
	read_limits_by_name(r, node, "kind", &kinds);
	read_limits_by_name(r, node, "state", &states);
	read_own_limit(r, cfg_get(node, "sql"), t);
	t->n = kinds.n;
	t->kinds = kinds.names;
	t->us = kinds.us;
	t->states = (struct state_limits){states.n, states.names, states.names, states.us};
	if (standard)
		cfg_duration(r, standard, &t->standard_us);
	else
		need_default(r, node);
}

static bool is_by_row(const struct cfg_node *node)
{
	const struct cfg_node *state = cfg_get(node, "state"), *kind = cfg_get(node, "kind");
	return cfg_get(node, "sql") || (state && state->kind == CFG_MAP) ||
	       (kind && kind->kind == CFG_MAP);
}

void read_threshold(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct threshold *t = target;
	if (!node)
		return;
	*t = (struct threshold){.given = true, .own_factor = 1};
	if (node->kind != CFG_MAP)
		cfg_duration(r, node, &t->standard_us);
	else if (is_by_row(node))
		read_threshold_by_row(r, node, t);
	else
		read_threshold_by_kind(r, node, t);
}

void read_optional_threshold(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	if (says_off(node))
		*(struct threshold *)target = (struct threshold){.off = true};
	else
		read_threshold(r, node, target);
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
	if (node)
		list->n = read_sql_list(r, node, &list->items);
}

/* ---- actions: a SET list, {sql: […]}, {call: f(…)} ---- */

void read_action(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct action *a = target;
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

/* For options that accept only a SET list. */
void read_set(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct action *a = target;
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

/* What OPT_CHOICE writes is an int. */
_Static_assert(sizeof(enum verdict) == sizeof(int) && sizeof(enum attempts_term) == sizeof(int) &&
                   sizeof(enum remedy) == sizeof(int),
               "choices are read into enums");
#define O(member) offsetof(struct rule, member)
const struct opt_row rule_rows[] = {
	OPTION(CHOICE, "verdict", O(verdict), "only for this verdict", .choices = verdict_names,
           .standard = "none"),
	OPTION(TEXT, "kind", O(kind), "only for this kind"),
	OPTION(TEXT, "state", O(state), "only in this state"),
	OPTION(CHOICE, "attempts", O(attempts),
           "only while attempts are left, or when they are exhausted", .choices = attempts_names,
           .standard = "any"),
	OPTION(INT, "crashes", O(crashes), "only from this number of crashes on, this one included"),
	OPTION(SQL, "when", O(when), "only where this SQL condition holds for the row"),
	OPTION(CHOICE, "do", O(remedy), "the remedy", .choices = remedy_names, .required = true),
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
		struct rule *rule = &list->items[list->n++];
		char number[16];
		snprintf(number, sizeof number, "%d", i + 1);
		size_t mark = cfg_enter(r, number);
		cfg_read(r, rule_rows, node->items[i], rule);
		cfg_leave(r, mark);
		rule->at = node->items[i]->at;
	}
}

/* ---- names of coded states: {3: COMPLETE} ---- */

void read_states(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct state_names *s = target;
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

struct startup_setting {
	bool enabled;
	int remedy;
	const char *reason;
};
const struct opt_row startup_rows[] = {
	OPTION(BOOL, "enabled", offsetof(struct startup_setting, enabled),
           "false is the same as startup: off, and can come from the environment",
           .standard = "true"),
	OPTION(CHOICE, "do", offsetof(struct startup_setting, remedy),
           "the remedy for rows of ended instances", .choices = remedy_names, .required = true),
	OPTION(TEXT, "reason", offsetof(struct startup_setting, reason), "the reason to record"),
	{.name = NULL},
};

void read_startup(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct startup *s = target;
	const char *word = "recover";
	*s = (struct startup){.mode = STARTUP_RECOVER};
	if (node && node->kind == CFG_MAP) {
		struct startup_setting o = {0};
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
	OPTION(INT, "max", C(max), "this many recoveries within the time hold the job as poison",
           .standard = "3"),
	OPTION(DURATION, "within", C(within_us), "the time within which recoveries count",
           .standard = "72h"),
	{.name = NULL},
};
#undef C

#define G(member) offsetof(struct guard_limits, member)
const struct opt_row guard_rows[] = {
	OPTION(NUMBER, "brake_share", G(brake_share),
           "share of beating owners that fall silent at once before the brake holds",
           .standard = "0.55"),
	OPTION(INT, "brake_owners", G(brake_owners), "the brake needs more silent owners than this",
           .standard = "2"),
	OPTION(DURATION, "brake_ceiling", G(brake_ceiling_us),
           "the brake releases after this at the latest", .standard = "10m"),
	OPTION(NUMBER, "pace", G(pace_per_s), "recovered jobs per second at first", .standard = "50"),
	OPTION(INT, "burst", G(pace_burst), "jobs recovered at once before pacing starts",
           .standard = "100"),
	{.name = NULL},
};
#undef G

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
	OPTION(DURATION, "base", B(base_us), "wait before the first retry", .standard = "60s"),
	OPTION(NUMBER, "factor", B(factor), "each further wait is this many times longer",
           .standard = "2"),
	OPTION(DURATION, "cap", B(cap_us), "no wait is longer", .standard = "1h"),
	OPTION(BOOL, "jitter", B(jitter), "spread waits at random between zero and their full length",
           .standard = "false"),
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

/* ---- raise ---- */

/*
 * Hours of high load, known in advance, at which thresholds are raised:
 *
 *   raise: [{days: [fri, sat], from: "18:00", to: "02:00", factor: 2.5}]
 *
 * All in UTC: a daemon and its database may be in different zones, and no hour occurs twice in UTC.
 * A span that ends before it begins continues past midnight and belongs to the day on which it
 * begins. If spans overlap, the largest factor applies. Thresholds are never shortened this way:
 * live workers would be declared dead.
 */

#define EVERY_DAY 0x7f

const char *const day_names[] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun", NULL};

struct raise_options {
	struct text_list days;
	const char *from, *to;
	double factor;
};

#define R(member) offsetof(struct raise_options, member)
const struct opt_row raise_rows[] = {
	OPTION(TEXT_LIST, "days", R(days),
           "the days on which it begins: mon, tue, wed, thu, fri, sat, sun; if not given, "
           "every day"),
	OPTION(TEXT, "from", R(from), "begins, in UTC", .standard = "00:00"),
	OPTION(TEXT, "to", R(to), "ends, in UTC; before `from`: on the next day", .standard = "24:00"),
	OPTION(NUMBER, "factor", R(factor),
           "stuck_after, overdue_after and stalled_after are this many times longer, 1 to 100",
           .required = true),
	{.name = NULL},
};
#undef R

bool raise_factor_ok(double factor)
{
	return factor >= 1 && factor <= RAISE_MOST;
}

static bool two_digits(const char *text, int64_t *n)
{
	if (text[0] < '0' || text[0] > '9' || text[1] < '0' || text[1] > '9')
		return false;
	*n = 10 * (text[0] - '0') + (text[1] - '0');
	return true;
}

bool daytime_parse(const char *text, int64_t *us)
{
	int64_t hours, minutes;
	if (strlen(text) != 5 || text[2] != ':' || !two_digits(text, &hours) ||
	    !two_digits(text + 3, &minutes) || minutes > 59 || hours * 60 + minutes > 24 * 60)
		return false;
	*us = (hours * 60 + minutes) * 60 * US_PER_S;
	return true;
}

static unsigned read_days(struct cfg_reader *r, const struct cfg_node *node,
                          const struct text_list *days)
{
	unsigned set = days->n ? 0 : EVERY_DAY;
	for (int i = 0; i < days->n; i++) {
		int day = word_index(day_names, days->items[i]);
		if (day < 0)
			cfg_problem(r, node->at,
			            "\"%s\" is not a day; days are mon, tue, wed, thu, fri, sat and sun",
			            days->items[i]);
		else
			set |= 1U << day;
	}
	return set;
}

static void read_span(struct cfg_reader *r, const struct cfg_node *node, struct raise_span *out)
{
	struct raise_options o = {0};
	int errors = r->nerrors;
	cfg_read(r, raise_rows, node, &o);
	if (r->nerrors > errors)
		return;
	out->factor = o.factor;
	out->days = read_days(r, node, &o.days);
	if (!daytime_parse(o.from, &out->from_us) || !daytime_parse(o.to, &out->to_us))
		cfg_problem(r, node->at, "from and to are times of the day in UTC such as \"18:00\"");
	else if (out->from_us == out->to_us)
		cfg_problem(r, node->at,
		            "from and to are the same moment; leave both out for the whole day");
	if (!raise_factor_ok(o.factor))
		cfg_problem(r, node->at, "factor is from 1 to %d: thresholds can only be raised",
		            RAISE_MOST);
}

void read_raise(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct raise_list *list = target;
	if (!node)
		return;
	if (node->kind != CFG_LIST) {
		cfg_problem(r, node->at,
		            "expects a list such as [{days: [fri], from: \"18:00\", to: \"23:30\", "
		            "factor: 2.5}]");
		return;
	}
	list->items = ARENA_ARRAY(r->arena, struct raise_span, node->n + 1);
	for (int i = 0; i < node->n; i++) {
		char number[16];
		snprintf(number, sizeof number, "%d", i + 1);
		size_t mark = cfg_enter(r, number);
		read_span(r, node->items[i], &list->items[list->n++]);
		cfg_leave(r, mark);
	}
}

/* Whether the span is in force at this time of this day (mon is 0). */
static bool is_now(const struct raise_span *s, int day, int64_t time_us)
{
	int before = (day + 6) % 7;
	bool today = s->days & (1U << day), yesterday = s->days & (1U << before);
	if (s->from_us < s->to_us)
		return today && time_us >= s->from_us && time_us < s->to_us;
	return (today && time_us >= s->from_us) || (yesterday && time_us < s->to_us);
}

double watch_raise(const struct watch *w, int64_t now_us)
{
	int64_t time_us = now_us % DAY_US, day = now_us / DAY_US;
	double factor = 1;
	assert(now_us >= 0);
	/* 1970 began on a Thursday. */
	for (int i = 0; i < w->raise.n; i++)
		if (is_now(&w->raise.items[i], (int)((day + 3) % 7), time_us) &&
		    w->raise.items[i].factor > factor)
			factor = w->raise.items[i].factor;
	return factor;
}

static int64_t *all_longer(const int64_t *us, int n, double factor, struct arena *a)
{
	int64_t *longer = ARENA_ARRAY(a, int64_t, n);
	for (int i = 0; i < n; i++)
		longer[i] = (int64_t)((double)us[i] * factor);
	return longer;
}

static void make_longer(struct threshold *t, double factor, struct arena *a)
{
	t->us = all_longer(t->us, t->n, factor, a);
	t->states.us = all_longer(t->states.us, t->states.n, factor, a);
	t->standard_us = (int64_t)((double)t->standard_us * factor);
	t->own_factor *= factor;
}

struct watch *watch_raised(const struct watch *w, double factor, struct arena *a)
{
	struct watch *raised = ARENA_NEW(a, struct watch);
	*raised = *w;
	for (enum sign s = 0; s < SIGN_COUNT; s++)
		if (sign_brings_limit(s))
			make_longer(watch_limit_to_change(raised, s), factor, a);
	make_longer(&raised->late_after, factor, a);
	return raised;
}
