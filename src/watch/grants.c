/* SPDX-License-Identifier: Apache-2.0
 * grants.c: the GRANTs of watch.h. The user's SQL is read token by token: a relation follows FROM,
 * JOIN, USING, INTO and UPDATE. Doctor finds what is missed here (a function's own tables, for
 * example), because it asks the database itself.
 */

#include "watch/grants.h"

#include "store/sql.h"
#include "watch/options.h"
#include "watch/watch.h"

#include "store/store.h"
#include "watch/compile.h"
#include "watch/lexer.h"

enum { NEEDS_SELECT = 1, NEEDS_INSERT = 2, NEEDS_UPDATE = 4, NEEDS_DELETE = 8 };
static const char *const privileges[] = {"SELECT", "INSERT", "UPDATE", "DELETE"};

#define NAMES_MAX 64
#define DEPTH_MAX 64

struct grants_gathering {
	struct arena *arena;
	const char *tables[NAMES_MAX]; /* as GRANT writes them */
	unsigned needs[NAMES_MAX];
	int ntables;
	const char *inner[NAMES_MAX]; /* names that a statement gives to its own parts */
	int ninner;
	const char *columns[NAMES_MAX]; /* that SET lists write */
	int ncolumns;
	unsigned locks; /* NEEDS_UPDATE while what is read must also be locked */
	bool of_work;   /* whether the options of `work` are read now, or the others */
};

/* The reading position: for each open parenthesis, whether it contains a query and its FROM. */
struct reading_at {
	struct sql_lexer lexer;
	struct sql_token last; /* the last token that was not space */
	bool query[DEPTH_MAX], from[DEPTH_MAX];
	int depth;
};

static bool is_any(struct sql_token t, const char *const *words)
{
	for (; *words; words++)
		if (sql_is_word(t, *words))
			return true;
	return false;
}

static struct sql_token next_solid(struct sql_lexer *lx)
{
	struct sql_token t = sql_next(lx);
	while (t.type == SQL_SPACE)
		t = sql_next(lx);
	return t;
}

static bool grants_is_among(const char *name, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
		if (text_eq(names[i], name))
			return true;
	return false;
}

static void grants_add_table(struct grants_gathering *g, const char *table, unsigned needs)
{
	for (int i = 0; i < g->ntables; i++)
		if (text_eq(g->tables[i], table)) {
			g->needs[i] |= needs;
			return;
		}
	if (g->ntables == NAMES_MAX)
		return;
	g->tables[g->ntables] = table;
	g->needs[g->ntables++] = needs;
}

/* schema.table after a keyword; not a sub-select or a function. */
static void take_relation(struct grants_gathering *g, struct reading_at *r, unsigned needs)
{
	static const char *const skipped[] = {"only", "lateral", NULL};
	struct sql_lexer at = r->lexer, behind;
	struct sql_token t = next_solid(&at), after;
	AUTO_BUF name = BUF_INIT;
	if (is_any(t, skipped))
		t = next_solid(&at);
	while (t.type == SQL_WORD || t.type == SQL_NAME) {
		buf_addn(&name, t.text, t.len);
		behind = at;
		after = next_solid(&behind);
		if (!sql_is_mark(after, '.'))
			break;
		buf_addch(&name, '.');
		at = behind;
		t = next_solid(&at);
	}
	behind = at;
	bool call = sql_is_mark(next_solid(&behind), '(') && !(needs & NEEDS_INSERT);
	if (name.len && !call && strcasecmp(buf_text(&name), "stuck") != 0)
		grants_add_table(g, arena_strdup(g->arena, buf_text(&name)), needs);
}

static void grants_enter(struct reading_at *r, int by)
{
	r->depth += by;
	if (r->depth < 0 || r->depth >= DEPTH_MAX)
		r->depth = r->depth < 0 ? 0 : DEPTH_MAX - 1;
	if (by > 0)
		r->query[r->depth] = r->from[r->depth] = false;
}

