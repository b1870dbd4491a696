/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/list_sql.h"

#include "store/dialect.h"
#include "store/sql.h"
#include "watch/lease_sql.h"
#include "watch/lexer.h"
#include "watch/timesql.h"

#include <assert.h>

const char *const list_sort_names[] = {"key", "age", "state", NULL};

#define SEARCHED_COLUMNS 3 /* of `show`, by any~ */
#define SEARCHED_ERRORS 2  /* columns with errors */

/* ---- expressions ---- */

static struct sql_token next_word(struct sql_lexer *lx)
{
	struct sql_token t;
	do
		t = sql_next(lx);
	while (t.type == SQL_SPACE || sql_is_mark(t, '('));
	return t;
}

/* The table's column that a token names, as the database writes it; NULL: none. */
static const char *list_sql_column_named(const struct binding *b, struct sql_token t)
{
	bool quoted = t.type == SQL_NAME;
	if (t.type != SQL_WORD && !quoted)
		return NULL;
	for (int i = 0; i < b->ncolumns; i++) {
		const char *name = b->columns[i].name;
		size_t len = strlen(name);
		if (quoted && t.len == len + 2 && strncmp(t.text + 1, name, len) == 0)
			return name;
		if (!quoted && t.len == len && strncasecmp(t.text, name, len) == 0)
			return name;
	}
	return NULL;
}

/* The column that an expression starts with. */
static const char *first_column(const struct binding *b, struct sql_lexer *lx)
{
	struct sql_token t = next_word(lx);
	if (sql_is_word(t, "t") && *lx->at == '.') {
		sql_next(lx);
		t = sql_next(lx);
	}
	return list_sql_column_named(b, t);
}

bool state_sql(const struct binding *b, struct buf *out)
{
	struct sql_lexer lx;
	const struct watch *w = b->watch;
	if (w->state.text) {
		buf_addf(out, "(%s)", w->state.text);
		return true;
	}
	sql_lexer_init(&lx, w->only_waits ? w->waiting.text : w->running.text, b->engine);
	const char *column = first_column(b, &lx);
	if (!column)
		return false;
	buf_add(out, "t.");
	sql_ident(out, column);
	return true;
}

/* The column, if the expression is only that: NAME or t.NAME, in parentheses or not. */
static const struct store_column *plain_column(const struct binding *b, const char *expr)
{
	struct sql_lexer lx;
	sql_lexer_init(&lx, expr, b->engine);
	const char *column = first_column(b, &lx);
	struct sql_token t;
	do
		t = sql_next(&lx);
	while (t.type == SQL_SPACE || sql_is_mark(t, ')'));
	for (int i = 0; column && t.type == SQL_END && i < b->ncolumns; i++)
		if (text_eq(b->columns[i].name, column))
			return &b->columns[i];
	return NULL;
}

/* If types are not declared, text is not cast, so that an index can be used. */
static void as_text(const struct binding *b, const char *expr, struct buf *out)
{
	const struct store_column *column =
		dialect_of(b->engine)->has_types ? NULL : plain_column(b, expr);
	if (column && (strstr(column->base, "TEXT") || strstr(column->base, "CHAR")))
		buf_addf(out, "(%s)", expr);
	else
		dialect_cast(dialect_of(b->engine), out, expr, "text");
}

/* The sign that gives a row's age; a start says more about it than a deadline. */
static enum sign age_sign(const struct watch *w)
{
	enum sign first = watch_first_sign(w);
	return first == SIGN_EXPIRES && w->started_at.text ? SIGN_STARTED : first;
}

void since_sql(const struct binding *b, struct buf *out)
{
	const struct watch *w = b->watch;
	enum sign sign = age_sign(w);
	if (w->since.text)
		sql_time_us(b, b->time, w->since.text, out);
	else
		sql_time_us(b, b->sign_time[sign], watch_sign(w, sign)->text, out);
}

/* ---- terms ---- */

static void bind_value(const struct binding *b, struct list_statement *s, const char *value,
                       const char *type)
{
	assert(s->nparams < LIST_PARAMS_MAX);
	s->params[s->nparams++] = P_TEXT(value);
	parameter(b, s->nparams, type, &s->sql);
}

/* Compare one text with one value; a null differs from every value. */
static void compare(const struct binding *b, const char *expr, enum term_op op, const char *value,
                    struct list_statement *s)
{
	if (op == TERM_HAS) {
		buf_addf(&s->sql, "%s(lower(", dialect_of(b->engine)->find_text);
		as_text(b, expr, &s->sql);
		buf_add(&s->sql, "), lower(");
		bind_value(b, s, value, "text");
		buf_add(&s->sql, ")) > 0");
		return;
	}
	as_text(b, expr, &s->sql);
	buf_add(&s->sql, op == TERM_IS ? " = " : dialect_of(b->engine)->differs);
	bind_value(b, s, value, "text");
}

