/* SPDX-License-Identifier: Apache-2.0
 * sinks_options.c: the option table of `sinks:`. What lets somebody write to a sink
 * (a routing key, a header, the path of a chat's URL) is a secret: it is read, and
 * shown to nobody.
 */
#include "alert/alerts.h"

#include "base/clock.h"
#include "base/text.h"
#include "watch/options_values.h"

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
static void read_url(struct cfg_reader *r, const struct cfg_node *node, void *target)
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
			cfg_problem(r, node->items[i]->at, "header \"%s\" is not one line of a known form",
			            node->keys[i]);
		cfg_show(r, node->keys[i], node->items[i]->at, "***");
		h->names[h->n++] = node->keys[i];
	}
}

#define S(member) offsetof(struct alert_sink, member)
static const struct opt_row sink_rows[] = {
	{.name = "name",
     .type = OPT_TEXT,
     .offset = S(name),
     .required = true,
     .help = "the sink's name in alerts and reports"},
	{.name = "type",
     .type = OPT_CHOICE,
     .offset = S(type),
     .choices = sink_types,
     .required = true,
     .help = "its type; a sink named log of type log always exists"},
	{.name = "url",
     .type = OPT_CUSTOM,
     .offset = S(url),
     .read = read_url,
     .help = "for webhook and alertmanager; for pagerduty only where it is not the usual one"},
	{.name = "run",
     .type = OPT_TEXT_LIST,
     .offset = S(run),
     .help =
         "for command: the program and its arguments; it receives the message as JSON on stdin"},
	{.name = "pass_environment",
     .type = OPT_CUSTOM,
     .offset = S(pass_environment),
     .read = read_pass_environment,
     .help = "of command: " PASS_ENVIRONMENT_HELP},
	{.name = "key",
     .type = OPT_CUSTOM,
     .offset = S(key),
     .read = read_secret,
     .help = "for pagerduty: the routing key, best from the environment: ${PAGERDUTY_KEY}"},
	{.name = "headers",
     .type = OPT_CUSTOM,
     .offset = S(headers),
     .read = read_headers,
     .help = "extra request headers; a map"},
	{.name = "timeout",
     .type = OPT_DURATION,
     .offset = S(timeout_us),
     .standard = "10s",
     .help = "time limit of one attempt"},
	{.name = "format",
     .type = OPT_CHOICE,
     .offset = S(format),
     .choices = sink_formats,
     .standard = "json",
     .help = "for webhook and command: the whole message as JSON, or its text only"},
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
	.row = {.name = "sinks",
            .type = OPT_CUSTOM,
            .size = sizeof(struct sink_list),
            .read = read_sinks,
            .help = "where alerts and reports can be sent; a list"},
	.title = "A sink",
	.rows = sink_rows,
};
