/* SPDX-License-Identifier: Apache-2.0
 * lines.c: see lines.h. A payload or a result is passed on as its writer wrote it, so that no
 * number in it changes.
 */

#include "worker/lines.h"

#include "worker/source.h"
#include "worker/token.h"

#include <jansson.h>

const char *const line_do_words[] = {
#define X(id, word, as) [LINE_##id] = (word),
	LINE_DO_LIST(X)
#undef X
		NULL,
};

enum settle_as line_outcome(enum line_do what)
{
	static const enum settle_as outcomes[] = {
#define X(id, word, as) [LINE_##id] = (as),
		LINE_DO_LIST(X)
#undef X
	};
	return outcomes[what];
}

/* ---- what the client says ---- */

/* These read text that is known to be JSON. */

static const char *after_space(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

/* After the closing quote of the string at `at`. */
static const char *after_string(const char *at)
{
	for (at++; *at != '"'; at++)
		at += *at == '\\';
	return at + 1;
}

static const char *after_value(const char *at)
{
	int depth = 0;
	do {
		if (*at == '"') {
			at = after_string(at);
			continue;
		}
		depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
		at++;
	} while (depth > 0 || !strchr(",}] \t\r\n", *at));
	return at;
}

/* The value of a member as it is written; NULL: the name is written with escapes. */
static const char *raw_member(const char *object, const char *name, struct arena *a)
{
	size_t len = strlen(name);
	const char *at = after_space(object);
	while (*at != '}') {
		const char *begin = after_space(at + 1); /* after { or , */
		const char *end = after_string(begin);
		const char *value = after_space(after_space(end) + 1);
		at = after_value(value);
		if ((size_t)(end - begin) == len + 2 && memcmp(begin + 1, name, len) == 0)
			return arena_strndup(a, value, (size_t)(at - value));
		at = after_space(at);
	}
	return NULL;
}

static defib_err text_member(json_t *line, const char *name, struct arena *a, const char **out,
                             struct failure *f)
{
	json_t *value = json_object_get(line, name);
	*out = NULL;
	if (!value || json_is_null(value))
		return DEFIB_OK;
	if (!json_is_string(value))
		return fail(f, DEFIB_USAGE, "\"%s\" must be a string", name);
	*out = arena_strdup(a, json_string_value(value));
	return DEFIB_OK;
}

/* `least`: the smallest value allowed; not given: *out is unchanged. */
static defib_err number_member(json_t *line, const char *name, double least, int64_t *out,
                               struct failure *f)
{
	json_t *value = json_object_get(line, name);
	if (!value || json_is_null(value))
		return DEFIB_OK;
	double number = json_number_value(value);
	if (!json_is_number(value) || number < least || number > 9e15)
		return fail(f, DEFIB_USAGE, "\"%s\" must be a number of at least %.0f", name, least);
	*out = (int64_t)number;
	return DEFIB_OK;
}

static defib_err read_do(json_t *line, struct line_fields *out, struct failure *f)
{
	const char *word = json_string_value(json_object_get(line, "do"));
	if (!json_is_object(line) || !word)
		return fail(f, DEFIB_USAGE, "a line is an object with \"do\": %s, …", line_do_words[0]);
	int at = word_index(line_do_words, word);
	if (at < 0)
		return fail(f, DEFIB_USAGE, "\"do\": \"%.40s\" is not known%s", word,
		            text_hint(word, line_do_words).text);
	out->what = (enum line_do)at;
	return DEFIB_OK;
}

static defib_err read_members(json_t *line, struct arena *a, struct line_fields *out,
                              struct failure *f)
{
	bool has_run = out->what != LINE_STOP && out->what != LINE_PONG;
	defib_err err = number_member(line, "run", 1, &out->run, f);
	if (!err && has_run && out->run == 0)
		err = fail(f, DEFIB_USAGE, "\"%s\" needs the \"run\" of its job", line_do_words[out->what]);
	if (!err)
		err = text_member(line, "error", a, &out->error, f);
	if (!err)
		err = text_member(line, "step", a, &out->step, f);
	if (!err)
		err = text_member(line, "text", a, &out->text, f);
	if (!err)
		err = number_member(line, out->what == LINE_EXTEND ? "ms" : "delay_ms", 0, &out->ms, f);
	if (!err && out->what == LINE_EXTEND && out->ms < 0)
		err = fail(f, DEFIB_USAGE, "\"extend\" needs \"ms\"");
	return err;
}

defib_err line_read(const char *line, size_t n, struct arena *a, struct line_fields *out,
                    struct failure *f)
{
	*out = (struct line_fields){.ms = -1};
	/* Numbers of any size may be in a result: none is converted there. */
	json_auto_t *json = json_read_bytes(line, n, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL);
	if (!json)
		return fail(f, DEFIB_USAGE, "not JSON: %.*s", n > 60 ? 60 : (int)n, line);
	defib_err err = read_do(json, out, f);
	if (!err)
		err = read_members(json, a, out, f);
	json_t *result = json_object_get(json, "result");
	if (err || !result || json_is_null(result))
		return err;
	out->result = raw_member(line, "result", a);
	if (!out->result)
		return fail(f, DEFIB_USAGE, "\"result\" must be written without escapes");
	return DEFIB_OK;
}

/* ---- what the client is told ---- */

static void lines_add_text(struct buf *out, const char *name, const char *text)
{
	buf_addf(out, ",\"%s\":", name);
	if (text)
		buf_add_json(out, text);
	else
		buf_add(out, "null");
}

static void lines_add_number(struct buf *out, const char *name, int64_t number)
{
	buf_addf(out, ",\"%s\":", name);
	buf_addint(out, number);
}

static void lines_begin(struct buf *out, const char *is)
{
	buf_addf(out, "{\"is\":\"%s\"", is);
}

static void lines_end_object(struct buf *out)
{
	buf_add(out, "}\n");
}

/* On one line. A line break is allowed between the parts of a JSON text, and nowhere else. */
static void add_payload(struct buf *out, const char *payload)
{
	json_auto_t *json =
		payload ? json_read(payload, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL)
				: NULL;
	if (!json) {
		lines_add_text(out, "payload", payload);
		return;
	}
	buf_add(out, ",\"payload\":");
	size_t from = out->len;
	buf_add(out, payload);
	for (size_t i = from; i < out->len; i++)
		if (out->data[i] == '\n' || out->data[i] == '\r')
			out->data[i] = ' ';
}

void line_add_job(struct buf *out, int64_t run, const struct claimed *c, int64_t worker,
                  int64_t timeout_ms)
{
	char token[TOKEN_SIZE];
	token_of(c, worker, token);
	lines_begin(out, "job");
	lines_add_number(out, "run", run);
	lines_add_text(out, "queue", c->queue);
	lines_add_text(out, "key", c->key);
	lines_add_text(out, "kind", c->kind);
	lines_add_number(out, "epoch", c->epoch);
	lines_add_text(out, "token", token);
	lines_add_number(out, "attempt", c->attempt);
	lines_add_number(out, "max_attempts", c->max_attempts);
	lines_add_number(out, "timeout_ms", timeout_ms);
	lines_add_text(out, "step", c->step);
	add_payload(out, c->payload);
	lines_end_object(out);
}

void line_add_ready(struct buf *out, const char *worker, int64_t concurrency)
{
	lines_begin(out, "ready");
	lines_add_text(out, "version", DEFIB_VERSION);
	lines_add_text(out, "worker", worker);
	lines_add_number(out, "concurrency", concurrency);
	lines_end_object(out);
}

void line_add_stop(struct buf *out, int64_t run, const char *because)
{
	lines_begin(out, "stop");
	lines_add_number(out, "run", run);
	lines_add_text(out, "because", because);
	lines_end_object(out);
}

void line_add_stuck(struct buf *out, int64_t run)
{
	lines_begin(out, "stuck");
	lines_add_number(out, "run", run);
	lines_end_object(out);
}

void line_add_refused(struct buf *out, const struct claimed *c)
{
	lines_begin(out, "refused");
	lines_add_text(out, "queue", c->queue);
	lines_add_text(out, "key", c->key);
	lines_add_number(out, "epoch", c->epoch);
	lines_end_object(out);
}

void line_add_error(struct buf *out, int64_t line, const char *message)
{
	lines_begin(out, "error");
	lines_add_number(out, "line", line);
	lines_add_text(out, "message", message);
	lines_end_object(out);
}

void line_add_word(struct buf *out, const char *is)
{
	lines_begin(out, is);
	lines_end_object(out);
}

void line_add_end(struct buf *out, int64_t settled, int64_t refused, int64_t spooled,
                  int64_t abandoned)
{
	lines_begin(out, "end");
	lines_add_number(out, "settled", settled);
	lines_add_number(out, "refused", refused);
	lines_add_number(out, "spooled", spooled);
	lines_add_number(out, "abandoned", abandoned);
	lines_end_object(out);
}