static bool list_sql_same_name(const char *name, enum term_op op, const char *value)
{
	return op == TERM_HAS ? strcasestr(name, value) != NULL : strcasecmp(name, value) == 0;
}

/* A state may be given by its name or as stored in the row. */
static void state_term(const struct binding *b, const struct term *t, struct list_statement *s)
{
	const struct state_names *states = &b->watch->states;
	AUTO_BUF expr = BUF_INIT;
	if (!state_sql(b, &expr)) {
		buf_add(&s->sql, "false");
		return;
	}
	const char *glue = t->op == TERM_IS_NOT ? " AND " : " OR ";
	enum term_op code_op = t->op == TERM_IS_NOT ? TERM_IS_NOT : TERM_IS;
	buf_add(&s->sql, "(");
	compare(b, buf_text(&expr), t->op, t->value, s);
	for (int i = 0, used = 0; i < states->n && used < 6; i++) {
		if (!list_sql_same_name(states->names[i], t->op, t->value))
			continue;
		buf_add(&s->sql, glue);
		compare(b, buf_text(&expr), code_op, states->codes[i], s);
		used++;
	}
	buf_add(&s->sql, ")");
}

static void column_expr(const struct binding *b, int column, struct buf *out)
{
	buf_add(out, "t.");
	sql_ident(out, b->watch->show.items[column]);
}

static void text_term(const struct binding *b, const struct term *t, struct list_statement *s)
{
	const struct watch *w = b->watch;
	if (w->text.text) {
		compare(b, w->text.text, TERM_HAS, t->value, s);
		return;
	}
	buf_add(&s->sql, "(");
	for (int i = 0; i < w->show.n; i++) {
		AUTO_BUF expr = BUF_INIT;
		buf_add(&s->sql, i ? " OR " : "");
		column_expr(b, i, &expr);
		compare(b, buf_text(&expr), TERM_HAS, t->value, s);
	}
	buf_add(&s->sql, ")");
}

/* Columns that hold an error, by their names. */
static bool list_sql_is_error(const char *column)
{
	static const char end[] = "error";
	size_t n = strlen(column), m = sizeof end - 1;
	return n >= m && strcasecmp(column + n - m, end) == 0;
}

static void or_errors(const struct binding *b, const struct term *t, struct list_statement *s)
{
	int used = 0;
	for (int i = 0; i < b->ncolumns && used < SEARCHED_ERRORS; i++) {
		AUTO_BUF expr = BUF_INIT;
		if (!list_sql_is_error(b->columns[i].name))
			continue;
		buf_add(&expr, "t.");
		sql_ident(&expr, b->columns[i].name);
		buf_add(&s->sql, " OR ");
		compare(b, buf_text(&expr), TERM_HAS, t->value, s);
		used++;
	}
}

/* Key, kind, owner, errors, shown columns, text and what `search` names: one of them has it. */
static void any_term(const struct binding *b, const struct term *t, struct list_statement *s)
{
	const struct watch *w = b->watch;
	const bool all = t->reach == REACH_ALL, shown = t->reach != REACH_NAMING;
	const char *const parts[] = {w->kind.text, all ? w->owner.text : NULL,
	                             shown ? w->text.text : NULL, all ? w->search.text : NULL};
	AUTO_BUF key = BUF_INIT;
	sql_job_text(b, JOB_OF_ROW, &key);
	buf_add(&s->sql, "(");
	compare(b, buf_text(&key), TERM_HAS, t->value, s);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (parts[i]) {
			buf_add(&s->sql, " OR ");
			compare(b, parts[i], TERM_HAS, t->value, s);
		}
	for (int i = 0; shown && i < w->show.n && i < SEARCHED_COLUMNS; i++) {
		AUTO_BUF expr = BUF_INIT;
		column_expr(b, i, &expr);
		buf_add(&s->sql, " OR ");
		compare(b, buf_text(&expr), TERM_HAS, t->value, s);
	}
	if (all)
		or_errors(b, t, s);
	buf_add(&s->sql, ")");
}

static void age_term(const struct binding *b, const struct term *t, struct list_statement *s)
{
	enum sign sign = age_sign(b->watch);
	struct threshold limit = {.given = true, .standard_us = t->us};
	enum time_type time = b->watch->since.text ? b->time : b->sign_time[sign];
	const struct sql_text *since =
		b->watch->since.text ? &b->watch->since : watch_sign(b->watch, sign);
	sql_time_comparable(b, time, since->text, &s->sql);
	buf_add(&s->sql, t->op == TERM_OVER ? " < " : " > ");
	sql_time_cutoff(b, time, &limit, NULL, &s->sql);
}