static void take_word(struct grants_gathering *g, struct reading_at *r, struct sql_token t)
{
	static const char *const begins[] = {"select", "delete", "update", "insert", NULL};
	static const char *const sources[] = {"from", "using", "join", NULL};
	static const char *const ends[] = {"where", "group", "order",     "limit", "on",
	                                   "set",   "union", "returning", NULL};
	static const char *const no_statement[] = {"for", "do", "key", NULL};
	bool *query = &r->query[r->depth], *from = &r->from[r->depth];
	if (is_any(t, sources) && *query && !sql_is_word(r->last, "distinct")) {
		*from = true;
		take_relation(g, r,
		              sql_is_word(r->last, "delete") ? NEEDS_SELECT | NEEDS_DELETE
		                                             : NEEDS_SELECT | g->locks);
	} else if (sql_is_word(t, "into")) {
		take_relation(g, r, NEEDS_INSERT);
	} else if (sql_is_word(t, "update") && !is_any(r->last, no_statement)) {
		take_relation(g, r, NEEDS_SELECT | NEEDS_UPDATE);
	} else if (is_any(t, ends)) {
		*from = false;
	} else if (sql_is_word(t, "as") && (r->last.type == SQL_WORD || r->last.type == SQL_NAME)) {
		struct sql_lexer ahead = r->lexer;
		if (sql_is_mark(next_solid(&ahead), '(') && g->ninner < NAMES_MAX)
			g->inner[g->ninner++] = arena_strndup(g->arena, r->last.text, r->last.len);
	}
	*query = *query || is_any(t, begins);
}

static void take_sql(struct grants_gathering *g, const char *text)
{
	struct reading_at r = {0};
	struct sql_token t;
	if (!text)
		return;
	sql_lexer_init(&r.lexer, text, STORE_POSTGRES);
	while ((t = next_solid(&r.lexer)).type != SQL_END && t.type != SQL_OPEN_ENDED) {
		if (sql_is_mark(t, '('))
			grants_enter(&r, 1);
		else if (sql_is_mark(t, ')'))
			grants_enter(&r, -1);
		else if (sql_is_mark(t, ',') && r.from[r.depth])
			take_relation(g, &r, NEEDS_SELECT | g->locks);
		else if (t.type == SQL_WORD)
			take_word(g, &r, t);
		r.last = t;
	}
}

static void grants_take_list(struct grants_gathering *g, const struct sql_list *list)
{
	for (int i = 0; i < list->n; i++)
		take_sql(g, list->items[i].text);
}

/* A SET list writes columns of the watch's table, and may read other tables. */
static void take_set(struct grants_gathering *g, const char *text)
{
	const char **names = NULL;
	struct failure ignored = {0}; /* checked when the configuration was read */
	int n = 0;
	if (!text || sql_set_targets(text, STORE_POSTGRES, g->arena, &names, &n, &ignored))
		return;
	take_sql(g, text);
	for (int i = 0; i < n; i++)
		if (g->ncolumns < NAMES_MAX && !grants_is_among(names[i], g->columns, g->ncolumns))
			g->columns[g->ncolumns++] = names[i];
}

static void grants_take_option(void *ctx, const char *option, const struct sql_text *sql, bool set)
{
	struct grants_gathering *g = ctx;
	if (text_starts(option, "work.") != g->of_work)
		return;
	if (set)
		take_set(g, sql->text);
	else
		take_sql(g, sql->text);
}

static void take_expressions(struct grants_gathering *g, const struct watch *w)
{
	watch_each_sql(w, grants_take_option, g);
	for (int i = 0; i < w->nrules; i++)
		take_sql(g, w->rules[i].when.text);
}

/* The state of a job in another table is locked with it. */
static void take_states(struct grants_gathering *g, const struct watch *w)
{
	struct state_sql all[STATES_MAX];
	int n = watch_states(w, all);
	g->locks = NEEDS_UPDATE;
	for (int i = 0; i < n; i++)
		take_sql(g, all[i].text);
	g->locks = 0;
}

static void take_actions(struct grants_gathering *g, const struct watch *w)
{
	take_states(g, w);
	for (int act = 0; act < ACT_COUNT; act++) {
		const struct action *x = &w->actions[act];
		if (x->form == ACTION_SET)
			take_set(g, x->set.text);
		else if (x->form == ACTION_CALL)
			take_sql(g, x->set.text);
		for (int i = 0; x->form == ACTION_SQL && i < x->n; i++)
			take_sql(g, x->sql[i].text);
	}
	grants_take_list(g, &w->also);
}

