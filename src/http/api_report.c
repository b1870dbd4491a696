/*
 * api_report.c: GET /report: what `defib report` prints, of the watches of one database,
 * in any of its forms. Whoever may only look sees owners masked, as everywhere.
 */
#include "http/api.h"

#include "base/clock.h"
#include "base/text.h"
#include "ledger/counts.h"
#include "view/report.h"
#include "view/viewer.h"
#include "watch/builtin.h"
#include "watch/reports.h"

#define WEEK_US (INT64_C(7) * 86400 * 1000000)

/* The page brings its style along and nothing else: no script, nothing from elsewhere. */
#define PAGE_POLICY "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

static bool read_form(struct api_call *c, enum report_form *form)
{
	const char *name = api_query(c, "format");
	int at = name ? report_form_named(name) : (int)REPORT_JSON;
	if (at < 0)
		return api_problem(c, 400, "format: there is no \"%s\"; text, markdown, html or json",
		                   name);
	*form = (enum report_form)at;
	return true;
}

static bool read_period(struct api_call *c, struct period *p)
{
	int64_t since = WEEK_US;
	if (!api_query_duration(c, "since", &since))
		return false;
	if (since < REPORT_LEAST_US || since > REPORT_MOST_US)
		return api_problem(c, 400, "since: a period from 1m to 366d");
	p->to_us = (clock_wall_us() / 1000 + 1) * 1000;
	p->from_us = p->to_us - since;
	return true;
}

/* Watches of this database that the daemon serves, or the one that was asked for. */
static bool add_sources(struct api_call *c, struct report_source *out, int *n)
{
	const struct settings *all = &c->setup->settings;
	const char *only = api_query(c, "watch");
	for (int i = 0; i < all->nwatches; i++) {
		const struct watch *w = &all->watches[i];
		bool wanted = only ? text_eq(only, w->name) : c->setup->chosen[i];
		if (!wanted || settings_database(all, w) != c->database)
			continue;
		const struct watch *seen = viewer_watch(w, &all->http, c->role, &c->arena);
		out[(*n)++] = (struct report_source){seen, c->database, c->session};
	}
	/* Beside other watches the queue is told of where it is used. */
	struct failure ignored = {0};
	bool used = false;
	if (!only && all->nwatches > 0 && !settings_watch(all, BUILTIN_NAME) &&
	    queue_in_use(c->session->store, &used, &ignored))
		used = false;
	if (used || (*n == 0 && (only ? text_eq(only, BUILTIN_NAME) : all->nwatches == 0))) {
		const struct watch *queue = builtin_watch(c->database->engine, &c->arena);
		const struct watch *seen = viewer_watch(queue, &all->http, c->role, &c->arena);
		out[(*n)++] = (struct report_source){seen, c->database, c->session};
	}
	if (only && *n == 0)
		return api_problem(c, 404, "there is no watch \"%s\" in database %s", only,
		                   c->database->name);
	return true;
}

static void get_report(struct api_call *c)
{
	static const char *const known[] = {"since", "format", "database", "watch", NULL};
	const struct settings *all = &c->setup->settings;
	struct report_source *sources = ARENA_ARRAY(&c->arena, struct report_source, all->nwatches + 1);
	struct report report;
	struct period period;
	enum report_form form = REPORT_JSON;
	int n = 0;
	if (!api_query_takes(c, known) || !read_form(c, &form) || !read_period(c, &period) ||
	    !add_sources(c, sources, &n))
		return;
	report_gather(sources, n, &period, all->ledger == LEDGER_OFF, &c->arena, &report);
	if (report.nlost) {
		api_failed(c, &report.lost[0].failure);
		return;
	}
	c->out->type = report_type(form);
	if (form == REPORT_HTML)
		api_header(c, "Content-Security-Policy", PAGE_POLICY);
	report_render(form, &report, &c->out->body);
}

const struct api_route api_report_routes[] = {
	{.method = "GET",
     .path = "/report",
     .role = ROLE_VIEWER,
     .where = API_DATABASE,
     .summary = "what happened in a period: recoveries by day, trend, causes, mistakes, advice",
     .run = get_report},
	{.method = NULL},
};
