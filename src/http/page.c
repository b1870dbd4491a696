/* SPDX-License-Identifier: Apache-2.0
 * page.c: the page: the files of web/, which are part of the binary.
 *
 * Its files need no token; their data does: they request it under /api/v1, with a token if tokens
 * exist. Every view has its own address, which is answered with the same index.html; its script
 * finds the view by the address. Answers carry an ETag, so that a browser asks each time and gets
 * 304.
 */
#include "http/api.h"

#include "base/hash.h"
#include "ledger/events.h"
#include "shipped.h"

#include <assert.h>

#define WEB "web/"

static const struct {
	const char *ending, *type;
} types[] = {
	{".html", "text/html; charset=utf-8"},
	{".css", "text/css; charset=utf-8"},
	{".js", "text/javascript; charset=utf-8"},
	{".svg", "image/svg+xml"},
};

static const char *type_of(const char *name)
{
	const char *ending = strrchr(name, '.');
	for (size_t i = 0; ending && i < sizeof types / sizeof *types; i++)
		if (text_eq(ending, types[i].ending))
			return types[i].type;
	return NULL;
}

/* A different text has a different tag, which is all that a cache needs. */
static const char *tag_of(const char *text, struct arena *a)
{
	return arena_printf(a, "\"%016llx\"", (unsigned long long)fnv1a(FNV_START, text, strlen(text)));
}

/* If-None-Match is a list of tags; a proxy may have marked each as weak. */
static bool has_it(const char *if_none_match, const char *tag)
{
	return if_none_match && strstr(if_none_match, tag);
}

/* The one module that is not a file: names and effects of events, from their one table. */
static const char *events_module(struct arena *a)
{
	AUTO_BUF out = BUF_INIT;
	buf_add(&out, "/* events.js: src/ledger/events.h, as the page calls them. */\n"
	              "export const EVENTS = {\n");
	for (const struct event_name *e = event_names; e->name; e++) {
		buf_addf(&out, "\t%s: { label: ", e->name);
		buf_add_json(&out, e->label);
		buf_addf(&out, ", tone: \"%s\", picture: \"%s\", remedy: \"%s\", changes: %s },\n", e->tone,
		         e->picture, e->remedy ? e->remedy : "",
		         e->marks & MARK_CHANGES ? "true" : "false");
	}
	buf_add(&out, "};\n");
	return arena_strdup(a, buf_text(&out));
}

static void send_file(struct api_call *c, const char *name)
{
	bool events = text_eq(name, WEB "lib/events.js");
	const char *text = events ? events_module(&c->arena) : shipped_text(name);
	const char *type = type_of(name);
	if (!text || !type) {
		api_problem(c, 404, "there is nothing at this address");
		return;
	}
	const char *tag = tag_of(text, &c->arena);
	c->out->type = type;
	api_header(c, "ETag", tag);
	api_header(c, "Cache-Control", "no-cache");
	if (has_it(c->request->if_none_match, tag))
		c->out->status = 304;
	else
		buf_add(&c->out->body, text);
}

static void send_index(struct api_call *c)
{
	send_file(c, WEB "index.html");
}

void page_missing(struct api_call *c)
{
	send_index(c);
	if (c->out->status != 304)
		c->out->status = 404;
}

static void send_asset(struct api_call *c)
{
	assert(c->nparts == 1);
	send_file(c, arena_printf(&c->arena, WEB "%s", c->parts[0]));
}

static void send_room_asset(struct api_call *c)
{
	assert(c->nparts == 2);
	send_file(c, arena_printf(&c->arena, WEB "%s/%s", c->parts[0], c->parts[1]));
}

#define OPEN(address, what)                                                                        \
	{                                                                                              \
		.method = "GET", .path = (address), .role = ROLE_NONE, .where = API_MEMORY, .run = (what)  \
	}

/* The views are those of web/app.js. */
const struct api_route page_routes[] = {
	OPEN("/", send_index),
	OPEN("/stuck", send_index),
	OPEN("/jobs", send_index),
	OPEN("/jobs/{watch}/{key}", send_index),
	OPEN("/watches/{watch}", send_index),
	OPEN("/workers", send_index),
	OPEN("/ledger", send_index),
	OPEN("/alerts", send_index),
	OPEN("/report", send_index),
	OPEN("/health", send_index),
	OPEN("/assets/{file}", send_asset),
	OPEN("/assets/{room}/{file}", send_room_asset),
	{.method = NULL},
};
