/* SPDX-License-Identifier: Apache-2.0
 * buf.c: a growing string. Room doubles, so that building a long text one
 * piece at a time stays linear.
 */
#include "base/buf.h"

#include "base/mem.h"
#include "base/text.h"

#include <assert.h>
#include <stdarg.h>

/* Make room for `more` bytes and the NUL behind them. */
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

/* As \uXXXX, which a reader takes for the same: JSON is also printed on terminals. */
static void json_add_steering(struct buf *b, const char *text, size_t n)
{
	const unsigned char *c = (const unsigned char *)text;
	unsigned code = n == 2 ? (c[0] & 0x1fU) << 6 | (c[1] & 0x3fU)
	                       : (c[0] & 0x0fU) << 12 | (c[1] & 0x3fU) << 6 | (c[2] & 0x3fU);
	buf_addf(b, "\\u%04x", code);
}

/* How much of a text stands in JSON as it is. */
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
		else if (n && utf8_steers(text))
			json_add_steering(b, text, n);
		else if (n)
			buf_addn(b, text, n);
		else
			buf_add(b, "\xef\xbf\xbd"); /* U+FFFD for a byte that is no UTF-8 */
		text += n ? n : 1;
	}
	buf_addch(b, '"');
}

const char *buf_text(const struct buf *b)
{
	return b->data ? b->data : "";
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf)BUF_INIT;
}

char *buf_detach(struct buf *b)
{
	char *text = b->data ? b->data : mem_strdup("");
	*b = (struct buf)BUF_INIT;
	return text;
}
