/* SPDX-License-Identifier: Apache-2.0
 * api_values.c: checked access to a call's query parameters and body members, and how a call that
 * cannot be done is answered.
 */
#include "http/api_values.h"

#include "base/clock.h"
#include "http/api.h"
#include "ledger/events.h"
#include "lib/advice.h"
#include "recover/masked.h"

#include <assert.h>
#include <inttypes.h>

/* ---- the query ---- */

const char *api_query_next(const struct api_call *c, const char *name, int *at)
{
	while (*at < c->uri->npairs) {
		int i = (*at)++;
		if (text_eq(c->uri->pairs[i].name, name))
			return c->uri->pairs[i].value;
	}
	return NULL;
}

const char *api_query(const struct api_call *c, const char *name)
{
	int at = 0;
	return api_query_next(c, name, &at);
}

static bool out_of_bounds(struct api_call *c, const char *name, int64_t least, int64_t most)
{
	if (most == INT64_MAX)
		return api_problem(c, 400, "%s must be a whole number, at least %" PRId64, name, least);
	return api_problem(c, 400, "%s must be a whole number from %" PRId64 " to %" PRId64, name,
	                   least, most);
}

bool api_query_int(struct api_call *c, const char *name, int64_t least, int64_t most, int64_t *n)
{
	const char *text = api_query(c, name);
	int64_t value;
	if (!text)
		return true;
	if (!int_parse(text, &value) || value < least || value > most)
		return out_of_bounds(c, name, least, most);
	*n = value;
	return true;
}

bool api_query_duration(struct api_call *c, const char *name, int64_t *us)
{
	const char *text = api_query(c, name);
	if (!text || duration_parse(text, us))
		return true;
	return api_problem(c, 400, "%s must be a duration such as 90s, 15m or 7d", name);
}

/* The words of a list that is separated by spaces; ends with NULL. */
static const char *const *words_of(struct api_call *c, const char *list)
{
	const char **words = ARENA_ARRAY(&c->arena, const char *, strlen(list) / 2 + 2);
	char *rest = NULL, *copy = arena_strdup(&c->arena, list);
	int n = 0;
	for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		words[n++] = w;
	return words;
}

static bool is_taken(struct api_call *c, const char *what, const char *name,
                     const char *const *words)
{
	return word_index(words, name) >= 0 || api_problem(c, 400, "there is no %s \"%s\" here%s", what,
	                                                   name, text_hint(name, words).text);
}

bool api_query_takes(struct api_call *c, const char *names)
{
	const char *const *words = words_of(c, names);
	for (int i = 0; i < c->uri->npairs; i++)
		if (!is_taken(c, "parameter", c->uri->pairs[i].name, words))
			return false;
	return true;
}

bool api_event_known(struct api_call *c, const char *event)
{
	const char *near = NULL;
	if (!event || event_known(event, &near))
		return true;
	return api_problem(c, 400, "there is no event \"%.80s\"%s", event, hint_of(near, "", "").text);
}

/* ---- the body ---- */

bool api_body_takes(struct api_call *c, const char *names)
{
	const char *const *words = words_of(c, names);
	const char *name;
	json_t *value;
	json_object_foreach(c->body, name, value)
	{
		if (!is_taken(c, "member", name, words))
			return false;
	}
	return true;
}

/* NULL: absent or null. */
static const json_t *api_values_member(const struct api_call *c, const char *name)
{
	const json_t *value = json_object_get(c->body, name);
	return json_is_null(value) ? NULL : value;
}

bool api_body_text(struct api_call *c, const char *name, const char **out)
{
	const json_t *value = api_values_member(c, name);
	if (value && !json_is_string(value))
		return api_problem(c, 400, "%s must be a string", name);
	if (value)
		*out = json_string_value(value);
	return true;
}

bool api_body_int(struct api_call *c, const char *name, int64_t least, int64_t most, int64_t *out)
{
	const json_t *value = api_values_member(c, name);
	if (!value)
		return true;
	if (!json_is_integer(value) || json_integer_value(value) < least ||
	    json_integer_value(value) > most)
		return out_of_bounds(c, name, least, most);
	*out = json_integer_value(value);
	return true;
}

bool api_body_bool(struct api_call *c, const char *name, bool *out)
{
	const json_t *value = api_values_member(c, name);
	if (value && !json_is_boolean(value))
		return api_problem(c, 400, "%s must be true or false", name);
	if (value)
		*out = json_is_true(value);
	return true;
}

/* ---- problems ---- */

static const struct {
	int status;
	const char *title;
} titles[] = {
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{409, "Conflict"},
	{410, "Gone"},
	{413, "Content Too Large"},
	{414, "URI Too Long"},
	{415, "Unsupported Media Type"},
	{421, "Misdirected Request"},
	{422, "Unprocessable Content"},
	{429, "Too Many Requests"},
	{500, "Internal Server Error"},
	{503, "Service Unavailable"},
};

static const char *api_values_title_of(int status)
{
	for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
		if (titles[i].status == status)
			return titles[i].title;
	return "Problem";
}

static void write_problem(struct api_call *c, int status, const char *detail, const char *next)
{
	struct buf *out = &c->out->body;
	c->out->status = status;
	c->out->type = "application/problem+json";
	buf_clear(out);
	buf_add(out, "{\"type\":\"about:blank\",\"title\":");
	buf_add_json(out, api_values_title_of(status));
	json_number(out, "status", true, status);
	json_text(out, "detail", detail);
	if (next && *next)
		json_text(out, "next", next);
	buf_add(out, "}\n");
	if (status == 503)
		api_header(c, "Retry-After", "1");
}

