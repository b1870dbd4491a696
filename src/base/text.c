/* SPDX-License-Identifier: Apache-2.0
 * text.c: tests on strings, and hiding passwords.
 */
#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <strings.h>

bool text_eq(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

bool text_starts(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* What may follow a lead byte: the table of well-formed UTF-8 in Unicode, chapter 3. */
static const struct {
	unsigned char lead_low, lead_high, len, second_low, second_high;
} utf8_rows[] = {
	{0x01, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
	{0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
	{0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

size_t utf8_len(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	for (size_t i = 0; i < sizeof(utf8_rows) / sizeof(utf8_rows[0]); i++) {
		if (p[0] < utf8_rows[i].lead_low || p[0] > utf8_rows[i].lead_high)
			continue;
		if (utf8_rows[i].len == 1)
			return 1;
		if (p[1] < utf8_rows[i].second_low || p[1] > utf8_rows[i].second_high)
			return 0;
		for (size_t at = 2; at < utf8_rows[i].len; at++)
			if ((p[at] & 0xc0) != 0x80)
				return 0;
		return utf8_rows[i].len;
	}
	return 0;
}

bool utf8_valid(const char *text)
{
	size_t n = 1;
	for (; n && *text; text += n)
		n = utf8_len(text);
	return n > 0;
}

bool utf8_is_control(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;
	if (c[0] < 0x20 || c[0] == 0x7f)
		return true;
	if (c[0] == 0xc2)
		return c[1] >= 0x80 && c[1] < 0xa0;
	if (c[0] == 0xd8)
		return c[1] == 0x9c; /* U+061C */
	if (c[0] != 0xe2)
		return false;
	/* U+200E, U+200F; U+2028 to U+202E; U+2066 to U+2069 */
	return (c[1] == 0x80 && (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae))) ||
	       (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9);
}

void utf8_copy(char *to, size_t size, const char *text)
{
	size_t at = 0;
	assert(size > 0);
	while (*text != '\0') {
		size_t len = utf8_len(text);
		size_t n = len > 0 ? len : 1;
		if (at + n >= size)
			break;
		memcpy(to + at, len > 0 ? text : "?", n);
		at += n;
		text += n;
	}
	to[at] = '\0';
}

int word_index(const char *const *words, const char *word)
{
	for (int i = 0; words[i]; i++)
		if (text_eq(words[i], word))
			return i;
	return -1;
}

void words_list(const char *const *words, struct buf *out)
{
	for (int i = 0; words[i]; i++)
		buf_addf(out, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
}

/* Longer words are not typed by hand; they get no hint. */
enum { WORD_MOST = 64 };

static size_t text_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Edits to turn `a` into `b`; two swapped neighbours are one edit, the most common typo. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t rows = strlen(a), cols = strlen(b);
	size_t cost[3][WORD_MOST + 1];
	assert(rows <= WORD_MOST && cols <= WORD_MOST);
	for (size_t j = 0; j <= cols; j++)
		cost[0][j] = j;
	for (size_t i = 1; i <= rows; i++) {
		size_t *now = cost[i % 3], *above = cost[(i + 2) % 3], *above2 = cost[(i + 1) % 3];
		now[0] = i;
		for (size_t j = 1; j <= cols; j++) {
			size_t change = above[j - 1] + (a[i - 1] != b[j - 1]);
			now[j] = text_least(change, text_least(above[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = text_least(now[j], above2[j - 2] + 1);
		}
	}
	return cost[rows % 3][cols];
}

const char *text_nearest(const char *word, const char *const *candidates)
{
	size_t len = strlen(word);
	if (!len || len > WORD_MOST)
		return NULL;
	/* A third of the letters may be wrong, and at least one. */
	size_t best = len / 3 + 1 + (len < 3);
	const char *nearest = NULL;
	for (; *candidates; candidates++) {
		if (strlen(*candidates) > WORD_MOST)
			continue;
		size_t distance = edit_distance(word, *candidates);
		/* Of two equally near ones, the one with the right first letter. */
		bool tie = nearest && distance == best && nearest[0] != word[0] && **candidates == word[0];
		/* If every letter changed, nothing of the word is left. */
		if ((distance < best || tie) && distance < len) {
			best = distance;
			nearest = *candidates;
		}
	}
	return nearest;
}

struct hint hint_of(const char *near, const char *before, const char *after)
{
	struct hint hint = {""};
	if (near)
		snprintf(hint.text, sizeof hint.text, "; did you mean %s%s%s?", before, near, after);
	return hint;
}

struct hint text_hint(const char *word, const char *const *candidates)
{
	return hint_of(text_nearest(word, candidates), "\"", "\"");
}

struct text_span {
	const char *start;
	size_t len;
};

static bool span_is_key(const char *text, size_t n)
{
	static const char *const keys[] = {"password", "sslpassword", "passwd", "pwd"};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strlen(keys[i]) == n && !strncasecmp(text, keys[i], n))
			return true;
	return false;
}

/*
 * Where user:password@ of a URL ends, or NULL. A password with a bare '@', '/' or '?' is wrong or
 * unwise but occurs (libpq accepts the '?'), and must not be shown either.
 */
static const char *userinfo_end(const char *authority)
{
	size_t len = strcspn(authority, "/?#");
	const char *at = memrchr(authority, '@', len), *stop = authority + len;
	if (at || !*stop)
		return at;
	const char *later = strchr(stop, '@');
	const char *barrier = strchr(stop, *stop == '/' ? '?' : '/');
	return later && (!barrier || later < barrier) ? later : NULL;
}

static struct text_span userinfo_password(const char *authority)
{
	const char *at = userinfo_end(authority);
	const char *colon = at ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
	if (!colon)
		return (struct text_span){NULL, 0};
	return (struct text_span){colon + 1, (size_t)(at - colon - 1)};
}

/* The next password=… of a URL's query at or after `p`. */
static struct text_span query_password(const char *p)
{
	while (*p) {
		size_t key = strcspn(p, "=&");
		size_t pair = strcspn(p, "&");
		if (p[key] == '=' && span_is_key(p, key))
			return (struct text_span){p + key + 1, pair - key - 1};
		p += pair + (p[pair] == '&');
	}
	return (struct text_span){NULL, 0};
}

/* A conninfo value: quoted with '…', in which \ escapes, or up to a space. */
static size_t conninfo_value_len(const char *p)
{
	size_t n = 0;
	bool quoted = *p == '\'';
	for (n = quoted; p[n]; n++)
		if (p[n] == '\\' && p[n + 1])
			n++;
		else if (quoted ? p[n] == '\'' : isspace((unsigned char)p[n]))
			return n + quoted;
	return n;
}

/* The next password=… of a key=value conninfo at or after `p`; spaces around '=' are allowed. */
static struct text_span conninfo_password(const char *p)
{
	while (*p) {
		p += strspn(p, " \t\r\n");
		size_t key = strcspn(p, "= \t\r\n");
		const char *sign = p + key + strspn(p + key, " \t\r\n");
		if (*sign != '=') {
			p = sign;
			continue;
		}
		const char *value = sign + 1 + strspn(sign + 1, " \t\r\n");
		size_t len = conninfo_value_len(value);
		if (span_is_key(p, key))
			return (struct text_span){value, len};
		p = value + len;
	}
	return (struct text_span){NULL, 0};
}

static const char *url_authority(const char *url)
{
	const char *scheme_end = strstr(url, "://");
	if (!scheme_end || scheme_end == url)
		return NULL;
	for (const char *p = url; p < scheme_end; p++)
		if (!isalnum((unsigned char)*p) && !strchr("+-.", *p))
			return NULL;
	return scheme_end + 3;
}

/*
 * For a text that was meant as a URL but is not one: "postgres//u:secret@h/db",
 * "postgres:u:secret@h/db", "jdbc:postgresql://u:secret@h/db". A message shows it to the user who
 * mistyped it.
 */
static struct text_span mistyped_password(const char *url, const char *from)
{
	const struct text_span none = {NULL, 0};
	const char *slashes = strstr(url, "//");
	if (text_starts(url, "sqlite:"))
		return none;
	struct text_span userinfo = userinfo_password(slashes ? slashes + 2 : url);
	if (userinfo.len > 0 && userinfo.start >= from)
		return userinfo;
	const char *query = from > url && *from == '&' ? from : strchr(from, '?');
	return query ? query_password(query + 1) : none;
}

/* The first password at or after `from`, which is `url` itself or the end of the previous one. */
static struct text_span password_next(const char *url, const char *from)
{
	const char *authority = url_authority(url);
	if (!authority) {
		struct text_span pair = conninfo_password(from);
		return pair.start ? pair : mistyped_password(url, from);
	}
	struct text_span userinfo = userinfo_password(authority);
	/* "user:@host": an empty password must not be found again, and hides nothing. */
	if (userinfo.len > 0 && userinfo.start >= from)
		return userinfo;
	/* A '?' inside the user's password is not the query. */
	const char *query = strchr(from > authority ? from : authority, '?');
	if (query)
		return query_password(query + 1);
	const char *rest = from > authority && *from == '&' ? from + 1 : "";
	return query_password(rest);
}

void url_redact(const char *url, struct buf *out)
{
	const char *from = url;
	for (struct text_span s = password_next(url, from); s.start; s = password_next(url, from)) {
		buf_addn(out, from, (size_t)(s.start - from));
		buf_add(out, "***");
		from = s.start + s.len;
	}
	buf_add(out, from);
}

void url_wipe_password(char *url)
{
	const char *from = url;
	for (struct text_span s = password_next(url, from); s.start; s = password_next(url, from)) {
		memset(url + (s.start - url), '*', s.len);
		from = s.start + s.len;
	}
}

bool int_parse(const char *text, int64_t *out)
{
	/* strtoll would also accept leading spaces. */
	if (!isdigit((unsigned char)text[*text == '-' || *text == '+']))
		return false;
	char *end;
	errno = 0;
	long long number = strtoll(text, &end, 10);
	if (errno || *end)
		return false;
	*out = number;
	return true;
}

bool bool_parse(const char *text, bool *out)
{
	static const char *const words[][2] = {
		{"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		for (int value = 0; value < 2; value++)
			if (!strcasecmp(text, words[i][value])) {
				*out = value;
				return true;
			}
	return false;
}

/* ---- struct buf ---- */

/*
 * A growing string. Room doubles, so that building a long text one
 * piece at a time stays linear.
 */

/* Make room for `more` bytes and a NUL. */
static void buf_reserve(struct buf *b, size_t more)
{
	size_t need = b->len + more + 1;
	assert(need > b->len);
	if (need <= b->cap)
		return;
	size_t cap = b->cap ? b->cap * 2 : 64;
	b->cap = cap < need ? need : cap;
	b->data = mem_grow(b->data, b->cap);
}

void buf_addn(struct buf *b, const char *bytes, size_t n)
{
	buf_reserve(b, n);
	if (n)
		memcpy(b->data + b->len, bytes, n);
	b->len += n;
	b->data[b->len] = '\0';
}

void buf_add(struct buf *b, const char *text)
{
	buf_addn(b, text, strlen(text));
}

void buf_addch(struct buf *b, char c)
{
	buf_addn(b, &c, 1);
}

void buf_addint(struct buf *b, int64_t value)
{
	char digits[20];
	size_t at = sizeof digits;
	uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	do
		digits[--at] = (char)('0' + rest % 10);
	while (rest /= 10);
	if (value < 0)
		digits[--at] = '-';
	buf_addn(b, digits + at, sizeof digits - at);
}

void buf_vaddf(struct buf *b, const char *fmt, va_list args)
{
	va_list again;
	buf_reserve(b, 0);
	size_t room = b->cap - b->len;
	va_copy(again, args);
	int len = vsnprintf(b->data + b->len, room, fmt, args);
	assert(len >= 0);
	if ((size_t)len >= room) { /* most texts fit at once */
		buf_reserve(b, (size_t)len);
		vsnprintf(b->data + b->len, (size_t)len + 1, fmt, again);
	}
	va_end(again);
	b->len += (size_t)len;
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	buf_vaddf(b, fmt, args);
	va_end(args);
}

void buf_add_count(struct buf *b, int64_t n)
{
	char digits[32];
	int len = snprintf(digits, sizeof digits, "%lld", (long long)n);
	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0 && digits[i - 1] != '-')
			buf_addch(b, ',');
		buf_addch(b, digits[i]);
	}
}

/* The two-character escapes of JSON; other control characters go as \u00XX. */
static const char json_short[128] = {
	['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
	['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't',
};

static void json_add_ascii(struct buf *b, unsigned char c)
{
	if (json_short[c]) {
		buf_addch(b, '\\');
		buf_addch(b, json_short[c]);
	} else if (c < 0x20 || c == 0x7f) {
		buf_addf(b, "\\u%04x", c);
	} else {
		buf_addch(b, (char)c);
	}
}

/* As \uXXXX, which means the same to a reader: JSON is also printed on terminals. */
static void json_add_control(struct buf *b, const char *text, size_t n)
{
	const unsigned char *c = (const unsigned char *)text;
	unsigned code = n == 2 ? (c[0] & 0x1fU) << 6 | (c[1] & 0x3fU)
	                       : (c[0] & 0x0fU) << 12 | (c[1] & 0x3fU) << 6 | (c[2] & 0x3fU);
	buf_addf(b, "\\u%04x", code);
}

/* How much of a text needs no escaping in JSON. */
static size_t json_plain(const char *text)
{
	size_t n = 0;
	for (unsigned char c = (unsigned char)text[0]; c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
	     c = (unsigned char)text[n])
		n++;
	return n;
}

void buf_add_json(struct buf *b, const char *text)
{
	buf_addch(b, '"');
	while (*text) {
		size_t plain = json_plain(text);
		buf_addn(b, text, plain);
		text += plain;
		if (!*text)
			break;
		size_t n = utf8_len(text);
		if (n == 1)
			json_add_ascii(b, (unsigned char)*text);
		else if (n && utf8_is_control(text))
			json_add_control(b, text, n);
		else if (n)
			buf_addn(b, text, n);
		else
			buf_add(b, "\xef\xbf\xbd"); /* U+FFFD for a byte that is no UTF-8 */
		text += n ? n : 1;
	}
	buf_addch(b, '"');
}

void buf_add_document(struct buf *b, const char *json)
{
	while (*json) {
		size_t n = utf8_len(json);
		n = n ? n : 1;
		/* Such a character only occurs inside a string. White space between tokens is allowed. */
		if (n > 1 && utf8_is_control(json))
			json_add_control(b, json, n);
		else if (*json == 0x7f)
			json_add_ascii(b, 0x7f);
		else
			buf_addn(b, json, n);
		json += n;
	}
}

const char *buf_text(const struct buf *b)
{
	return b->data ? b->data : "";
}

void buf_clear(struct buf *b)
{
	buf_cut(b, 0);
}

void buf_cut(struct buf *b, size_t len)
{
	assert(len <= b->len);
	b->len = len;
	if (b->data)
		b->data[len] = '\0';
}

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf)BUF_INIT;
}

char *buf_to_arena(struct buf *b, struct arena *a)
{
	char *text = arena_strndup(a, buf_text(b), b->len);
	buf_release(b);
	return text;
}

char *buf_detach(struct buf *b)
{
	char *text = b->data ? b->data : mem_strdup("");
	*b = (struct buf)BUF_INIT;
	return text;
}

/* ---- JSON ---- */

enum { PER_BYTE = 8, LEAST = 4096 };

/*
 * If memory is refused, jansson usually reports "invalid token", so a rejected text is parsed a
 * second time, when there is room.
 */
json_t *json_read_bytes(const char *bytes, size_t n, size_t flags)
{
	json_t *value = json_loadb(bytes, n, flags, NULL);
	if (value)
		return value;
	free(mem_grow(NULL, LEAST + n * PER_BYTE)); /* returns when there is room */
	return json_loadb(bytes, n, flags, NULL);
}

json_t *json_read(const char *text, size_t flags)
{
	return json_read_bytes(text, strlen(text), flags);
}

bool json_write(struct buf *b, const json_t *value, size_t flags)
{
	char *text = value ? json_dumps(value, flags) : NULL;
	if (text)
		buf_add_document(b, text);
	free(text);
	return text != NULL;
}

void json_use_our_memory(void)
{
	json_set_alloc_funcs(mem_alloc, free);
}
