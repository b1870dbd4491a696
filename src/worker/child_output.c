/* SPDX-License-Identifier: Apache-2.0
 * child_output.c: a bounded part of an unbounded stream. Every function drops what exceeds its
 * bound and keeps accepting, because a full pipe would stop the child.
 */

#include "worker/child_output.h"

#include <assert.h>

static size_t child_output_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Well-formed UTF-8; other bytes, and controls except tab and newline, become U+FFFD. */
static void child_output_add_clean(struct buf *out, const char *bytes, size_t n)
{
	/* A NUL after the bytes lets utf8_len look ahead safely. */
	AUTO_BUF copy = BUF_INIT;
	buf_addn(&copy, bytes, n);
	for (size_t i = 0; i < n;) {
		const char *at = copy.data + i;
		size_t len = utf8_len(at);
		bool control = utf8_is_control(at) && *at != '\t' && *at != '\n';
		if (len && !control)
			buf_addn(out, at, len);
		else if (*at != '\r')
			buf_add(out, "\xef\xbf\xbd");
		i += len ? len : 1;
	}
}

void child_output_result(struct child_output *o, const char *bytes, size_t n)
{
	assert(o->result.len <= CHILD_RESULT_MAX);
	size_t room = CHILD_RESULT_MAX - o->result.len;
	buf_addn(&o->result, bytes, child_output_least(n, room));
	o->result_too_long |= n > room;
}

static void keep_last(struct buf *b, size_t n)
{
	if (b->len <= n)
		return;
	memmove(b->data, b->data + b->len - n, n + 1);
	b->len = n;
}

void child_output_stderr(struct child_output *o, const char *bytes, size_t n)
{
	size_t take = child_output_least(n, CHILD_STDERR_TAIL);
	buf_addn(&o->tail, bytes + n - take, take);
	if (o->tail.len >= (size_t)2 * CHILD_STDERR_TAIL)
		keep_last(&o->tail, CHILD_STDERR_TAIL);
}

static void pass_line(struct child_output *o)
{
	AUTO_BUF line = BUF_INIT;
	child_output_add_clean(&line, buf_text(&o->stdout_line), o->stdout_line.len);
	buf_clear(&o->stdout_line);
	if (o->on_line && line.len)
		o->on_line(o->on_line_ctx, buf_text(&line));
}

void child_output_stdout(struct child_output *o, const char *bytes, size_t n)
{
	while (n) {
		const char *end = memchr(bytes, '\n', n);
		size_t part = end ? (size_t)(end - bytes) : n;
		buf_addn(&o->stdout_line, bytes,
		         child_output_least(part, CHILD_LINE_MAX - o->stdout_line.len));
		if (end)
			pass_line(o);
		size_t used = part + (end ? 1 : 0);
		bytes += used;
		n -= used;
	}
}

static void end_line(struct child_output *o)
{
	buf_clear(&o->line);
	child_output_add_clean(&o->line, buf_text(&o->partial), o->partial.len);
	buf_clear(&o->partial);
	o->line_is_new = true;
}

void child_output_progress(struct child_output *o, const char *bytes, size_t n)
{
	while (n) {
		const char *end = memchr(bytes, '\n', n);
		size_t part = end ? (size_t)(end - bytes) : n;
		assert(o->partial.len <= CHILD_PROGRESS_MAX);
		buf_addn(&o->partial, bytes, child_output_least(part, CHILD_PROGRESS_MAX - o->partial.len));
		if (end)
			end_line(o);
		size_t used = part + (end ? 1 : 0);
		bytes += used;
		n -= used;
	}
}

void child_output_close(struct child_output *o)
{
	if (o->partial.len)
		end_line(o);
	pass_line(o);
}

const char *child_output_fetch_progress(struct child_output *o)
{
	if (!o->line_is_new)
		return NULL;
	o->line_is_new = false;
	return buf_text(&o->line);
}

static bool child_output_is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0';
}

/* Where the last CHILD_STDERR_TAIL bytes start (not inside a character), and their trimmed end. */
static size_t tail_bounds(const struct child_output *o, size_t *end)
{
	const char *text = buf_text(&o->tail);
	size_t start = 0;
	if (o->tail.len > CHILD_STDERR_TAIL)
		start = o->tail.len - CHILD_STDERR_TAIL;
	/* A character has at most three continuation bytes. */
	for (int i = 0; i < 3 && ((unsigned char)text[start] & 0xc0) == 0x80; i++)
		start++;
	*end = o->tail.len;
	while (*end > start && child_output_is_blank(text[*end - 1]))
		(*end)--;
	return start;
}

void child_output_add_tail(const struct child_output *o, struct buf *out)
{
	size_t end, start = tail_bounds(o, &end);
	child_output_add_clean(out, buf_text(&o->tail) + start, end - start);
}

void child_output_add_last_line(const struct child_output *o, struct buf *out)
{
	size_t end, start = tail_bounds(o, &end);
	const char *text = buf_text(&o->tail) + start;
	const char *newline = memrchr(text, '\n', end - start);
	const char *line = newline ? newline + 1 : text;
	child_output_add_clean(out, line, (size_t)(text + (end - start) - line));
}

void child_output_release(struct child_output *o)
{
	buf_release(&o->result);
	buf_release(&o->tail);
	buf_release(&o->partial);
	buf_release(&o->stdout_line);
	buf_release(&o->line);
}
