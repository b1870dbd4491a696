/* SPDX-License-Identifier: Apache-2.0
 * options.c: the option tables of `sinks:` and `alerts:`.
 *
 * What permits writing to a sink (a routing key, a header, the path of a chat's URL) is a secret:
 * it is read, but never shown. A configured rule starts as a copy of what would apply without it
 * (the default, or for a watch's own rule the one for all watches), and the entry overrides parts
 * of it: a limit need not be repeated to change a sink.
 */

#include "alert/options.h"

#include "alert/alerts.h"

#include "base/clock.h"
#include "watch/options_values.h"

#include <math.h>

const char *const sink_types[] = {"log", "command", "webhook", "alertmanager", "pagerduty", NULL};
static const char *const sink_formats[] = {"json", "text", NULL};

#define PAGERDUTY_URL "https://events.pagerduty.com/v2/enqueue"
#define HEADERS_MAX 20

static void read_secret(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	if (node && cfg_text(r, node, target))
		cfg_show(r, NULL, node->at, "***");
}

/* Shown up to its host. */
static void alert_options_read_url(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	const char **url = target;
	if (!node || !cfg_text(r, node, url))
		return;
	const char *host = strstr(*url, "://");
	if (!host || (!text_starts(*url, "http://") && !text_starts(*url, "https://"))) {
		cfg_problem(r, node->at, "expects a URL that begins with http:// or https://");
		return;
	}
	host += 3;
	size_t n = strcspn(host, "/?#");
	const char *at = memrchr(host, '@', n);
	const char *named = at ? at + 1 : host;
	cfg_show(r, NULL, node->at,
	         arena_printf(r->arena, "%.*s%s%.*s%s", (int)(host - *url), *url, at ? "***@" : "",
	                      (int)(host + n - named), named, host[n] ? "/***" : ""));
}

static bool header_ok(const char *name, const char *value)
{
	static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	return *name && !name[strspn(name, token)] && !strpbrk(value, "\r\n");
}

static void read_headers(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct sink_headers *h = target;
	*h = (struct sink_headers){0};
	if (!node)
		return;
	if (node->kind != CFG_MAP || node->n > HEADERS_MAX) {
		cfg_problem(r, node->at, "expects a map of at most %d headers such as {X-Token: …}",
		            HEADERS_MAX);
		return;
	}
	h->names = ARENA_ARRAY(r->arena, const char *, node->n + 1);
	h->values = ARENA_ARRAY(r->arena, const char *, node->n + 1);
	for (int i = 0; i < node->n; i++) {
		if (!cfg_text(r, node->items[i], &h->values[h->n]))
			continue;
		if (!header_ok(node->keys[i], h->values[h->n]))
			cfg_problem(r, node->items[i]->at,
			            "header \"%s\" is not a valid name with a value on one line",
			            node->keys[i]);
		cfg_show(r, node->keys[i], node->items[i]->at, "***");
		h->names[h->n++] = node->keys[i];
	}
}

#define S(member) offsetof(struct alert_sink, member)
static const struct opt_row sink_rows[] = {
	OPTION(TEXT, "name", S(name), "the sink's name in alerts and reports", .required = true),
	OPTION(CHOICE, "type", S(type), "its type; a sink named log of type log always exists",
           .choices = sink_types, .required = true),
	OPTION(CUSTOM, "url", S(url),
           "for webhook and alertmanager; for pagerduty, only to replace the default",
           .read = alert_options_read_url),
	OPTION(TEXT_LIST, "run", S(run),
           "for command: the program and its arguments; it receives the message as JSON on stdin"),
	OPTION(CUSTOM, "pass_environment", S(pass_environment), "for command: " PASS_ENVIRONMENT_HELP,
           .read = read_pass_environment),
	OPTION(CUSTOM, "key", S(key),
           "for pagerduty: the routing key, preferably from the environment: ${PAGERDUTY_KEY}",
           .read = read_secret),
	OPTION(CUSTOM, "headers", S(headers), "extra request headers; a map", .read = read_headers),
	OPTION(DURATION, "timeout", S(timeout_us), "time limit of one attempt", .standard = "10s"),
	OPTION(CHOICE, "format", S(format),
           "for webhook and command: the whole message as JSON, or its text only",
           .choices = sink_formats, .standard = "json"),
	{.name = NULL},
};
#undef S