static void take_work(struct grants_gathering *g, const struct watch *w)
{
	g->of_work = true;
	watch_each_sql(w, grants_take_option, g);
	grants_take_list(g, &w->work.beat);
	grants_take_list(g, &w->work.after);
}

static void grant(const char *what, const char *on, const char *role, struct buf *out)
{
	buf_addf(out, "GRANT %s ON %s TO %s;\n", what, on, role);
}

/* Locking a row requires the privilege to update any column of it. */
static void grant_columns(const struct grants_gathering *g, const struct watch *w,
                          const char *table, const char *role, struct buf *out)
{
	AUTO_BUF what = BUF_INIT;
	buf_add(&what, "UPDATE (");
	for (int i = 0; i < g->ncolumns; i++) {
		buf_add(&what, i ? ", " : "");
		sql_ident(&what, g->columns[i]);
	}
	if (g->ncolumns == 0)
		sql_ident(&what, w->key.items[0]);
	buf_add(&what, ")");
	grant(buf_text(&what), table, role, out);
}

/* Privileges on defib's own tables and the catalogs are granted elsewhere. */
static bool is_granted_elsewhere(const struct grants_gathering *g, const char *table)
{
	return grants_is_among(table, g->inner, g->ninner) || !strncasecmp(table, "defib.", 6) ||
	       !strncasecmp(table, "pg_", 3) || !strncasecmp(table, "inform", 6);
}

static void grant_others(const struct grants_gathering *g, const char *role, struct buf *out)
{
	for (int i = 0; i < g->ntables; i++) {
		AUTO_BUF what = BUF_INIT;
		bool own = is_granted_elsewhere(g, g->tables[i]);
		for (int p = 0; p < 4 && !own; p++)
			if (g->needs[i] & 1u << p)
				buf_addf(&what, "%s%s", what.len ? ", " : "", privileges[p]);
		if (!own)
			grant(buf_text(&what), g->tables[i], role, out);
	}
}

static struct grants_gathering *grants_gather(const struct watch *w, enum watch_use use,
                                              struct arena *a)
{
	struct grants_gathering *g = ARENA_NEW(a, struct grants_gathering);
	g->arena = a;
	take_expressions(g, w);
	if (use >= WATCH_RECOVER)
		take_actions(g, w);
	if (use >= WATCH_WORK && w->work.given)
		take_work(g, w);
	return g;
}

void watch_each_need(const struct watch *w, enum watch_use use, struct arena *a, watch_need *each,
                     void *ctx)
{
	const struct grants_gathering *g = grants_gather(w, use, a);
	AUTO_BUF table = BUF_INIT;
	sql_table(&table, w->table);
	each(ctx, buf_text(&table), privileges[0], NULL);
	if (use >= WATCH_RECOVER && g->ncolumns == 0)
		each(ctx, buf_text(&table), "UPDATE", w->key.items[0]);
	for (int i = 0; use >= WATCH_RECOVER && i < g->ncolumns; i++)
		each(ctx, buf_text(&table), "UPDATE", g->columns[i]);
	for (int i = 0; i < g->ntables; i++)
		for (int p = 0; p < 4 && !is_granted_elsewhere(g, g->tables[i]); p++)
			if (g->needs[i] & 1u << p)
				each(ctx, g->tables[i], privileges[p], NULL);
}

void watch_grants(const struct watch *w, enum watch_use use, const char *role, struct arena *a,
                  struct buf *out)
{
	const struct grants_gathering *g = grants_gather(w, use, a);
	AUTO_BUF table = BUF_INIT;
	sql_table(&table, w->table);
	const char *dot = strstr(buf_text(&table), "\".\"");
	if (dot)
		buf_addf(out, "GRANT USAGE ON SCHEMA %.*s\" TO %s;\n", (int)(dot - buf_text(&table)),
		         buf_text(&table), role);
	grant("SELECT", buf_text(&table), role, out);
	if (use >= WATCH_RECOVER)
		grant_columns(g, w, buf_text(&table), role, out);
	grant_others(g, role, out);
}
