/* SPDX-License-Identifier: Apache-2.0
 * page.c: the page: the files of web/, which are part of the binary.
 *
 * Its files need no token; their data does: they request it under /api/v1, with a token if tokens
 * exist. Every view has its own address, which is answered with the same index.html; its script
 * finds the view by the address.
 *
 * index.html names files at /assets/VERSION/, where VERSION changes with any of them: a browser
 * keeps those and does not ask again. Without VERSION, or with that of another build (a page that
 * was open during an update), answers carry an ETag: a browser asks each time and gets 304.
 */
#include "http/page.h"

#include "base/hash.h"
#include "http/api.h"
#include "http/api_values.h"
#include "ledger/events.h"
#include "shipped.h"

#include <assert.h>
#include <pthread.h>

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

/* name: "text" */
static void page_add_text(struct buf *out, const char *name, const char *text)
{
	buf_addf(out, "%s: ", name);
	buf_add_json(out, text);
	buf_add(out, ", ");
}

static const char *yes_no(bool is)
{
	return is ? "true" : "false";
}

static void page_add_act(struct buf *out, const struct act_kind *k)
{
	/* By hand, a retry does not wait. */
	int does = act_has(k->act, ACT_WAITS) ? ACT_THEN : k->act;
	buf_addf(out, "\t%s: { ", k->verb);
	page_add_text(out, "title", k->title);
	page_add_text(out, "done", k->done);
	page_add_text(out, "about", k->about);
	page_add_text(out, "icon", event_named(act_event(does))->picture);
	buf_addf(out, "takes: %s, danger: %s, single: %s },\n", yes_no(act_has(k->act, ACT_TAKES)),
	         yes_no(act_has(k->act, ACT_ENDS_JOB)), yes_no(k->by_hand != BY_HAND_MANY));
}

/* Acts that end a job come after the others. */
static void add_acts(struct buf *out)
{
	buf_add(out, "export const ACTS = {\n");
	for (int last = 0; last < 2; last++)
		for (const struct act_kind *k = act_kinds; k < act_kinds + ACT_COUNT; k++)
			if (k->title && act_has(k->act, ACT_ENDS_JOB) == last)
				page_add_act(out, k);
	buf_add(out, "};\nexport const REMEDIES = {\n");
	for (int r = 0; r < REMEDY_COUNT; r++) {
		const struct event_name *event = event_named(act_event(r));
		buf_addf(out, "\t%s: { ", remedy_names[r]);
		page_add_text(out, "becomes", act_kinds[r].becomes);
		page_add_text(out, "would", act_kinds[r].would);
		if (event->counts & COUNTS_RECOVERED)
			page_add_text(out, "count", act_kinds[r].count);
		buf_addf(out, "tone: \"%s\", picture: \"%s\" },\n", event->tone, event->picture);
	}
	buf_add(out, "};\nexport const VERDICTS = {\n");
	for (int v = VERDICT_NONE + 1; v < VERDICT_COUNT; v++)
		buf_addf(out, "\t%s: { tone: \"%s\", picture: \"%s\", series: \"%s\" },\n",
		         verdict_names[v], verdict_kinds[v].tone, verdict_kinds[v].picture,
		         verdict_kinds[v].series);
	buf_add(out, "};\n");
}

/* The one module that is not a file: the tables of events, acts, remedies and verdicts. */
static const char *tables_module(struct arena *a)
{
	AUTO_BUF out = BUF_INIT;
	buf_add(&out, "/* tables.js: src/ledger/events.h, src/watch/act.h and src/watch/verdict.h, as "
	              "the page calls them. */\n"
	              "export const EVENTS = {\n");
	for (const struct event_name *e = event_names; e->name; e++) {
		buf_addf(&out, "\t%s: { label: ", e->name);
		buf_add_json(&out, e->label);
		buf_addf(&out, ", tone: \"%s\", picture: \"%s\", remedy: \"%s\", changes: %s },\n", e->tone,
		         e->picture, e->remedy ? e->remedy : "",
		         e->marks & MARK_CHANGES ? "true" : "false");
	}
	buf_add(&out, "};\n");
	add_acts(&out);
	return arena_strdup(a, buf_text(&out));
}

/* ---- the version ---- */

#define VERSION_LETTER 'v'
#define VERSION_DIGITS 16

static char version[1 + VERSION_DIGITS + 1];

static void find_version(void)
{
	AUTO_ARENA arena = ARENA_INIT;
	const char *tables = tables_module(&arena);
	uint64_t sum = fnv1a(FNV_START, tables, strlen(tables));
	for (const struct shipped_file *file = shipped_files; file->name; file++)
		if (text_starts(file->name, WEB))
			sum = fnv1a(sum, file->text, strlen(file->text));
	snprintf(version, sizeof version, "%c%0*llx", VERSION_LETTER, VERSION_DIGITS,
	         (unsigned long long)sum);
}

static const char *page_version(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_version);
	return version;
}

/* Of this build or of another one. */
static bool is_version(const char *text)
{
	return *text == VERSION_LETTER && strlen(text) == 1 + VERSION_DIGITS &&
	       strspn(text + 1, "0123456789abcdef") == VERSION_DIGITS;
}

/* index.html with the version in the addresses of its files. */
static const char *page_index_of(const char *text, struct arena *a)
{
	static const char before[] = "=\"/assets/";
	AUTO_BUF out = BUF_INIT;
	for (const char *at; (at = strstr(text, before)); text = at + strlen(before)) {
		buf_addn(&out, text, (size_t)(at - text));
		buf_addf(&out, "%s%s/", before, page_version());
	}
	buf_add(&out, text);
	return arena_strdup(a, buf_text(&out));
}

/* ---- files ---- */

static const char *page_text_of(const char *name, struct arena *a)
{
	if (text_eq(name, WEB "lib/tables.js"))
		return tables_module(a);
	const char *text = shipped_text(name);
	return text && text_eq(name, WEB "index.html") ? page_index_of(text, a) : text;
}

/* `kept`: the address has the version, so the file at it never changes. */
static void send_file(struct api_call *c, const char *name, bool kept)
{
	const char *text = page_text_of(name, &c->arena);
	const char *type = type_of(name);
	if (!text || !type) {
		api_problem(c, 404, "there is nothing at this address");
		return;
	}
	const char *tag = tag_of(text, &c->arena);
	c->out->type = type;
	api_header(c, "ETag", tag);
	api_header(c, "Cache-Control", kept ? "public, max-age=31536000, immutable" : "no-cache");
	if (has_it(c->request->if_none_match, tag))
		c->out->status = 304;
	else
		buf_add(&c->out->body, text);
}

static void send_index(struct api_call *c)
{
	send_file(c, WEB "index.html", false);
}

void page_missing(struct api_call *c)
{
	send_index(c);
	if (c->out->status != 304)
		c->out->status = 404;
}

/* FILE, ROOM/FILE, and both below a version. */
static void send_asset(struct api_call *c)
{
	assert(c->nparts >= 1);
	bool versioned = c->nparts > 1 && is_version(c->parts[0]);
	const char **parts = c->parts + versioned;
	int n = c->nparts - versioned;
	if (n > 2) {
		api_problem(c, 404, "there is nothing at this address");
		return;
	}
	const char *name = n == 1 ? arena_printf(&c->arena, WEB "%s", parts[0])
	                          : arena_printf(&c->arena, WEB "%s/%s", parts[0], parts[1]);
	send_file(c, name, versioned && text_eq(c->parts[0], page_version()));
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
	OPEN("/assets/{room}/{file}", send_asset),
	OPEN("/assets/{version}/{room}/{file}", send_asset),
	{.method = NULL},
};