static void check_sink(struct cfg_reader *r, const struct sink_list *before, struct alert_sink *s)
{
	const char *name = s->name ? s->name : "?";
	bool url = s->type == SINK_WEBHOOK || s->type == SINK_ALERTMANAGER;
	if (s->name && !*s->name)
		cfg_problem(r, s->at, "a sink needs a name");
	if (s->name && alert_sink_named(before, s->name))
		cfg_problem(r, s->at, "two sinks are named \"%s\"", name);
	if (url && !s->url)
		cfg_problem(r, s->at, "sink %s: type %s needs a url", name, sink_types[s->type]);
	if (s->type == SINK_COMMAND && (s->run.n == 0 || !*s->run.items[0]))
		cfg_problem(r, s->at, "sink %s: type command needs run: the program and its arguments",
		            name);
	if (s->type == SINK_PAGERDUTY && (!s->key || !*s->key))
		cfg_problem(r, s->at, "sink %s: type pagerduty needs key: the routing key", name);
	if (s->timeout_us < US_PER_S / 10 || s->timeout_us > 300 * US_PER_S)
		cfg_problem(r, s->at, "sink %s: timeout is from 100ms to 5m", name);
	if (s->type == SINK_PAGERDUTY && !s->url)
		s->url = PAGERDUTY_URL;
}

static void read_sink(struct cfg_reader *r, const struct cfg_node *node, struct sink_list *list)
{
	struct alert_sink *s = &list->items[list->n];
	const struct cfg_node *name = cfg_get(node, "name");
	size_t mark = cfg_enter(r, name && name->kind == CFG_SCALAR ? name->text : "?");
	s->at = node->at;
	cfg_read(r, sink_rows, node, s);
	check_sink(r, list, s);
	cfg_leave(r, mark);
	list->n++;
}

static void read_sinks(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct sink_list *list = target;
	int n = node && node->kind == CFG_LIST ? node->n : 0;
	*list = (struct sink_list){0};
	if (node && node->kind != CFG_LIST)
		cfg_problem(r, node->at, "expects a list of sinks, each starting with \"- name:\"");
	list->items = ARENA_ARRAY(r->arena, struct alert_sink, n + 1);
	for (int i = 0; i < n; i++)
		read_sink(r, node->items[i], list);
	if (!alert_sink_named(list, "log"))
		list->items[list->n++] =
			(struct alert_sink){.name = "log", .type = SINK_LOG, .timeout_us = 10 * US_PER_S};
}

const struct section sinks_section = {
	.id = SECTION_SINKS,
	.row = OPTION(CUSTOM, "sinks", 0, "where alerts and reports can be sent; a list",
                  .size = sizeof(struct sink_list), .read = read_sinks),
	.title = "A sink",
	.rows = sink_rows,
};

/* ---- alerts and their rules ---- */

/* The ways to write a limit; which of the three a rule has depends on the rule. */
struct rule_options {
	struct alert_rule rule;
	const char *name;
	double above, below, factor; /* NAN: not given */
};

/* "12", "5%", "1h": a number, a share, a time in seconds. */
static bool alert_options_amount_parse(const char *text, double *out)
{
	int64_t us;
	char *end = NULL;
	if (duration_parse(text, &us)) {
		*out = (double)us / (double)US_PER_S;
		return true;
	}
	if (!*text || text[strspn(text, "0123456789.%")])
		return false;
	*out = strtod(text, &end);
	if (end == text)
		return false;
	if (*end == '%') {
		*out /= 100;
		end++;
	}
	return !*end && isfinite(*out);
}

static void read_amount(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	const char *text;
	if (!node || !cfg_text(r, node, &text))
		return;
	if (!alert_options_amount_parse(text, target))
		cfg_problem(r, node->at,
		            "expects a number such as 10 or 0.1, a share such as 5%%, or a time such as "
		            "1h, not \"%s\"",
		            text);
}

