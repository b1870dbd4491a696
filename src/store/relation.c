/* SPDX-License-Identifier: Apache-2.0
 * relation.c: rows become parameters.
 *
 * PostgreSQL: one array literal per column, {"a\"b",NULL,7}. Text is always quoted, so that the
 * word NULL, braces and commas have no meaning. A column of JSON is one document, [{"a":1},null].
 * SQLite: one JSON document, [["a\"b",null,7],…]. Whole numbers stay numbers.
 */
#include "store/relation.h"

#include "store/sql.h"

#include <assert.h>

void relation_init(struct relation *r, enum store_engine engine)
{
	*r = (struct relation){.engine = engine};
}

void relation_column(struct relation *r, const char *name, const char *type)
{
	assert(r->ncols < RELATION_COLUMNS_MAX && r->nrows == 0 && name && type);
	r->names[r->ncols] = name;
	r->types[r->ncols] = type;
	r->ncols++;
}

void relation_make(struct relation *r, enum store_engine engine, const char *const *columns)
{
	relation_init(r, engine);
	for (; *columns; columns += 2)
		relation_column(r, columns[0], columns[1]);
}

static bool is_json(const struct relation *r, int col)
{
	return text_eq(r->types[col], RELATION_JSON);
}

/* The buffer that takes the next value, with its separator in place. */
static struct buf *next_value(struct relation *r)
{
	assert(r->at < r->ncols);
	int col = r->at++;
	if (r->engine == STORE_POSTGRES) {
		r->starts[col] = r->cols[col].len;
		buf_addch(&r->cols[col], r->nrows > 0 ? ',' : is_json(r, col) ? '[' : '{');
		return &r->cols[col];
	}
	if (col == 0)
		buf_addch(&r->cols[0], r->nrows == 0 ? '[' : ',');
	buf_addch(&r->cols[0], col == 0 ? '[' : ',');
	return &r->cols[0];
}

static void add_array_text(struct buf *out, const char *text)
{
	buf_addch(out, '"');
	while (*text != '\0') {
		size_t plain = strcspn(text, "\"\\");
		buf_addn(out, text, plain);
		text += plain;
		if (*text != '\0') {
			buf_addch(out, '\\');
			buf_addch(out, *text++);
		}
	}
	buf_addch(out, '"');
}

void relation_text(struct relation *r, const char *value)
{
	bool document = r->engine == STORE_POSTGRES && is_json(r, r->at);
	struct buf *out = next_value(r);
	if (!value)
		buf_add(out, r->engine == STORE_POSTGRES && !document ? "NULL" : "null");
	else if (document)
		buf_add(out, value);
	else if (r->engine == STORE_POSTGRES)
		add_array_text(out, value);
	else
		buf_add_json(out, value);
}

void relation_int(struct relation *r, int64_t value)
{
	buf_addint(next_value(r), value);
}

void relation_number(struct relation *r, bool has, int64_t value)
{
	if (has)
		relation_int(r, value);
	else
		relation_text(r, NULL);
}

/* Repeat the first value `n` times. */
static void repeat_first(struct relation *r, int col, int n)
{
	struct buf *c = &r->cols[col];
	AUTO_BUF first = BUF_INIT;
	buf_addn(&first, buf_text(c) + 1, r->firsts[col] - 1);
	for (int i = 0; i < n; i++) {
		buf_addch(c, ',');
		buf_addn(c, buf_text(&first), first.len);
	}
}

/* Leave out values that equal the first one, until one differs. */
static void relation_leave_out(struct relation *r, int col)
{
	struct buf *c = &r->cols[col];
	size_t start = r->starts[col], size = c->len - start;
	if (r->nrows == 0)
		r->firsts[col] = c->len;
	if (r->nrows == 0 || r->varies[col] || is_json(r, col))
		return;
	r->varies[col] =
		size != r->firsts[col] || memcmp(buf_text(c) + start + 1, buf_text(c) + 1, size - 1) != 0;
	AUTO_BUF last = BUF_INIT;
	if (r->varies[col])
		buf_addn(&last, buf_text(c) + start, size);
	buf_cut(c, start);
	if (r->varies[col]) {
		repeat_first(r, col, r->nrows - 1);
		buf_addn(c, buf_text(&last), last.len);
	}
}

/* The number of rows is the length of the longest column. */
static void keep_length(struct relation *r)
{
	for (int i = 0; i < r->ncols; i++)
		if (r->varies[i] || is_json(r, i))
			return;
	if (r->nrows > 1)
		repeat_first(r, 0, r->nrows - 1);
}

