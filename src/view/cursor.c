/* SPDX-License-Identifier: Apache-2.0 */
/* cursor.c: see cursor.h. A JSON array in base64url without padding. */
#include "view/cursor.h"

#include "base/text.h"

#include <jansson.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void encode(const char *text, struct buf *out)
{
	size_t len = strlen(text);
	for (size_t i = 0; i < len; i += 3) {
		uint32_t three = 0;
		size_t have = len - i < 3 ? len - i : 3;
		for (size_t k = 0; k < 3; k++)
			three = three << 8 | (k < have ? (unsigned char)text[i + k] : 0);
		for (size_t k = 0; k <= have; k++)
			buf_addch(out, digits[three >> (18 - 6 * k) & 63]);
	}
}

static bool decode(const char *text, struct buf *out)
{
	uint32_t bits = 0;
	int n = 0;
	for (; *text; text++) {
		const char *digit = strchr(digits, *text);
		if (!digit)
			return false;
		bits = bits << 6 | (uint32_t)(digit - digits);
		n += 6;
		if (n >= 8) {
			n -= 8;
			buf_addch(out, (char)(bits >> n & 0xff));
		}
	}
	return true;
}

static void add_text(struct buf *json, const char *text)
{
	buf_add(json, ",");
	if (text)
		buf_add_json(json, text);
	else
		buf_add(json, "null");
}

void cursor_text(const struct cursor *x, struct buf *out)
{
	struct buf json = BUF_INIT;
	buf_add(&json, "[");
	buf_add_json(&json, x->watch);
	buf_addf(&json, ",\"%s\",%s", list_sort_names[x->sort], x->desc ? "true" : "false");
	add_text(&json, x->at.sort);
	for (int k = 0; k < x->nkeys; k++)
		add_text(&json, x->at.key[k]);
	buf_add(&json, "]");
	encode(buf_text(&json), out);
	buf_release(&json);
}

static const char *part(const json_t *list, size_t i, struct arena *a)
{
	const char *text = json_string_value(json_array_get(list, i));
	return text ? arena_strdup(a, text) : NULL;
}

bool cursor_parse(const char *text, struct arena *a, struct cursor *out)
{
	struct buf plain = BUF_INIT;
	json_t *list = decode(text, &plain) ? json_loads(buf_text(&plain), 0, NULL) : NULL;
	size_t n = json_array_size(list);
	*out = (struct cursor){0};
	bool good = n > 4 && n <= 4 + WATCH_KEYS_MAX;
	if (good) {
		const char *sort = part(list, 1, a);
		int index = sort ? word_index(list_sort_names, sort) : -1;
		*out = (struct cursor){.watch = part(list, 0, a),
		                       .sort = index < 0 ? LIST_BY_KEY : (enum list_sort)index,
		                       .desc = json_is_true(json_array_get(list, 2)),
		                       .nkeys = (int)n - 4,
		                       .at = {.sort = part(list, 3, a)}};
		good = out->watch && index >= 0;
		for (int k = 0; k < out->nkeys; k++)
			out->at.key[k] = part(list, 4 + (size_t)k, a);
	}
	json_decref(list);
	buf_release(&plain);
	return good;
}
