/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/masked.h"

#include "recover/evidence.h"

#include <ctype.h>

/* As short as they were written: 0.1, not 0.10000000000000001. */
#define ONE_LINE (JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15))

/* JSON in a text, masked. False: there is nothing to mask, and nothing was added. */
static bool masked_inside(const struct watch *w, const struct secrets *s, const char *text,
                          struct buf *out)
{
	const char *first = text + strspn(text, " \t\r\n");
	if (w->mask.n == 0 || (*first != '{' && *first != '['))
		return false;
	json_auto_t *value = json_read(text, 0);
	json_auto_t *shown = value ? masked_json(w, s, value) : NULL;
	bool masked = value && !json_equal(value, shown);
	char *dump = masked && shown ? json_dumps(shown, ONE_LINE) : NULL;
	if (dump)
		buf_add(out, dump);
	free(dump);
	return masked;
}

void masked_text(const struct watch *w, const struct secrets *s, const char *name, const char *text,
                 struct buf *out)
{
	AUTO_BUF shown = BUF_INIT;
	mask_value(w, name, text, &shown);
	if (!text_eq(buf_text(&shown), text))
		buf_add(out, buf_text(&shown));
	else
		masked_free_text(w, s, text, out);
}

/*
 * What cannot be parsed back, such as a number out of range or a fully masked value, is a string.
 */
void masked_exactly(const struct watch *w, const struct secrets *s, const char *name,
                    const char *text, struct buf *out)
{
	AUTO_BUF shown = BUF_INIT;
	if (!text) {
		buf_add(out, "null");
		return;
	}
	masked_text(w, s, name, text, &shown);
	json_auto_t *value = json_read(buf_text(&shown), JSON_DECODE_ANY);
	if (value)
		buf_add(out, buf_text(&shown));
	else
		buf_add_json(out, buf_text(&shown));
}

/* The value of a member; the owner may be stored as `owner` or under its column's name. */
static json_t *masked_field(const struct watch *w, const struct secrets *s, const char *name,
                            const json_t *value)
{
	AUTO_BUF shown = BUF_INIT;
	char *dump = NULL;
	if (json_is_null(value))
		return json_null();
	const char *text = json_string_value(value);
	if (!text)
		text = dump = json_dumps(value, ONE_LINE);
	mask_value(w, name, text, &shown);
	if (text_eq(name, "owner") && w->owner.text && text_eq(buf_text(&shown), text)) {
		buf_clear(&shown);
		shown_owner(w, text, &shown);
	}
	json_t *out =
		text_eq(buf_text(&shown), text) ? masked_json(w, s, value) : json_string(buf_text(&shown));
	free(dump);
	return out;
}

static json_t *masked_string(const struct watch *w, const struct secrets *s, const json_t *value)
{
	AUTO_BUF shown = BUF_INIT;
	masked_free_text(w, s, json_string_value(value), &shown);
	json_t *out = json_string(buf_text(&shown));
	return out ? out : json_deep_copy(value);
}

json_t *masked_json(const struct watch *w, const struct secrets *s, const json_t *value)
{
	if (json_is_string(value))
		return masked_string(w, s, value);
	if (!json_is_object(value) && !json_is_array(value))
		return json_deep_copy(value);
	json_t *out = json_is_object(value) ? json_object() : json_array();
	void *at = json_object_iter((json_t *)value);
	for (; at; at = json_object_iter_next((json_t *)value, at))
		json_object_set_new(
			out, json_object_iter_key(at),
			masked_field(w, s, json_object_iter_key(at), json_object_iter_value(at)));
	for (size_t i = 0; i < json_array_size(value); i++)
		json_array_append_new(out, masked_json(w, s, json_array_get(value, i)));
	return out;
}

void masked_document(const struct watch *w, const struct secrets *s, const char *text,
                     struct buf *out)
{
	json_auto_t *value = text ? json_read(text, JSON_DECODE_ANY) : NULL;
	json_auto_t *shown = value && w && w->mask.n ? masked_json(w, s, value) : json_incref(value);
	char *dump = shown ? json_dumps(shown, ONE_LINE) : NULL;
	buf_add(out, dump ? dump : "null");
	free(dump);
}

/* ---- free text ---- */

#define SECRET_LEAST 4 /* shorter values would match in any text */

static void keep(struct secrets *s, const char *value)
{
	if (value && strlen(value) >= SECRET_LEAST && s->n < SECRETS_MAX)
		s->items[s->n++] = arena_strdup(&s->arena, value);
}

void secrets_add(struct secrets *s, const struct watch *w, const char *column, const char *value)
{
	if (w && column && watch_hides(w, column))
		keep(s, value);
}

void secrets_owner(struct secrets *s, const struct watch *w, const char *owner)
{
	AUTO_BUF shown = BUF_INIT;
	if (!w || !w->owner.text || !owner)
		return;
	shown_owner(w, owner, &shown);
	if (!text_eq(buf_text(&shown), owner))
		keep(s, owner);
}

