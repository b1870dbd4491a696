/* SPDX-License-Identifier: Apache-2.0 */
#include "http/api.h"

#include "http/api_values.h"
#include "http/page.h"
#include "shipped.h"

#include <assert.h>

/* The tables of routes. Of several that match, the first in this order is taken. */
static const struct {
	const struct api_route *routes;
	bool versioned; /* below /api/v1 */
} tables[] = {
	{probe_routes, false},     {page_routes, false},       {api_status_routes, true},
	{api_watch_routes, true},  {api_read_routes, true},    {api_act_routes, true},
	{api_worker_routes, true}, {api_history_routes, true}, {api_event_routes, true},
	{api_index_routes, true},
};

/* All routes for programs, so not the page; `base` precedes the path. */
static void api_each_route(void (*with)(void *ctx, const char *base, const struct api_route *r),
                           void *ctx)
{
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		for (const struct api_route *r = tables[i].routes; r->method; r++)
			if (tables[i].routes != page_routes)
				with(ctx, tables[i].versioned ? "/api/v1" : "", r);
}

/* ---- which route ---- */

/* Whether the parts of a path from the `from`th on match `pattern`; stores those in braces. */
static bool path_fits(const char *pattern, const struct uri *u, int from, struct api_call *c)
{
	int part = from;
	c->nparts = 0;
	while (*pattern == '/') {
		const char *name = pattern + 1;
		size_t n = strcspn(name, "/");
		if (part == u->nparts)
			return false;
		const char *given = u->parts[part++];
		if (*name == '{') {
			if (!*given)
				return false;
			assert(c->nparts < API_PARTS_MAX);
			c->parts[c->nparts++] = given;
		} else if (strlen(given) != n || memcmp(given, name, n) != 0) {
			return false;
		}
		pattern = name + n;
	}
	return part == u->nparts;
}

static bool is_versioned(const struct uri *u)
{
	return u->nparts > 2 && text_eq(u->parts[0], "api") && text_eq(u->parts[1], "v1");
}

static void add_method(struct buf *allow, const char *method)
{
	if (!strstr(buf_text(allow), method))
		buf_addf(allow, "%s%s", allow->len ? ", " : "", method);
	if (text_eq(method, "GET"))
		add_method(allow, "HEAD");
}

/* Sets c->route, or collects the methods of the routes that have this path. */
static void find_route(struct api_call *c, const char *method, struct buf *allow)
{
	method = text_eq(method, "HEAD") ? "GET" : method;
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		if (tables[i].versioned && !is_versioned(c->uri))
			continue;
		for (const struct api_route *r = tables[i].routes; r->method; r++) {
			if (!path_fits(r->path, c->uri, tables[i].versioned ? 2 : 0, c))
				continue;
			if (text_eq(r->method, method)) {
				c->route = r;
				return;
			}
			add_method(allow, r->method);
		}
	}
}

/* A browser at an address of a person, not of a program: the page itself says that it is wrong. */
static bool wants_page(const struct api_call *c)
{
	const struct api_request *r = c->request;
	return text_eq(r->method, "GET") && r->accept && strstr(r->accept, "text/html") &&
	       !text_starts(r->target, "/api/") && !text_starts(r->target, "/assets/");
}

static bool route_found(struct api_call *c, const char *method)
{
	AUTO_BUF allow = BUF_INIT;
	find_route(c, method, &allow);
	if (!c->route && allow.len) {
		api_header(c, "Allow", buf_text(&allow));
		api_problem(c, 405, "%s is not allowed here; use %s", method, buf_text(&allow));
	} else if (!c->route && wants_page(c)) {
		page_missing(c);
	} else if (!c->route) {
		api_problem(c, 404, "there is nothing at this address");
	}
	return c->route != NULL;
}

/* ---- role and body ---- */

static bool role_suffices(struct api_call *c)
{
	if (c->role >= c->route->role)
		return true;
	if (c->role == ROLE_NONE) {
		api_header(c, "WWW-Authenticate", "Bearer realm=\"defib\"");
		return api_problem(c, 401, "a token is required: Authorization: Bearer …");
	}
	return api_problem(c, 403, "this requires the role %s; the token has %s",
	                   role_names[c->route->role], role_names[c->role]);
}

static bool is_json_type(const char *type)
{
	static const char json[] = "application/json";
	if (!type || strncasecmp(type, json, sizeof json - 1) != 0)
		return false;
	type += sizeof json - 1;
	return *type == '\0' || *type == ';' || *type == ' ';
}

static bool body_read(struct api_call *c)
{
	const struct api_request *r = c->request;
	json_error_t e;
	if (r->nbody == 0) {
		c->body = json_object();
		return true;
	}
	if (!c->route->body)
		return api_problem(c, 400, "this route takes no body");
	if (!is_json_type(r->content_type))
		return api_problem(c, 415, "the body must have Content-Type: application/json");
	c->body = json_loadb(r->body, r->nbody, JSON_REJECT_DUPLICATES, &e);
	if (!c->body)
		return api_problem(c, 400, "the body is not JSON: line %d, column %d: %s", e.line, e.column,
		                   e.text);
	return json_is_object(c->body) || api_problem(c, 400, "the body must be a JSON object");
}

/* ---- which database ---- */

static bool api_database_named(struct api_call *c, const char *name)
{
	const struct settings *s = &c->setup->settings;
	for (int i = 0; i < s->ndatabases && !c->database; i++)
		if (!name || text_eq(s->databases[i].name, name))
			c->database = &s->databases[i];
	if (c->database)
		return true;
	return api_problem(c, 404, "there is no database \"%s\"", name ? name : "");
}

