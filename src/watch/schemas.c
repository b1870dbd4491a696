/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/schemas.h"

#include "store/dialect.h"
#include "store/sql.h"
#include "watch/lexer.h"
#include "watch/options.h"

defib_err watch_home(struct store *s, const struct watch *w, struct arena *a,
                     const struct watch **out, struct failure *f)
{
	const char *table;
	*out = w;
	defib_err err = dialect_home(s, w->table, a, &table, f);
	if (err)
		return fail_prefix(f, "watch %s", w->name), err;
	if (text_eq(table, w->table))
		return DEFIB_OK;
	struct watch *named = ARENA_NEW(a, struct watch);
	*named = *w;
	named->table = table;
	*out = named;
	return DEFIB_OK;
}

/* ---- the words of a watch ---- */

struct words {
	struct buf all, called; /* JSON lists */
	enum store_engine engine;
	struct arena *arena;
};

static void schemas_add_word(struct buf *list, const char *word)
{
	buf_add(list, list->len ? "," : "[");
	buf_add_json(list, word);
}

/* As the catalogs have it. */
static const char *schemas_name_of(const struct words *x, struct sql_token t)
{
	if (t.type == SQL_NAME && t.len >= 2) {
		char *name = arena_strndup(x->arena, t.text + 1, t.len - 2), *to = name;
		for (const char *at = name; *at; at++) {
			*to++ = *at;
			at += at[0] == '"' && at[1] == '"';
		}
		*to = '\0';
		return name;
	}
	char *name = arena_strndup(x->arena, t.text, t.len);
	for (char *c = name; *c; c++)
		*c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
	return name;
}

static bool schemas_is_name(struct sql_token t)
{
	return t.type == SQL_WORD || t.type == SQL_NAME;
}

/* `schema.function(` and `operator(schema.+)`: an overload of another role's may fit better. */
static void take_text(struct words *x, const char *text)
{
	struct sql_lexer lx;
	struct sql_token t, last[3] = {{0}}; /* the tokens before that are not space */
	if (!text)
		return;
	sql_lexer_init(&lx, text, x->engine);
	while ((t = sql_next(&lx)).type != SQL_END) {
		if (t.type == SQL_SPACE)
			continue;
		if (schemas_is_name(t))
			schemas_add_word(&x->all, schemas_name_of(x, t));
		bool calls = sql_is_mark(t, '(') && schemas_is_name(last[0]) && sql_is_mark(last[1], '.') &&
		             schemas_is_name(last[2]);
		bool operates = t.type == SQL_PUNCT && !schemas_is_name(t) && sql_is_mark(last[0], '.') &&
		                schemas_is_name(last[1]) && sql_is_mark(last[2], '(') &&
		                !sql_is_mark(t, '*');
		if (calls)
			schemas_add_word(&x->called, schemas_name_of(x, last[2]));
		if (operates)
			schemas_add_word(&x->called, schemas_name_of(x, last[1]));
		last[2] = last[1];
		last[1] = last[0];
		last[0] = t;
	}
}

static void schemas_take_option(void *ctx, const char *option, const struct sql_text *sql, bool set)
{
	(void)option;
	(void)set;
	take_text(ctx, sql->text);
}

static void schemas_take_list(struct words *x, const struct sql_list *list)
{
	for (int i = 0; i < list->n; i++)
		take_text(x, list->items[i].text);
}

static void take_watch(struct words *x, const struct watch *w)
{
	watch_each_sql(w, schemas_take_option, x);
	schemas_take_list(x, &w->also);
	schemas_take_list(x, &w->work.beat);
	schemas_take_list(x, &w->work.after);
	for (int i = 0; i < w->nrules; i++)
		take_text(x, w->rules[i].when.text);
	for (int act = 0; act < ACT_COUNT; act++) {
		take_text(x, w->actions[act].set.text);
		for (int i = 0; i < w->actions[act].n; i++)
			take_text(x, w->actions[act].sql[i].text);
	}
	/* Keys are compared too. */
	for (int k = 0; k < w->key.n; k++)
		schemas_add_word(&x->all, w->key.items[k]);
}

defib_err watch_schemas(struct store *s, const struct watch *w, struct arena *a, struct failure *f)
{
	const char *question = store_dialect(s)->ask.needed;
	AUTO_BUF table = BUF_INIT;
	struct words x = {.engine = s->engine, .arena = a};
	struct store_rows rows;
	if (!question || !s->own_path)
		return DEFIB_OK;
	take_watch(&x, w);
	buf_add(&x.all, x.all.len ? "]" : "[]");
	buf_add(&x.called, x.called.len ? "]" : "[]");
	sql_table(&table, w->table);
	struct store_param params[] = {P_TEXT(s->own_path), P_TEXT(buf_text(&x.all)),
	                               P_TEXT(buf_text(&x.called)), P_TEXT(buf_text(&table))};
	defib_err err = store_exec(s, question, params, 4, a, &rows, f);
	buf_release(&x.all);
	buf_release(&x.called);
	if (err || rows.nrows == 0)
		return err;
	fail(
		f, DEFIB_CONFIG,
		"watch %s: its SQL uses %s (schema %s), and other roles can create operators and functions "
		"in that schema, which would run with the rights of defib",
		w->name, row_text(&rows, 0, 1), row_text(&rows, 0, 0));
	fail_next(f, "%s", row_text(&rows, 0, 2));
	return DEFIB_CONFIG;
}

void watch_schemas_hint(struct store *s, struct arena *a, struct failure *f)
{
	struct store_param path = P_TEXT(s->own_path);
	struct store_rows rows;
	struct failure ignored = {0};
	if (f->reason != REASON_NO_NAME || !store_dialect(s)->ask.hidden || !s->own_path ||
	    store_exec(s, store_dialect(s)->ask.hidden, &path, 1, a, &rows, &ignored) ||
	    rows.nrows == 0)
		return;
	fail_next(
		f,
		"names without a schema are not looked up in schema %s, because other roles can create "
		"there; name the schema of tables, or: %s",
		row_text(&rows, 0, 0), row_text(&rows, 0, 1));
}
