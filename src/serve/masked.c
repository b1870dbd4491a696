/* masked.c: see masked.h. */
#include "serve/masked.h"

#include "base/text.h"
#include "recover/evidence.h"

/* As short as they were written: 0.1, not 0.10000000000000001. */
#define ONE_LINE (JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15))

/*
 * JSON with a number or a nesting that cannot be read is not shown in part: nobody would
 * look for what is masked inside.
 */
static bool names_masked(const struct watch *w, const char *text)
{
	bool names = false;
	for (int i = 0; i < w->mask.n; i++)
		names = names || strstr(text, w->mask.items[i]);
	return names;
}

/* JSON in a text, masked. False: there is nothing to mask in it, and nothing was added. */
static bool masked_inside(const struct watch *w, const char *text, struct buf *out)
{
	const char *first = text + strspn(text, " \t\r\n");
	if (w->mask.n == 0 || (*first != '{' && *first != '['))
		return false;
	json_t *value = json_loads(text, 0, NULL);
	json_t *shown = value ? masked_json(w, value) : NULL;
	bool masked = value ? !json_equal(value, shown) : names_masked(w, text);
	char *dump = masked && shown ? json_dumps(shown, ONE_LINE) : NULL;
	if (masked)
		buf_add(out, dump ? dump : "****");
	free(dump);
	json_decref(shown);
	json_decref(value);
	return masked;
}

void masked_text(const struct watch *w, const char *name, const char *text, struct buf *out)
{
	struct buf shown = BUF_INIT;
	mask_value(w, name, text, &shown);
	if (!text_eq(buf_text(&shown), text) || !masked_inside(w, text, out))
		buf_add(out, buf_text(&shown));
	buf_release(&shown);
}

/* What cannot be read back, such as a number beyond bounds or a masked whole, is a string. */
void masked_exactly(const struct watch *w, const char *name, const char *text, struct buf *out)
{
	struct buf shown = BUF_INIT;
	if (!text) {
		buf_add(out, "null");
		return;
	}
	masked_text(w, name, text, &shown);
	json_t *value = json_loads(buf_text(&shown), JSON_DECODE_ANY, NULL);
	if (value)
		buf_add(out, buf_text(&shown));
	else
		buf_add_json(out, buf_text(&shown));
	json_decref(value);
	buf_release(&shown);
}

/* What stands under a name; the owner may stand under the word as well as under its column. */
static json_t *masked_field(const struct watch *w, const char *name, const json_t *value)
{
	struct buf shown = BUF_INIT;
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
		text_eq(buf_text(&shown), text) ? masked_json(w, value) : json_string(buf_text(&shown));
	free(dump);
	buf_release(&shown);
	return out;
}

static json_t *masked_string(const struct watch *w, const json_t *value)
{
	struct buf shown = BUF_INIT;
	bool masked = masked_inside(w, json_string_value(value), &shown);
	json_t *out = masked ? json_string(buf_text(&shown)) : json_deep_copy(value);
	buf_release(&shown);
	return out;
}

json_t *masked_json(const struct watch *w, const json_t *value)
{
	if (json_is_string(value))
		return masked_string(w, value);
	if (!json_is_object(value) && !json_is_array(value))
		return json_deep_copy(value);
	json_t *out = json_is_object(value) ? json_object() : json_array();
	void *at = json_object_iter((json_t *)value);
	for (; at; at = json_object_iter_next((json_t *)value, at))
		json_object_set_new(out, json_object_iter_key(at),
		                    masked_field(w, json_object_iter_key(at), json_object_iter_value(at)));
	for (size_t i = 0; i < json_array_size(value); i++)
		json_array_append_new(out, masked_json(w, json_array_get(value, i)));
	return out;
}

void masked_document(const struct watch *w, const char *text, struct buf *out)
{
	json_t *value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
	json_t *shown = value && w && w->mask.n ? masked_json(w, value) : json_incref(value);
	char *dump = shown ? json_dumps(shown, ONE_LINE) : NULL;
	buf_add(out, dump ? dump : "null");
	free(dump);
	json_decref(shown);
	json_decref(value);
}