void relation_end_row(struct relation *r)
{
	assert(r->ncols > 0 && r->at == r->ncols);
	if (r->engine == STORE_SQLITE)
		buf_addch(&r->cols[0], ']');
	for (int i = 0; r->brief && r->engine == STORE_POSTGRES && i < r->ncols; i++)
		relation_leave_out(r, i);
	r->at = 0;
	r->nrows++;
}

int relation_nparams(const struct relation *r)
{
	return r->engine == STORE_POSTGRES ? r->ncols : 1;
}

void relation_params(struct relation *r, struct store_param *params)
{
	bool postgres = r->engine == STORE_POSTGRES;
	assert(r->at == 0);
	if (r->brief && postgres)
		keep_length(r);
	for (int i = 0; i < relation_nparams(r); i++) {
		bool array = postgres && !is_json(r, i);
		if (r->nrows == 0)
			buf_addch(&r->cols[i], array ? '{' : '[');
		buf_addch(&r->cols[i], array ? '}' : ']');
		params[i] = P_TEXT(buf_text(&r->cols[i]));
	}
}

/* unnest() flattens nested arrays, so an array is sent as text and cast afterwards. */
static bool is_array_type(const char *type)
{
	size_t n = strlen(type);
	return n > 0 && type[n - 1] == ']';
}

/* The functions that return the columns: unnest() of all arrays, then one for each document. */
static void add_functions(const struct relation *r, int first, struct buf *out)
{
	int documents = 0;
	for (int i = 0; i < r->ncols; i++)
		documents += is_json(r, i);
	bool arrays = documents < r->ncols;
	buf_add(out, documents ? "ROWS FROM (" : "");
	for (int i = 0, n = 0; i < r->ncols; i++)
		if (!is_json(r, i))
			buf_addf(out, "%s$%d::%s[]", n++ == 0 ? "unnest(" : ", ", first + i,
			         is_array_type(r->types[i]) ? "text" : r->types[i]);
	buf_add(out, arrays ? ")" : "");
	for (int i = 0; i < r->ncols; i++)
		if (is_json(r, i)) {
			buf_addf(out, "%sjsonb_array_elements($%d::jsonb)", arrays ? ", " : "", first + i);
			arrays = true;
		}
	buf_add(out, documents ? ")" : "");
}

/* A column; a brief one with one value has that value in all rows. */
static void add_column(const struct relation *r, int i, int first, struct buf *out)
{
	bool json = is_json(r, i), array = is_array_type(r->types[i]), brief = r->brief && !json;
	const char *type = array ? "text" : r->types[i];
	buf_add(out, json ? "NULLIF(" : array && brief ? "(" : "");
	if (brief)
		buf_addf(out, "CASE cardinality($%d::%s[]) WHEN 1 THEN ($%d::%s[])[1] ELSE ", first + i,
		         type, first + i, type);
	buf_add(out, "r.");
	sql_ident(out, r->names[i]);
	buf_add(out, json ? ", 'null')" : brief ? " END" : "");
	if (array)
		buf_addf(out, "%s::%s", brief ? ")" : "", r->types[i]);
	if (json || array || brief) {
		buf_add(out, " AS ");
		sql_ident(out, r->names[i]);
	}
}

static void select_postgres(const struct relation *r, int first, struct buf *out)
{
	for (int i = 0; i < r->ncols; i++) {
		buf_add(out, i == 0 ? "SELECT " : ", ");
		add_column(r, i, first, out);
	}
	buf_add(out, " FROM ");
	add_functions(r, first, out);
	buf_add(out, " AS r(");
	int n = 0;
	for (int json = 0; json <= 1; json++)
		for (int i = 0; i < r->ncols; i++)
			if (is_json(r, i) == json) {
				buf_add(out, n++ == 0 ? "" : ", ");
				sql_ident(out, r->names[i]);
			}
	buf_addch(out, ')');
}

static void select_sqlite(const struct relation *r, int first, struct buf *out)
{
	for (int i = 0; i < r->ncols; i++) {
		buf_addf(out, "%s json_extract(value, '$[%d]') AS ", i == 0 ? "SELECT" : ",", i);
		sql_ident(out, r->names[i]);
	}
	buf_addf(out, " FROM json_each(?%d)", first);
}

void relation_select(const struct relation *r, int first, struct buf *out)
{
	assert(r->ncols > 0 && first > 0);
	if (r->engine == STORE_POSTGRES)
		select_postgres(r, first, out);
	else
		select_sqlite(r, first, out);
}

void relation_release(struct relation *r)
{
	for (int i = 0; i < r->ncols; i++)
		buf_release(&r->cols[i]);
	*r = (struct relation){.engine = r->engine};
}