#define R(member) offsetof(struct rule_options, member)
static const struct opt_row alert_rule_rows[] = {
	OPTION(TEXT, "name", R(name), "which rule; docs/alerts.md lists them", .required = true),
	OPTION(TEXT, "watch", R(rule.watch), "only for this watch; not given: for all"),
	OPTION(BOOL, "enabled", R(rule.enabled), "false: the rule is off"),
	OPTION(CHOICE, "severity", R(rule.severity), "how serious it is", .choices = alert_severities),
	OPTION(CUSTOM, "above", R(above),
           "alert above this: a number, a share such as 5%, a time such as 1h",
           .read = read_amount),
	OPTION(CUSTOM, "below", R(below), "alert below this, for rules whose value should be high",
           .read = read_amount),
	OPTION(CUSTOM, "factor", R(factor), "for stuck_doubled: alert from this factor on",
           .read = read_amount),
	OPTION(CUSTOM, "floor", R(rule.floor), "the rule does not fire below this count",
           .read = read_amount),
	OPTION(DURATION, "window", R(rule.window_us), "the window to count over, at most one day"),
	OPTION(DURATION, "for", R(rule.for_us),
           "the condition must hold for this long before the alert fires, and be absent for as "
           "long before it ends"),
	OPTION(DURATION, "repeat", R(rule.repeat_us),
           "while it fires, it is sent again after this; 0s: never"),
	OPTION(TEXT_LIST, "sinks", R(rule.sinks),
           "which sinks receive it; if not given, those of all alerts"),
	{.name = NULL},
};
#undef R

#define WINDOW_MAX (24 * 3600 * US_PER_S)

static void alert_options_refuse(struct cfg_reader *r, struct cfg_mark at, const char *what,
                                 const char *name, const char *const *names)
{
	cfg_problem(r, at, "there is no %s \"%s\"%s", what, name, text_hint(name, names).text);
}

/* The one way in which this rule's limit is written. */
static void take_limit(struct cfg_reader *r, struct rule_options *o)
{
	struct alert_rule *rule = &o->rule;
	const struct {
		const char *word;
		double value;
		bool fits;
	} ways[] = {{"above", o->above, !rule->lowest && rule->unit != UNIT_FACTOR},
	            {"below", o->below, rule->lowest},
	            {"factor", o->factor, rule->unit == UNIT_FACTOR}};
	const char *fitting = NULL;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
		fitting = ways[i].fits ? ways[i].word : fitting;
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		if (isnan(ways[i].value))
			continue;
		if (rule->unit == UNIT_STATE)
			cfg_problem(r, rule->at, "rule %s takes no limit: its condition holds or not",
			            rule->name);
		else if (!ways[i].fits)
			cfg_problem(r, rule->at,
			            "rule %s: \"%s\" has no meaning for this rule; its limit is \"%s\"",
			            rule->name, ways[i].word, fitting);
		else
			rule->limit = ways[i].value;
	}
}

static void check_rule(struct cfg_reader *r, const struct alert_rule *rule)
{
	if (rule->window_us > WINDOW_MAX)
		cfg_problem(r, rule->at, "rule %s: a window is at most one day", rule->name);
	if (!rule->window_us != !alert_defaults[rule->id].window_us)
		cfg_problem(r, rule->at, "rule %s %s", rule->name,
		            rule->window_us ? "looks at the current state and has no window"
		                            : "needs a window to count over");
	if (rule->whole && rule->watch)
		cfg_problem(r, rule->at, "rule %s applies to a database, not to a single watch",
		            rule->name);
}

static int rule_named(const char *name)
{
	int i = 0;
	while (i < ALERT_COUNT && !text_eq(alert_names[i], name))
		i++;
	return i;
}