/* Rows of one of our tables, by watch or by the table that is watched. */
struct list_rows {
	const char *table;
	const char *by, *value; /* a column, and what it must be */
	const char *more;       /* a further condition */
};

/* Whether such a row has the job; a hold may be over, which only its facts show. */
static void ledger_term(const struct binding *b, const struct list_query *l,
                        const struct list_rows *of, struct list_statement *s)
{
	if (!l->ledger) {
		buf_add(&s->sql, "false");
		return;
	}
	/*
	 * "OR false" keeps PostgreSQL from making this a join: with a limit it would search the ledger
	 * once for every row of the table, instead of hashing the ledger's jobs.
	 */
	buf_add(&s->sql, "(");
	sql_job_text(b, JOB_OF_ROW, &s->sql);
	buf_addf(&s->sql,
	         " IN (SELECT defib_l.job FROM %s%s AS " LIST_ENTRY " WHERE " LIST_ENTRY ".%s = ",
	         dialect_of(b->engine)->own, of->table, of->by);
	bind_value(b, s, of->value, "text");
	buf_addf(&s->sql, "%s) OR false)", of->more);
}

/* How to turn a job's text into a key without an error for invalid ones; NULL: not possible. */
static const char *key_of_text(const struct binding *b)
{
	static const struct {
		const char *type, *sql;
	} forms[] = {
		{"bigint", "CASE WHEN defib_l.job ~ '^-?[0-9]{1,19}$' THEN CASE WHEN defib_l.job::numeric "
	               "BETWEEN -9223372036854775808 AND 9223372036854775807 THEN defib_l.job::bigint "
	               "END END"},
		{"integer", "CASE WHEN defib_l.job ~ '^-?[0-9]{1,10}$' THEN CASE WHEN defib_l.job::bigint "
	                "BETWEEN -2147483648 AND 2147483647 THEN defib_l.job::integer END END"},
		{"text", "defib_l.job"},
		{"uuid", "CASE WHEN defib_l.job ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' "
	             "THEN defib_l.job::uuid END"},
	};
	if (b->watch->key.n != 1)
		return NULL;
	/* SQLite compares a text with an integer as a number, and can use an index. */
	if (!dialect_of(b->engine)->has_types)
		return strcasestr(b->key_type[0], "int") || strcasestr(b->key_type[0], "text")
		           ? "defib_l.job"
		           : NULL;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (text_eq(b->key_type[0], forms[i].type))
			return forms[i].sql;
	return NULL;
}

/*
 * From the holds or excuses, which are few, to their rows; as an array, so that an index on the key
 * can be used.
 */
static void in_hold_table(const struct binding *b, const struct list_query *l,
                          const struct list_rows *of, struct list_statement *s)
{
	const char *form = key_of_text(b);
	if (!form || !l->ledger) {
		ledger_term(b, l, of, s);
		return;
	}
	assert(s->nparams < LIST_PARAMS_MAX);
	s->params[s->nparams++] = P_TEXT(of->value);
	key_column(b, 0, &s->sql);
	dialect_addf(dialect_of(b->engine), &s->sql,
	             " {in_query SELECT %s FROM defib.hold AS " LIST_ENTRY " WHERE " LIST_ENTRY
	             ".%s = $%d::text%s}",
	             form, of->by, s->nparams, of->more);
}

/* Whether rows themselves say that they are held: if not, the holds are complete. */
static bool has_held_state(const struct watch *w)
{
	bool named = watch_writes_hold(w);
	for (int i = 0; i < w->states.n; i++)
		named = named || strcasecmp(w->states.names[i], "held") == 0;
	return named;
}

static void held_term(const struct binding *b, const struct list_query *l, struct list_statement *s)
{
	const struct term named = {.what = TERM_STATE, .op = TERM_IS, .value = "held"};
	const struct list_rows holds = {"hold", "watch", b->watch->name,
	                                " AND " LIST_ENTRY ".verdict IS NULL"};
	buf_add(&s->sql, "(");
	in_hold_table(b, l, &holds, s);
	if (has_held_state(b->watch)) {
		buf_add(&s->sql, " OR ");
		state_term(b, &named, s);
	}
	buf_add(&s->sql, ")");
}

