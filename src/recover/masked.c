/* SPDX-License-Identifier: Apache-2.0 */
#include "recover/masked.h"

#include "recover/evidence.h"

#include <ctype.h>
#include <stdlib.h>

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
	if (masked)
		(void)json_write(out, shown, ONE_LINE);
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
		buf_add_document(out, buf_text(&shown));
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
	if (!json_write(out, shown, ONE_LINE))
		buf_add(out, "null");
}

/* ---- free text ---- */

static void masked_keep(struct secrets *s, const char *value)
{
	if (!value || strlen(value) < SECRET_LEAST)
		return;
	if (s->n == s->room) {
		const char **more = ARENA_ARRAY(&s->arena, const char *, 2 * s->room + 16);
		for (int i = 0; i < s->n; i++)
			more[i] = s->items[i];
		s->items = more;
		s->room = 2 * s->room + 16;
	}
	s->items[s->n++] = arena_strdup(&s->arena, value);
}

void secrets_add(struct secrets *s, const struct watch *w, const char *column, const char *value)
{
	if (w && column && watch_hides(w, column))
		masked_keep(s, value);
}

void secrets_owner(struct secrets *s, const struct watch *w, const char *owner)
{
	AUTO_BUF shown = BUF_INIT;
	if (!w || !w->owner.text || !owner)
		return;
	shown_owner(w, owner, &shown);
	if (!text_eq(buf_text(&shown), owner))
		masked_keep(s, owner);
}

/* `hidden`: it is all of a masked member. */
static void secrets_json(struct secrets *s, const struct watch *w, const json_t *value, bool hidden)
{
	void *at = json_object_iter((json_t *)value);
	for (; at; at = json_object_iter_next((json_t *)value, at)) {
		const char *name = json_object_iter_key(at);
		const json_t *member = json_object_iter_value(at);
		if (text_eq(name, "owner"))
			secrets_owner(s, w, json_string_value(member));
		secrets_json(s, w, member, hidden || watch_hides(w, name));
	}
	for (size_t i = 0; i < json_array_size(value); i++)
		secrets_json(s, w, json_array_get(value, i), hidden);
	if (!hidden || json_is_object(value) || json_is_array(value))
		return;
	char *dump = json_is_number(value) ? json_dumps(value, ONE_LINE) : NULL;
	masked_keep(s, dump ? dump : json_string_value(value));
	free(dump);
}

void secrets_document(struct secrets *s, const struct watch *w, const char *text)
{
	json_auto_t *value = w && w->mask.n && text ? json_read(text, 0) : NULL;
	secrets_json(s, w, value, false);
}

/* Every name in a member "masked" of the evidence, also of earlier entries that it contains. */
static void add_repeats(struct secrets *s, const json_t *value, struct text_list *names)
{
	const json_t *listed = json_object_get(value, "masked");
	for (size_t i = 0; i < json_array_size(listed); i++) {
		const char *name = json_string_value(json_array_get(listed, i));
		if (!name)
			continue;
		const char **more = ARENA_ARRAY(&s->arena, const char *, names->n + 1);
		for (int k = 0; k < names->n; k++)
			more[k] = names->items[k];
		more[names->n++] = arena_strdup(&s->arena, name);
		names->items = more;
	}
	void *at = json_object_iter((json_t *)value);
	for (; at; at = json_object_iter_next((json_t *)value, at))
		add_repeats(s, json_object_iter_value(at), names);
	for (size_t i = 0; i < json_array_size(value); i++)
		add_repeats(s, json_array_get(value, i), names);
}

void secrets_entry(struct secrets *s, const struct watch *w, const struct entry_texts *e)
{
	if (!w || w->mask.n == 0)
		return;
	struct watch hiding = *w;
	json_auto_t *said = e->evidence ? json_read(e->evidence, 0) : NULL;
	add_repeats(s, said, &hiding.mask);
	secrets_add(s, &hiding, "reason", e->reason);
	secrets_document(s, &hiding, e->evidence);
	secrets_document(s, &hiding, e->before);
	secrets_document(s, &hiding, e->after);
}

static bool repeats_masked(const struct facts *f, const char *text)
{
	for (int i = 0; text && i < f->nmasked; i++)
		if (f->masked[i] && strlen(f->masked[i]) >= SECRET_LEAST && strcasestr(text, f->masked[i]))
			return true;
	return false;
}