const struct watch *api_seen(struct api_call *c, const struct watch *w)
{
	return viewer_watch(w, &settings_http(&c->setup->settings)->mask, c->role, &c->arena);
}

struct viewer api_viewer(struct api_call *c, const struct watch *w)
{
	return (struct viewer){.watch = api_seen(c, w),
	                       .database = c->database ? c->database->name : NULL,
	                       .role = c->role};
}

bool api_problem(struct api_call *c, int status, const char *fmt, ...)
{
	char detail[1024];
	va_list args;
	assert(status >= 400);
	va_start(args, fmt);
	vsnprintf(detail, sizeof detail, fmt, args);
	va_end(args);
	write_problem(c, status, detail, NULL);
	return false;
}

/* What may succeed unchanged later is 503; our own errors are 500. */
static const struct {
	defib_err code;
	int status;
} statuses[] = {
	{DEFIB_USAGE, 400},      {DEFIB_CONNECTION, 503}, {DEFIB_UNKNOWN_OUTCOME, 503},
	{DEFIB_TIMEOUT, 503},    {DEFIB_LOCKED, 503},     {DEFIB_FULL, 503},
	{DEFIB_READ_ONLY, 503},  {DEFIB_CONSTRAINT, 409}, {DEFIB_REFUSED, 409},
	{DEFIB_LEASE_LOST, 409}, {DEFIB_NOT_FOUND, 404},  {DEFIB_BAD_VALUE, 400},
};

bool api_failed(struct api_call *c, const struct failure *f)
{
	int status = 500;
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
		if (statuses[i].code == f->code)
			status = statuses[i].status;
	return api_failed_as(c, status, f);
}

bool api_failed_as(struct api_call *c, int status, const struct failure *f)
{
	struct failure shown = *f;
	/* What the database says of a row may quote a value. */
	if (c->watch && c->setup)
		masked_failure(api_seen(c, c->watch), &shown);
	write_problem(c, status, shown.what, failure_next(&shown));
	return false;
}

void api_header(struct api_call *c, const char *name, const char *value)
{
	struct api_answer *out = c->out;
	int i = 0;
	while (i < out->nheaders && !text_eq(out->headers[i].name, name))
		i++;
	assert(i < API_HEADERS_MAX);
	out->headers[i].name = name;
	out->headers[i].value = arena_strdup(&c->arena, value);
	out->nheaders = i == out->nheaders ? i + 1 : out->nheaders;
}

/* ---- the address ---- */

static int api_values_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_plain_text(const char *text)
{
	while (*text) {
		size_t n = utf8_len(text);
		if (n == 0 || (unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
		text += n;
	}
	return true;
}

/* `n` bytes decoded; NULL with a sentence in `why`. */
static const char *api_values_decode(const char *from, size_t n, bool plus_is_blank,
                                     struct arena *a, const char **why)
{
	char *to = arena_alloc(a, n + 1), *end = to;
	for (size_t i = 0; i < n; i++) {
		if (from[i] != '%') {
			*end++ = plus_is_blank && from[i] == '+' ? ' ' : from[i];
			continue;
		}
		int high = i + 2 < n ? api_values_hex(from[i + 1]) : -1,
			low = i + 2 < n ? api_values_hex(from[i + 2]) : -1;
		if (high < 0 || low < 0) {
			*why =
				"a percent sign must be followed by two hexadecimal digits; write %25 for the sign";
			return NULL;
		}
		*end++ = (char)(high * 16 + low);
		i += 2;
	}
	*end = '\0';
	if (strlen(to) != (size_t)(end - to) || !is_plain_text(to)) {
		*why = "the address holds a control character, or bytes that are not UTF-8";
		return NULL;
	}
	return to;
}

static const char *parse_path(const char *path, size_t n, struct arena *a, struct uri *out)
{
	const char *end = path + n, *why = NULL;
	if (n == 0 || *path != '/')
		return "the address does not begin with /";
	while (path < end) {
		const char *from = path + 1;
		const char *next = memchr(from, '/', (size_t)(end - from));
		path = next ? next : end;
		if (out->nparts == URI_PARTS_MAX)
			return "the address has too many parts";
		const char *part = api_values_decode(from, (size_t)(path - from), false, a, &why);
		if (!part)
			return why;
		if (text_eq(part, ".") || text_eq(part, ".."))
			return "the address has a part \".\" or \"..\"";
		out->parts[out->nparts++] = part;
	}
	return NULL;
}

static const char *parse_query(const char *query, struct arena *a, struct uri *out)
{
	const char *why = NULL;
	while (*query) {
		size_t n = strcspn(query, "&"), name = strcspn(query, "=&");
		size_t value = name < n ? name + 1 : n;
		if (n > 0 && out->npairs == URI_PAIRS_MAX)
			return "the address has too many parameters";
		if (n > 0) {
			out->pairs[out->npairs].name = api_values_decode(query, name, true, a, &why);
			if (!why)
				out->pairs[out->npairs++].value =
					api_values_decode(query + value, n - value, true, a, &why);
		}
		if (why)
			return why;
		query += n + (query[n] == '&');
	}
	return NULL;
}

const char *uri_parse(const char *target, struct arena *a, struct uri *out)
{
	size_t path = strcspn(target, "?");
	*out = (struct uri){0};
	if (strlen(target) > URI_MAX)
		return "the address is too long";
	const char *why = parse_path(target, path, a, out);
	if (!why && target[path])
		why = parse_query(target + path + 1, a, out);
	return why;
}

const char *uri_loggable(const char *target, struct arena *a)
{
	size_t n = strcspn(target, "?#;");
	/* In absolute form a name and password may precede the host. */
	const char *from = target[0] == '/' ? target : "(not a path)";
	return from == target ? arena_printf(a, "%.*s", (int)n, target) : from;
}