static bool watch_missing(struct api_call *c)
{
	const char *const *names = settings_watch_names(&c->setup->settings, NULL, &c->arena);
	return api_problem(c, 404, "there is no watch \"%s\"%s", c->parts[0],
	                   text_hint(c->parts[0], names).text);
}

bool api_watch_named(struct api_call *c)
{
	assert(c->nparts > 0);
	const char *name = api_query(c, "database");
	c->watch = settings_watch(&c->setup->settings, c->parts[0]);
	if (c->watch) {
		c->database = settings_database(&c->setup->settings, c->watch);
		return !name || text_eq(name, c->database->name) ||
		       api_problem(c, 404, "watch %s is in database %s, not in \"%s\"", c->watch->name,
		                   c->database->name, name);
	}
	if (!text_eq(c->parts[0], BUILTIN_NAME))
		return watch_missing(c);
	if (!api_database_named(c, name))
		return false;
	c->watch = builtin_watch(c->database->engine, &c->arena);
	return true;
}

static bool place_found(struct api_call *c)
{
	switch (c->route->where) {
	case API_MEMORY:
		return true;
	case API_WATCH:
		return api_watch_named(c);
	case API_DATABASE:
	case API_SPOOLED:
		return api_database_named(c, api_query(c, "database"));
	}
	return false;
}

/* ---- the whole ---- */

static bool takes_all(struct api_call *c)
{
	const struct api_route *r = c->route;
	const char *always = r->where != API_MEMORY ? "database" : "";
	if (!r->takes)
		return true;
	if (text_eq(r->method, "GET"))
		return api_query_takes(c, arena_printf(&c->arena, "%s %s", r->takes, always));
	return api_query_takes(c, always) && api_body_takes(c, r->takes);
}

static bool may_run(struct api_call *c, struct uri *u)
{
	const char *why = uri_parse(c->request->target, &c->arena, u);
	if (why)
		return api_problem(c, strlen(c->request->target) > URI_MAX ? 414 : 400, "%s", why);
	return route_found(c, c->request->method) && role_suffices(c) && body_read(c) &&
	       place_found(c) && takes_all(c);
}

enum api_next api_begin(const struct api *api, const struct api_request *r, struct api_call *c,
                        struct api_answer *out)
{
	struct live_settings *setup = live_settings_hold(api->setups);
	*c = (struct api_call){.api = api,
	                       .setup = setup,
	                       .request = r,
	                       .role = r->role,
	                       .actor = r->actor,
	                       .out = out,
	                       .http = c->http};
	struct uri *u = ARENA_NEW(&c->arena, struct uri);
	c->uri = u;
	api_answer_clear(out);
	if (!may_run(c, u))
		return API_ANSWERED;
	if (c->route->where != API_MEMORY)
		return API_NEEDS_DATABASE;
	api_run(c);
	return API_ANSWERED;
}

void api_run(struct api_call *c)
{
	assert(c->route && c->body);
	assert(c->route->where == API_MEMORY || c->session || c->away);
	fail_clear(&c->failure);
	c->route->run(c);
	if (c->failure.code)
		api_failed(c, &c->failure);
}

void api_end(struct api_call *c)
{
	json_decref(c->body);
	if (c->setup)
		live_settings_drop(c->api->setups, c->setup);
	arena_release(&c->arena);
	*c = (struct api_call){0};
}

void api_answer_clear(struct api_answer *a)
{
	buf_clear(&a->body);
	a->status = 200;
	a->type = "application/json";
	a->nheaders = 0;
}

void api_answer_release(struct api_answer *a)
{
	buf_release(&a->body);
}

struct listed_route {
	const char *base;
	const struct api_route *route;
};

#define ROUTE(row) (((const struct listed_route *)(row))->route)

static const char *route_method(const void *row)
{
	return ROUTE(row)->method;
}

static bool route_path(const void *row, const struct viewer *v, struct buf *out)
{
	(void)v;
	buf_addf(out, "%s%s", ((const struct listed_route *)row)->base, ROUTE(row)->path);
	return true;
}

static const char *route_role(const void *row)
{
	return role_names[ROUTE(row)->role];
}

static const char *route_summary(const void *row)
{
	return ROUTE(row)->summary;
}

static const struct field route_fields[] = {
	{"method", .text = route_method},
	{"path", .words = route_path},
	{"role", .text = route_role},
	{"summary", .text = route_summary},
	{0},
};
static const struct record route_record = {.fields = route_fields};

static void add_route(void *ctx, const char *base, const struct api_route *r)
{
	struct api_call *c = ctx;
	struct buf *out = &c->out->body;
	struct viewer v = api_viewer(c, NULL);
	buf_add(out, out->data[out->len - 1] == '[' ? "\n" : ",\n");
	record_json(&route_record, &(struct listed_route){base, r}, &v, out);
}

static void call_index(struct api_call *c)
{
	buf_add(&c->out->body, "{\"routes\":[");
	api_each_route(add_route, c);
	buf_add(&c->out->body, "\n]}\n");
}

static void call_openapi(struct api_call *c)
{
	const char *text = shipped_text("docs/openapi.yaml");
	assert(text != NULL);
	c->out->type = "application/yaml";
	buf_add(&c->out->body, text);
}

const struct api_route api_index_routes[] = {
	API_GET("/", ROLE_VIEWER, API_MEMORY, "", "all routes", call_index),
	API_GET("/openapi.yaml", ROLE_VIEWER, API_MEMORY, "", "this API as an OpenAPI 3.1 document",
            call_openapi),
	{.method = NULL},
};
