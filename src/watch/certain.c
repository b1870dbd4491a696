/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/certain.h"

#include "watch/lexer.h"

/* A column and the literal that it has. */
struct fixed {
	const char *column, *value;
};

struct fixed_list {
	int n, cap;
	struct fixed *items;
	bool all; /* nothing else is said */
};

static struct sql_token certain_next(struct sql_lexer *lx)
{
	struct sql_token t = sql_next(lx);
	while (t.type == SQL_SPACE)
		t = sql_next(lx);
	return t;
}

/* Without its quotes; a quote inside makes it unknown. */
static const char *certain_unquoted(struct sql_token t, char quote, struct arena *a)
{
	if (t.len < 2 || t.text[0] != quote || memchr(t.text + 1, quote, t.len - 2))
		return NULL;
	return arena_printf(a, "%.*s", (int)(t.len - 2), t.text + 1);
}

static const char *column_of(struct sql_token t, struct arena *a)
{
	return t.type == SQL_NAME   ? certain_unquoted(t, '"', a)
	       : t.type == SQL_WORD ? arena_printf(a, "%.*s", (int)t.len, t.text)
	                            : NULL;
}

static const char *literal_of(struct sql_token t, struct arena *a)
{
	if (t.type == SQL_STRING)
		return certain_unquoted(t, '\'', a);
	bool number = t.type == SQL_WORD && t.text[0] >= '0' && t.text[0] <= '9';
	return number ? arena_printf(a, "%.*s", (int)t.len, t.text) : NULL;
}

/* `[t.]column = literal`, and nothing else. */
static bool equality(const char *text, enum store_engine engine, struct arena *a, struct fixed *out)
{
	struct sql_lexer lx;
	sql_lexer_init(&lx, text, engine);
	struct sql_token t = certain_next(&lx), equals = certain_next(&lx);
	if (sql_is_word(t, "t") && sql_is_mark(equals, '.')) {
		t = certain_next(&lx);
		equals = certain_next(&lx);
	}
	struct sql_token value = certain_next(&lx), end = certain_next(&lx);
	*out = (struct fixed){column_of(t, a), literal_of(value, a)};
	return out->column && out->value && sql_is_mark(equals, '=') && end.type == SQL_END;
}

static void certain_add(struct fixed_list *list, const char *text, enum store_engine engine,
                        struct arena *a)
{
	struct fixed one;
	if (!equality(text, engine, a, &one)) {
		list->all = false;
		return;
	}
	if (list->n == list->cap) {
		struct fixed *items = ARENA_ARRAY(a, struct fixed, list->cap ? list->cap * 2 : 4);
		for (int i = 0; i < list->n; i++)
			items[i] = list->items[i];
		list->cap = list->cap ? list->cap * 2 : 4;
		list->items = items;
	}
	list->items[list->n++] = one;
}

/* What each row that matches has. With OR, BETWEEN … AND or CASE anywhere, nothing is certain. */
static struct fixed_list of_condition(const char *text, enum store_engine engine, struct arena *a)
{
	static const char *const unsure[] = {"or", "between", "case", "select", "not"};
	struct fixed_list list = {.all = true};
	struct sql_lexer lx;
	struct sql_token t;
	const char *from = text;
	int depth = 0;
	for (size_t i = 0; i < sizeof unsure / sizeof *unsure; i++)
		if (sql_names(text, engine, unsure[i]))
			return (struct fixed_list){0};
	sql_lexer_init(&lx, text, engine);
	do {
		t = sql_next(&lx);
		depth += sql_is_mark(t, '(') ? 1 : sql_is_mark(t, ')') ? -1 : 0;
		if (t.type != SQL_END && !(depth == 0 && sql_is_word(t, "and")))
			continue;
		certain_add(&list, arena_printf(a, "%.*s", (int)(t.text - from), from), engine, a);
		from = t.text + t.len;
	} while (t.type != SQL_END && t.type != SQL_OPEN_ENDED);
	return list;
}

static struct fixed_list of_set(const char *text, enum store_engine engine, struct arena *a)
{
	struct fixed_list list = {.all = true};
	const char *column, *one;
	while (sql_next_assignment(&text, engine, a, &column, &one))
		certain_add(&list, one, engine, a);
	return list;
}

/* -1: not said, 0: another value, 1: this one. Some types ignore case. */
static int says(const struct fixed_list *list, const struct fixed *wanted)
{
	for (int i = 0; i < list->n; i++)
		if (strcasecmp(list->items[i].column, wanted->column) == 0)
			return strcasecmp(list->items[i].value, wanted->value) == 0;
	return -1;
}

static bool contradict(const struct fixed_list *one, const struct fixed_list *other)
{
	for (int i = 0; i < one->n; i++)
		if (says(other, &one->items[i]) == 0)
			return true;
	return false;
}

bool certain_apart(const char *one, const char *other, enum store_engine engine)
{
	AUTO_ARENA a = ARENA_INIT;
	const struct fixed_list x = of_condition(one, engine, &a), y = of_condition(other, engine, &a);
	return contradict(&x, &y);
}

bool certain_ends(const char *condition, const char *set, enum store_engine engine)
{
	AUTO_ARENA a = ARENA_INIT;
	const struct fixed_list x = of_condition(condition, engine, &a), y = of_set(set, engine, &a);
	return contradict(&x, &y);
}

bool certain_makes(const char *condition, const char *set, enum store_engine engine)
{
	AUTO_ARENA a = ARENA_INIT;
	const struct fixed_list x = of_condition(condition, engine, &a), y = of_set(set, engine, &a);
	bool all = x.all && x.n > 0;
	for (int i = 0; i < x.n && all; i++)
		all = says(&y, &x.items[i]) == 1;
	return all;
}