static void secrets_json(struct secrets *s, const struct watch *w, const json_t *value)
{
	void *at = json_object_iter((json_t *)value);
	for (; at; at = json_object_iter_next((json_t *)value, at)) {
		const char *name = json_object_iter_key(at);
		const json_t *member = json_object_iter_value(at);
		secrets_add(s, w, name, json_string_value(member));
		if (text_eq(name, "owner"))
			secrets_owner(s, w, json_string_value(member));
		secrets_json(s, w, member);
	}
	for (size_t i = 0; i < json_array_size(value); i++)
		secrets_json(s, w, json_array_get(value, i));
}

void secrets_document(struct secrets *s, const struct watch *w, const char *text)
{
	json_auto_t *value = w && w->mask.n && text ? json_read(text, 0) : NULL;
	secrets_json(s, w, value);
}

void secrets_release(struct secrets *s)
{
	arena_release(&s->arena);
}

void secrets_facts(struct secrets *s, const struct watch *w, const struct facts *f)
{
	secrets_owner(s, w, f->owner);
	for (int i = 0; i < w->show.n; i++)
		secrets_add(s, w, w->show.items[i], f->show[i]);
	secrets_document(s, w, f->before);
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* A masked value that begins here, as a word of its own. */
static const char *secret_at(const struct secrets *s, const char *text, const char *at)
{
	for (int i = 0; s && i < s->n; i++) {
		const char *secret = s->items[i];
		size_t len = strlen(secret);
		if (strncmp(at, secret, len) != 0)
			continue;
		bool apart = (at == text || !is_word(at[-1]) || !is_word(*secret)) &&
		             (!is_word(at[len]) || !is_word(secret[len - 1]));
		if (apart)
			return secret;
	}
	return NULL;
}

/* The length of a masked name with its `=` or `:`, as in `email: …` and `Key (email)=…`; or 0. */
static size_t name_at(const struct watch *w, const char *text, const char *at)
{
	if (at > text && is_word(at[-1]))
		return 0;
	for (int i = 0; i < w->mask.n; i++) {
		size_t len = strlen(w->mask.items[i]);
		if (len == 0 || strncmp(at, w->mask.items[i], len) != 0 || is_word(at[len]))
			continue;
		size_t behind = len + strspn(at + len, ")\"' ");
		if (at[behind] == '=' || at[behind] == ':')
			return behind + 1;
	}
	return 0;
}

/* Whether this can only be JSON that is broken, or too large for the parser. */
static bool is_broken_json(const char *at)
{
	const char *next = at + 1 + strspn(at + 1, " \t\r\n");
	return (*at == '{' && *next == '"') || (*at == '[' && *next && strchr("{[\"", *next));
}

/* JSON that begins here: its length, and its masked form. 0: there is none. */
static size_t json_at(const struct watch *w, const struct secrets *s, const char *at,
                      struct buf *out)
{
	json_error_t told;
	if (*at != '{' && *at != '[')
		return 0;
	json_auto_t *value = json_loads(at, JSON_DISABLE_EOF_CHECK, &told);
	if (!value)
		return 0;
	json_auto_t *shown = masked_json(w, s, value);
	char *dump = json_equal(value, shown) ? NULL : json_dumps(shown, ONE_LINE);
	if (dump)
		buf_add(out, dump);
	else
		buf_addn(out, at, (size_t)told.position);
	free(dump);
	return (size_t)told.position;
}

void masked_free_text(const struct watch *w, const struct secrets *s, const char *text,
                      struct buf *out)
{
	static const char *const value = "value";
	const struct watch hide = {.mask = {1, (const char **)&value}};
	if (!w || w->mask.n == 0) {
		buf_add(out, text);
		return;
	}
	if (masked_inside(w, s, text, out))
		return;
	for (const char *at = text; *at;) {
		const char *secret = secret_at(s, text, at);
		size_t named = secret ? 0 : name_at(w, text, at);
		size_t json = secret || named ? 0 : json_at(w, s, at, out);
		bool broken = !secret && !named && !json && is_broken_json(at);
		if (named || broken) {
			buf_addn(out, at, named);
			buf_add(out, named ? " ****" : "****");
			return;
		}
		if (secret)
			mask_value(&hide, value, secret, out);
		else if (json == 0)
			buf_addch(out, *at);
		at += secret ? strlen(secret) : json ? json : 1;
	}
}

void masked_member(const struct watch *w, const struct secrets *s, const char *name,
                   const char *text, struct buf *out)
{
	AUTO_BUF shown = BUF_INIT;
	buf_addf(out, ",\"%s\":", name);
	if (text) {
		masked_free_text(w, s, text, &shown);
		buf_add_json(out, buf_text(&shown));
	} else {
		buf_add(out, "null");
	}
}