/* One entry, applied to what holds so far. */
static void read_rule(struct cfg_reader *r, const struct cfg_node *node,
                      struct alert_settings *settings)
{
	const struct cfg_node *name = cfg_get(node, "name"), *watch = cfg_get(node, "watch");
	struct rule_options o = {.above = NAN, .below = NAN, .factor = NAN};
	size_t mark = cfg_enter(r, name && name->kind == CFG_SCALAR ? name->text : "?");
	int id = name && name->kind == CFG_SCALAR ? rule_named(name->text) : ALERT_COUNT;
	bool own = watch && watch->kind == CFG_SCALAR;
	if (id < ALERT_COUNT)
		o.rule = alert_rule_for(settings, (enum alert_id)id, NULL);
	o.rule.at = node->at;
	cfg_read(r, alert_rule_rows, node, &o);
	if (id < ALERT_COUNT) {
		take_limit(r, &o);
		check_rule(r, &o.rule);
		for (int i = 0; i < settings->nrules; i++)
			if (settings->rules[i].id == o.rule.id &&
			    text_eq(settings->rules[i].watch, o.rule.watch))
				cfg_problem(r, node->at, "rule %s is given twice%s%s", o.rule.name,
				            own ? " for watch " : "", own ? o.rule.watch : "");
		settings->rules[settings->nrules++] = o.rule;
	} else if (o.name) {
		alert_options_refuse(r, name ? name->at : node->at, "rule", o.name, alert_names);
	}
	cfg_leave(r, mark);
}

/* Rules for all watches first: a watch's own rules start from them. */
static void read_rules_of(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct alert_settings *s = target;
	s->nrules = 0;
	if (!node)
		return;
	if (node->kind != CFG_LIST) {
		cfg_problem(r, node->at,
		            "expects a list of rules such as {name: stuck_warning, above: 20}");
		return;
	}
	s->rules = ARENA_ARRAY(r->arena, struct alert_rule, node->n + 1);
	for (int own = 0; own < 2; own++)
		for (int i = 0; i < node->n; i++)
			if ((cfg_get(node->items[i], "watch") != NULL) == (own == 1))
				read_rule(r, node->items[i], s);
}

#define A(member) offsetof(struct alert_settings, member)
static const struct opt_row alert_rows[] = {
	OPTION(TEXT_LIST, "sinks", A(sinks), "the sinks that receive alerts unless a rule names others",
           .standard = "[log]"),
	OPTION(DURATION, "every", A(every_us), "how often the leader of a watch evaluates the rules",
           .standard = "15s"),
	OPTION(TEXT, "link", A(link), "the URL (http:// or https://) that messages link to"),
	OPTION(CUSTOM, "rules", 0, "changes to the standard rules: a list of these",
           .read = read_rules_of, .rows = alert_rule_rows),
	{.name = NULL},
};
#undef A

static void read_alerts(struct cfg_reader *r, const struct cfg_node *node, void *target)
{
	struct alert_settings *s = target;
	*s = (struct alert_settings){0};
	s->at = node ? node->at : (struct cfg_mark){0};
	cfg_read(r, alert_rows, node, s);
	if (s->link && !text_starts(s->link, "http://") && !text_starts(s->link, "https://"))
		cfg_problem(r, s->at, "link: expects a URL that begins with http:// or https://");
	if (s->every_us < 100000)
		cfg_problem(r, s->at, "every: at least 100ms");
}

static void check_sinks(struct cfg_reader *r, struct cfg_mark at, const struct text_list *named,
                        const struct sink_list *all)
{
	const char **names = ARENA_ARRAY(r->arena, const char *, all->n + 1);
	for (int i = 0; i < all->n; i++)
		names[i] = all->items[i].name;
	for (int i = 0; i < named->n; i++)
		if (!alert_sink_named(all, named->items[i]))
			alert_options_refuse(r, at, "sink", named->items[i], names);
}

/* Names that must exist: sinks of rules, watches. */
static void check_alerts(struct cfg_reader *r, const struct settings *all)
{
	const struct alert_settings *s = settings_alerts(all);
	const char *const *watches = settings_watch_names(all, BUILTIN_NAME, r->arena);
	check_sinks(r, s->at, &s->sinks, settings_sinks(all));
	for (int i = 0; i < s->nrules; i++) {
		const struct alert_rule *rule = &s->rules[i];
		check_sinks(r, rule->at, &rule->sinks, settings_sinks(all));
		if (rule->watch && word_index(watches, rule->watch) < 0)
			alert_options_refuse(r, rule->at, "watch", rule->watch, watches);
	}
}

const struct section alerts_section = {
	.id = SECTION_ALERTS,
	.row = OPTION(CUSTOM, "alerts", 0, "which alerts are sent, when, and to which sinks; a map",
                  .size = sizeof(struct alert_settings), .read = read_alerts),
	.title = "Alerts",
	.rows = alert_rows,
	.check = check_alerts,
};
