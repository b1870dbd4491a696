/* masked.c: see masked.h. */
#include "serve/masked.h"

#include "base/text.h"
#include "recover/evidence.h"

/* As short as they were written: 0.1, not 0.10000000000000001. */
#define ONE_LINE (JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15))

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

json_t *masked_json(const struct watch *w, const json_t *value)
{
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
