/* SPDX-License-Identifier: Apache-2.0 */
/* uri.c: see uri.h. */
#include "http/uri.h"

#include "base/text.h"

static int hex(char c)
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
static const char *decode(const char *from, size_t n, bool plus_is_blank, struct arena *a,
                          const char **why)
{
	char *to = arena_alloc(a, n + 1), *end = to;
	for (size_t i = 0; i < n; i++) {
		if (from[i] != '%') {
			*end++ = plus_is_blank && from[i] == '+' ? ' ' : from[i];
			continue;
		}
		int high = i + 2 < n ? hex(from[i + 1]) : -1, low = i + 2 < n ? hex(from[i + 2]) : -1;
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
		const char *part = decode(from, (size_t)(path - from), false, a, &why);
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
			out->pairs[out->npairs].name = decode(query, name, true, a, &why);
			if (!why)
				out->pairs[out->npairs++].value = decode(query + value, n - value, true, a, &why);
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
	/* In absolute form a name and password may stand before the host. */
	const char *from = target[0] == '/' ? target : "(not a path)";
	return from == target ? arena_printf(a, "%.*s", (int)n, target) : from;
}