/* Whichever watch made the excuse; whether it covers the job only its facts show. */
static void excused_term(const struct binding *b, const struct list_query *l,
                         struct list_statement *s)
{
	const struct list_rows excuses = {"hold", "table_key", b->table_key,
	                                  " AND " LIST_ENTRY ".verdict IS NOT NULL"};
	in_hold_table(b, l, &excuses, s);
}

static void recovered_term(const struct binding *b, const struct list_query *l,
                           struct list_statement *s)
{
	AUTO_BUF events = BUF_INIT;
	buf_addf(&events, " AND %s", l->ledger ? l->recovered : "false");
	ledger_term(b, l, &(struct list_rows){"ledger", "watch", b->watch->name, buf_text(&events)}, s);
}

static void add_term(const struct binding *b, const struct list_query *l, const struct term *t,
                     struct list_statement *s)
{
	AUTO_BUF column = BUF_INIT;
	switch (t->what) {
	case TERM_STATE:
		state_term(b, t, s);
		break;
	case TERM_KIND:
		compare(b, b->watch->kind.text, t->op, t->value, s);
		break;
	case TERM_OWNER:
		compare(b, b->watch->owner.text, t->op, t->value, s);
		break;
	case TERM_COLUMN:
		column_expr(b, t->column, &column);
		compare(b, buf_text(&column), t->op, t->value, s);
		break;
	case TERM_TEXT:
		text_term(b, t, s);
		break;
	case TERM_ANY:
		any_term(b, t, s);
		break;
	case TERM_AGE:
		age_term(b, t, s);
		break;
	case TERM_VERDICT:
	case TERM_STUCK:
		stuck_condition(b, &s->sql);
		break;
	case TERM_RUNNING:
		buf_addf(&s->sql, "(%s)", b->watch->running.text);
		break;
	case TERM_HELD:
		held_term(b, l, s);
		break;
	case TERM_EXCUSED:
		excused_term(b, l, s);
		break;
	case TERM_RECOVERED:
		recovered_term(b, l, s);
		break;
	}
}

/* ---- order and pages ---- */

/* What the rows are sorted by, and its type; false: by the key alone. */
static bool sort_sql(const struct binding *b, enum list_sort sort, struct buf *out,
                     const char **type)
{
	enum sign sign = age_sign(b->watch);
	AUTO_BUF state = BUF_INIT;
	*type = sort == LIST_BY_AGE ? "bigint" : "text";
	if (sort == LIST_BY_AGE && dialect_of(b->engine)->has_time_types && !b->watch->since.text) {
		sql_time_comparable(b, b->sign_time[sign], watch_sign(b->watch, sign)->text, out);
		*type = sql_time_comparable_type(b->sign_time[sign], b->sign_type[sign]);
	} else if (sort == LIST_BY_AGE) {
		/* SQLite prints a fraction of a day with too few digits to continue after it. */
		since_sql(b, out);
	} else if (sort == LIST_BY_STATE && state_sql(b, &state)) {
		as_text(b, buf_text(&state), out);
	}
	return out->len > 0;
}

bool list_has_parts(const struct binding *b, enum list_sort sort)
{
	AUTO_BUF by = BUF_INIT;
	const char *type;
	return sort_sql(b, sort, &by, &type);
}

enum list_sort list_cheapest_sort(const struct binding *b, enum list_sort sort,
                                  const struct term *terms, int nterms)
{
	for (int i = 0; i < nterms; i++)
		if (terms[i].what == TERM_RUNNING || terms[i].what == TERM_STUCK ||
		    terms[i].what == TERM_VERDICT)
			return sort;
	return b->watch->key_rises && sort == LIST_BY_AGE ? LIST_BY_KEY : sort;
}

static void order_keys(const struct binding *b, const char *each, struct buf *out)
{
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_add(out, k ? ", " : "");
		key_column(b, k, out);
		buf_add(out, each);
	}
}

static void key_params(const struct binding *b, const char *const *key, struct list_statement *s)
{
	for (int k = 0; k < b->watch->key.n; k++) {
		buf_add(&s->sql, k ? ", " : "");
		bind_value(b, s, key[k], b->key_type[k]);
	}
}

/* (sort, key…) > ($…): leaves out the last row of the previous page and all before it. */
static void list_after(const struct binding *b, const struct list_query *l, const char *sort,
                       const char *type, struct list_statement *s)
{
	bool sorted = sort && !l->unsorted;
	buf_addf(&s->sql, "(%s%s", sorted ? sort : "", sorted ? ", " : "");
	order_keys(b, "", &s->sql);
	buf_add(&s->sql, l->desc ? ") < (" : ") > (");
	if (sorted) {
		bool number = !dialect_of(b->engine)->has_types && l->sort == LIST_BY_AGE;
		buf_add(&s->sql, number ? "CAST(" : "");
		bind_value(b, s, l->after_sort, type);
		buf_add(&s->sql, number ? " AS INTEGER), " : ", ");
	}
	key_params(b, l->after_key, s);
	buf_add(&s->sql, ")");
}

