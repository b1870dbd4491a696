/*
 * api_index.c: what there is to ask: every route, as the tables have it, and the
 * description of all of them for programs (docs/openapi.yaml, which a test holds against
 * the same tables).
 */
#include "http/api.h"

#include "shipped.h"
#include "view/json.h"

#include <assert.h>

static void add_route(void *ctx, const char *base, const struct api_route *r)
{
	struct api_call *c = ctx;
	struct buf *out = &c->out->body;
	buf_add(out, out->data[out->len - 1] == '[' ? "\n{\"method\":" : ",\n{\"method\":");
	buf_add_json(out, r->method);
	json_text(out, "path", arena_printf(&c->arena, "%s%s", base, r->path));
	json_text(out, "role", role_names[r->role]);
	json_text(out, "summary", r->summary);
	buf_add(out, "}");
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
	{"GET", "/", ROLE_VIEWER, API_MEMORY, false, false, "every route there is", call_index},
	{"GET", "/openapi.yaml", ROLE_VIEWER, API_MEMORY, false, false,
     "this description, for programs (OpenAPI 3.1)", call_openapi},
	{.method = NULL},
};