/* Under a masked name the value is masked by its name. */
static bool is_masked_name(const struct facts *f, const char *name)
{
	for (int i = 0; i < f->nmasked; i++)
		if (strcasecmp(f->masked_names[i], name) == 0)
			return true;
	return false;
}

/* Names of members are added to an object, which has each once. */
static void find_repeats(const struct facts *f, const char *name, const json_t *value,
                         json_t *names)
{
	if (name && is_masked_name(f, name))
		return;
	if (name && repeats_masked(f, json_string_value(value)))
		json_object_set_new(names, name, json_null());
	void *at = json_object_iter((json_t *)value);
	for (; at; at = json_object_iter_next((json_t *)value, at))
		find_repeats(f, json_object_iter_key(at), json_object_iter_value(at), names);
	for (size_t i = 0; i < json_array_size(value); i++)
		find_repeats(f, name, json_array_get(value, i), names);
}

static int masked_by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void masked_repeats(const struct facts *f, const struct entry_texts *e, struct buf *out)
{
	const char *const documents[] = {e->evidence, e->before, e->after};
	if (f->nmasked == 0)
		return;
	json_auto_t *names = json_object();
	for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
		json_auto_t *value = documents[i] ? json_read(documents[i], 0) : NULL;
		find_repeats(f, NULL, value, names);
	}
	if (repeats_masked(f, e->reason))
		json_object_set_new(names, "reason", json_null());
	size_t n = json_object_size(names);
	const char **sorted = mem_alloc(sizeof *sorted * (n + 1));
	void *at = json_object_iter(names);
	for (size_t i = 0; i < n; i++, at = json_object_iter_next(names, at))
		sorted[i] = json_object_iter_key(at);
	qsort(sorted, n, sizeof *sorted, masked_by_name);
	for (size_t i = 0; i < n; i++) {
		buf_add(out, i ? "," : ",\"masked\":[");
		buf_add_json(out, sorted[i]);
	}
	buf_add(out, n ? "]" : "");
	free(sorted);
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
	for (int i = 0; i < f->nmasked; i++) {
		secrets_add(s, w, f->masked_names[i], f->masked[i]);
		secrets_document(s, w, f->masked[i]);
	}
	secrets_document(s, w, f->before);
}

static bool masked_is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The longest masked value that begins here, as a word of its own: one may begin with another. */
static const char *secret_at(const struct secrets *s, const char *text, const char *at)
{
	const char *longest = NULL;
	for (int i = 0; s && i < s->n; i++) {
		const char *secret = s->items[i];
		size_t len = strlen(secret);
		if (strncasecmp(at, secret, len) != 0)
			continue;
		bool apart = (at == text || !masked_is_word(at[-1]) || !masked_is_word(*secret)) &&
		             (!masked_is_word(at[len]) || !masked_is_word(secret[len - 1]));
		if (apart && (!longest || len > strlen(longest)))
			longest = secret;
	}
	return longest;
}

/* The length of a masked name with its `=` or `:`, as in `email: …` and `Key (email)=…`; or 0. */
static size_t name_at(const struct watch *w, const char *text, const char *at)
{
	if (at > text && masked_is_word(at[-1]))
		return 0;
	for (int i = 0; i < w->mask.n; i++) {
		size_t len = strlen(w->mask.items[i]);
		if (len == 0 || strncasecmp(at, w->mask.items[i], len) != 0 || masked_is_word(at[len]))
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
	json_error_t error;
	if (*at != '{' && *at != '[')
		return 0;
	json_auto_t *value = json_loads(at, JSON_DISABLE_EOF_CHECK, &error);
	if (!value)
		return 0;
	json_auto_t *shown = masked_json(w, s, value);
	if (json_equal(value, shown) || !json_write(out, shown, ONE_LINE))
		buf_addn(out, at, (size_t)error.position);
	return (size_t)error.position;
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

/* PostgreSQL quotes the value that it does not accept. */
void masked_failure(const struct watch *w, struct failure *f)
{
	AUTO_BUF shown = BUF_INIT;
	bool quotes = f->code == DEFIB_BAD_VALUE;
	if (!f->code || !w || (w->mask.n == 0 && w->viewer_mask.n == 0))
		return;
	masked_free_text(w, NULL, f->what, &shown);
	const char *text = buf_text(&shown), *begin = strchr(text, '"'), *end = strrchr(text, '"');
	if (quotes && begin && begin < end)
		snprintf(f->what, sizeof f->what, "%.*s\"****%s", (int)(begin - text), text, end);
	else
		snprintf(f->what, sizeof f->what, "%s", text);
}