/* What comes after a row in another order: rows without a sort value are the last there. */
static void in_rest(const struct binding *b, const struct list_query *other,
                    struct list_statement *s)
{
	AUTO_BUF by = BUF_INIT;
	const char *type = NULL;
	sort_sql(b, other->sort, &by, &type);
	buf_addf(&s->sql, "\n  AND (%s IS NULL %s ", buf_text(&by), other->unsorted ? "AND" : "OR");
	list_after(b, other, buf_text(&by), type, s);
	buf_add(&s->sql, ")");
}

static void up_to(const struct binding *b, const struct list_query *l, const char *const *key,
                  struct list_statement *s)
{
	buf_add(&s->sql, "\n  AND (");
	order_keys(b, "", &s->sql);
	buf_add(&s->sql, l->desc ? ") >= (" : ") <= (");
	key_params(b, key, s);
	buf_add(&s->sql, ")");
}

void list_window_sql(const struct binding *b, const struct list_query *l, int64_t rows,
                     struct list_statement *out)
{
	*out = (struct list_statement){.sql = BUF_INIT};
	buf_add(&out->sql, "SELECT ");
	key_list(b, "t.", &out->sql);
	from_table(b, &out->sql);
	buf_add(&out->sql, "\nWHERE true");
	if (l->after && l->sort == LIST_BY_KEY) {
		buf_add(&out->sql, "\n  AND ");
		list_after(b, l, NULL, NULL, out);
	}
	if (l->up_to)
		up_to(b, l, l->up_to, out);
	buf_add(&out->sql, "\nORDER BY ");
	order_keys(b, l->desc ? " DESC" : "", &out->sql);
	buf_add(&out->sql, "\nLIMIT 2 OFFSET ");
	out->params[out->nparams++] = P_INT(rows - 1);
	parameter(b, out->nparams, "bigint", &out->sql);
}

static void select_list(const struct binding *b, const char *sort, struct buf *out)
{
	AUTO_BUF state = BUF_INIT;
	buf_add(out, "SELECT ");
	key_list(b, "t.", out);
	buf_add(out, ", ");
	if (state_sql(b, &state))
		as_text(b, buf_text(&state), out);
	else
		buf_add(out, "NULL");
	buf_add(out, " AS defib_state, ");
	if (sort)
		as_text(b, sort, out);
	else
		buf_add(out, "NULL");
	buf_add(out, " AS defib_sort, ");
	since_sql(b, out);
	buf_add(out, " AS defib_since");
}

void list_sql(const struct binding *b, const struct list_query *l, struct list_statement *out)
{
	AUTO_BUF by = BUF_INIT;
	const char *type = NULL;
	*out = (struct list_statement){.sql = BUF_INIT};
	const char *sort = sort_sql(b, l->sort, &by, &type) ? buf_text(&by) : NULL;
	select_list(b, sort, &out->sql);
	if (l->keys) {
		from_keys(b, &out->sql);
		for (int i = 0; i < l->nkeys; i++)
			out->params[out->nparams++] = l->keys[i];
	} else {
		from_table(b, &out->sql);
	}
	buf_add(&out->sql, "\nWHERE ");
	if (sort)
		buf_addf(&out->sql, "%s IS %s", sort, l->unsorted ? "NULL" : "NOT NULL");
	else
		buf_add(&out->sql, "true");
	for (int i = 0; i < l->nterms; i++) {
		buf_add(&out->sql, "\n  AND ");
		add_term(b, l, &l->terms[i], out);
	}
	if (l->after) {
		buf_add(&out->sql, "\n  AND ");
		list_after(b, l, sort, type, out);
	}
	if (l->rest_of)
		in_rest(b, l->rest_of, out);
	if (l->up_to)
		up_to(b, l, l->up_to, out);
	if (l->window)
		up_to(b, l, l->window, out);
	buf_add(&out->sql, "\nORDER BY ");
	if (sort && !l->unsorted)
		buf_addf(&out->sql, "%s%s, ", sort, l->desc ? " DESC" : "");
	order_keys(b, l->desc ? " DESC" : "", &out->sql);
	buf_addf(&out->sql, "\nLIMIT ");
	out->params[out->nparams++] = P_INT(l->limit);
	parameter(b, out->nparams, "bigint", &out->sql);
}
