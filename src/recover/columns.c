/* SPDX-License-Identifier: Apache-2.0 */
/* columns.c: see columns.h. */
#include "recover/columns.h"

#include "base/buf.h"
#include "watch/lexer.h"

#include <jansson.h>

static const char *describe(struct arena *a, const char *name, const json_t *now)
{
	struct buf text = BUF_INIT;
	char *value = json_dumps(now, JSON_ENCODE_ANY);
	buf_addf(&text, "%s is %s", name, value ? value : "gone");
	const char *copy = arena_strdup(a, buf_text(&text));
	buf_release(&text);
	free(value);
	return copy;
}

static bool is_in(const struct column_set *set, const char *name)
{
	bool found = !set->names;
	for (int i = 0; i < set->n && !found; i++)
		found = strcmp(set->names[i], name) == 0;
	return found;
}

bool columns_same(const char *expected, const char *now, const struct column_set *only,
                  struct arena *a, const char **first)
{
	json_t *was = expected ? json_loads(expected, 0, NULL) : NULL;
	json_t *is = now ? json_loads(now, 0, NULL) : NULL;
	bool same = was && is;
	const char *name;
	json_t *value;
	json_object_foreach(was, name, value)
	{
		json_t *other = json_object_get(is, name);
		if (!same || !other || !is_in(only, name) || json_equal(value, other))
			continue;
		same = false;
		if (first)
			*first = describe(a, name, other);
	}
	json_decref(was);
	json_decref(is);
	return same;
}

bool columns_same_in(const char *expression, enum store_engine engine, const char *expected,
                     const char *now)
{
	json_t *was = expected ? json_loads(expected, 0, NULL) : NULL;
	json_t *is = now ? json_loads(now, 0, NULL) : NULL;
	bool same = true;
	const char *name;
	json_t *value;
	json_object_foreach(was, name, value)
	{
		json_t *other = json_object_get(is, name);
		if (other && !json_equal(value, other) && sql_names(expression, engine, name))
			same = false;
	}
	json_decref(was);
	json_decref(is);
	return same;
}
