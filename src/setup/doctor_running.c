/* SPDX-License-Identifier: Apache-2.0
 * doctor_running.c: checks on running rows. If `running` matches no row, it lists the values in the
 * columns that it names, with the one nearest to what it compares with.
 */

#include "setup/doctor_running.h"

#include "setup/doctor_check.h"

#include "recover/census.h"
#include "recover/masked.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/lexer.h"

#define SAMPLE_ROWS 10000 /* whose values are counted */
#define NAMED_MAX 3       /* columns that are reported */
#define ASKED_MAX 8       /* values that `running` compares with, per column */
#define VALUES_MAX 50     /* distinct values that are read, … */
#define VALUES_SHOWN 5    /* … and reported, the most common ones first */
#define VALUE_CHARACTERS 40

/* A column that `running` names, and the values that it must equal. */
struct named {
	const char *column;
	const char *asked[ASKED_MAX];
	int nasked;
};

/* Reading a predicate from left to right. */
struct predicate_reading {
	struct examination *x;
	struct named named[NAMED_MAX];
	int n;
	struct named *left;  /* the column that a following value belongs to */
	const char *waiting; /* a value before its column */
	bool equal, negated;
	const char *punct; /* the last one, for those of two characters */
};

static const char *running_unquoted(struct examination *x, struct sql_token k)
{
	char *text = arena_printf(&x->arena, "%.*s", (int)k.len, k.text), *to = text;
	char quote = *text;
	if (quote != '\'' && quote != '"')
		return text;
	for (size_t i = 1; i + 1 < k.len; i++) {
		*to++ = k.text[i];
		i += k.text[i] == quote;
	}
	*to = '\0';
	return text;
}

static void running_read_value(struct predicate_reading *r, const char *value)
{
	struct named *c = r->left;
	if (!c)
		r->waiting = value;
	else if (r->equal && c->nasked < ASKED_MAX)
		c->asked[c->nasked++] = value;
}

static void read_column(struct predicate_reading *r, const char *column)
{
	struct named *c = NULL;
	for (int i = 0; i < r->n; i++)
		if (text_eq(r->named[i].column, column))
			c = &r->named[i];
	if (!c && r->n < NAMED_MAX) {
		c = &r->named[r->n++];
		c->column = column;
	}
	r->left = c;
	if (c && r->waiting)
		running_read_value(r, r->waiting);
	r->waiting = NULL;
}

static bool running_is_word(const char *word, const char *const *words)
{
	while (*words && strcasecmp(word, *words) != 0)
		words++;
	return *words != NULL;
}

static void read_word(struct predicate_reading *r, const char *word, bool bare)
{
	static const char *const joins[] = {"and", "or", "case", "when", "then", "else", NULL};
	static const char *const others[] = {"like", "ilike", "similar", "between", "is", "glob", NULL};
	const struct binding *b = &r->x->binding;
	bool folds = bare || dialect_of(b->engine)->words.folds_quoted;
	for (int i = 0; i < b->ncolumns; i++) {
		const char *name = b->columns[i].name;
		if (folds ? strcasecmp(name, word) == 0 : strcmp(name, word) == 0) {
			read_column(r, name);
			return;
		}
	}
	if (bare && *word >= '0' && *word <= '9') {
		running_read_value(r, word);
	} else if (bare && running_is_word(word, joins)) {
		r->left = NULL;
		r->waiting = NULL;
		r->equal = r->negated = false;
	} else if (bare && strcasecmp(word, "not") == 0) {
		r->negated = true;
	} else if (bare && strcasecmp(word, "in") == 0) {
		r->equal = !r->negated;
	} else if (bare && running_is_word(word, others)) {
		r->equal = false;
	}
}

static void read_punct(struct predicate_reading *r, const char *at)
{
	bool second = r->punct && r->punct + 1 == at && strchr("<>!", *r->punct);
	if (*at == '=')
		r->equal = !second;
	else if (strchr("<>!~", *at))
		r->equal = false;
	r->punct = at;
}

static void read_predicate(struct predicate_reading *r)
{
	struct sql_lexer lx;
	sql_lexer_init(&lx, r->x->watch->running.text, r->x->store->engine);
	for (;;) {
		struct sql_token k = sql_next(&lx);
		bool name = k.type == SQL_WORD || k.type == SQL_NAME;
		if (k.type == SQL_END || k.type == SQL_OPEN_ENDED)
			return;
		if (name && *lx.at != '.' && (*lx.at != '(' || strncasecmp(k.text, "in", 2) == 0))
			read_word(r, running_unquoted(r->x, k), k.type == SQL_WORD);
		else if (k.type == SQL_STRING && *k.text == '\'')
			running_read_value(r, running_unquoted(r->x, k));
		else if (k.type == SQL_PUNCT)
			read_punct(r, k.text);
	}
}

static bool running_read_values(struct examination *x, const struct named *c,
                                struct store_rows *rows)
{
	AUTO_BUF sql = BUF_INIT;
	struct failure f = {0};
	buf_add(&sql, "SELECT defib_value, count(*) FROM (SELECT CAST(t.");
	sql_ident(&sql, c->column);
	buf_addf(&sql,
	         " AS text) AS defib_value FROM %s AS t LIMIT %d) AS defib_sample GROUP BY 1 "
	         "ORDER BY 2 DESC, 1 LIMIT %d",
	         x->table, SAMPLE_ROWS, VALUES_MAX + 1);
	return ask_within(x, buf_text(&sql), rows, &f) == DEFIB_OK;
}

static const char *nearest(const char *word, const char *const *values)
{
	for (const char *const *at = values; *at; at++)
		if (strcasecmp(word, *at) == 0)
			return *at;
	return text_nearest(word, values);
}

/* Report compared values that do not occur; returns whether one looks like a typo. */
static bool report_absent(struct examination *x, const struct named *c,
                          const struct store_rows *rows, struct buf *out)
{
	const char **values = ARENA_ARRAY(&x->arena, const char *, rows->nrows + 1);
	const char *between = ": ";
	bool slip = false;
	for (int i = 0, n = 0; i < rows->nrows; i++)
		if (row_text(rows, i, 0))
			values[n++] = row_text(rows, i, 0);
	for (int i = 0; i < c->nasked; i++) {
		const char *near = nearest(c->asked[i], values);
		if (text_eq(near, c->asked[i]))
			continue;
		buf_addf(out, "%s'%s' does not occur", between, c->asked[i]);
		if (near)
			buf_addf(out, ", did you mean '%s'?", near);
		between = "; ";
		slip = slip || near;
	}
	return slip;
}

static void report_value(struct examination *x, const struct named *c, const char *value, int64_t n,
                         struct buf *out)
{
	AUTO_BUF shown = BUF_INIT;
	size_t len = 0, step;
	if (!value) {
		buf_addf(out, "null (%s)", grouped(x, n));
		return;
	}
	masked_text(x->watch, NULL, c->column, value, &shown);
	const char *text = buf_text(&shown);
	for (int i = 0; i < VALUE_CHARACTERS && (step = utf8_len(text + len)) > 0; i++)
		len += step;
	buf_addf(out, "'%.*s%s' (%s)", (int)len, text, text[len] ? "…" : "", grouped(x, n));
}

/* Report the values of one column; returns whether a compared value looks like a typo. */
static bool report_column(struct examination *x, const struct named *c, struct buf *out)
{
	struct store_rows rows;
	int64_t all = 0;
	if (watch_hides(x->watch, c->column)) {
		buf_addf(out, "; %s is masked, so its values are not shown", c->column);
		return false;
	}
	if (!running_read_values(x, c, &rows))
		return false;
	if (rows.nrows > VALUES_MAX) {
		buf_addf(out, "; %s has more than %d values", c->column, VALUES_MAX);
		return false;
	}
	for (int i = 0; i < rows.nrows; i++)
		all += row_int(&rows, i, 1, 0);
	buf_add(out, "; ");
	if (all >= SAMPLE_ROWS)
		buf_addf(out, "in the first %s rows ", grouped(x, SAMPLE_ROWS));
	buf_addf(out, "%s is ", c->column);
	for (int i = 0; i < rows.nrows && i < VALUES_SHOWN; i++) {
		buf_add(out, i ? ", " : "");
		report_value(x, c, row_text(&rows, i, 0), row_int(&rows, i, 1, 0), out);
	}
	if (rows.nrows > VALUES_SHOWN)
		buf_addf(out, " and %d more", rows.nrows - VALUES_SHOWN);
	return report_absent(x, c, &rows, out);
}

static void report_unmatched(struct examination *x, const struct unseen *u, bool sure)
{
	struct predicate_reading r = {.x = x};
	AUTO_BUF text = BUF_INIT;
	bool slip = false;
	if (sure)
		buf_addf(&text, "no row matches running (%s)", x->watch->running.text);
	else
		buf_addf(&text, "whether a row matches running (%s) could not be determined within %s",
		         x->watch->running.text, span(x, WITHIN_MS * INT64_C(1000)));
	read_predicate(&r);
	for (int i = 0; i < r.n && !x->store->lost; i++)
		slip = report_column(x, &r.named[i], &text) || slip;
	if (u->secured)
		buf_addf(&text, "; row-level security applies to role %s and may hide rows", x->role);
	/* If the ledger has an entry, it did run once: it is idle now, unless a value was mistyped. */
	if (slip || (!u->recorded && sure))
		found(x, FINDING_WARN,
		      "correct running: in the watch if it can never match; if nothing is running now, run "
		      "doctor again when something is",
		      "%s", buf_text(&text));
	else
		found(x, FINDING_OK, NULL, "%s", buf_text(&text));
}

void check_running(struct examination *x)
{
	struct store_rows rows;
	struct failure f = {0};
	struct unseen u;
	const char *sql = arena_printf(&x->arena, "SELECT 1 FROM %s AS t WHERE (%s) LIMIT 1", x->table,
	                               x->watch->running.text);
	defib_err err = ask_within(x, sql, &rows, &f);
	if (err && err != DEFIB_TIMEOUT) {
		unclear(x, &f);
		return;
	}
	if (!err && rows.nrows > 0) {
		found(x, FINDING_OK, NULL, "rows match running");
		return;
	}
	unseen_look(x->store, x->watch, &u);
	if (x->store->lost)
		return;
	if (!u.empty)
		report_unmatched(x, &u, !err);
	else if (u.secured)
		found(x, FINDING_WARN, "see the finding about its policies",
		      "no row of table %s can be seen: it is empty, or row-level security hides all of it "
		      "from role %s",
		      x->watch->table, x->role);
	else
		found(x, FINDING_OK, NULL, "table %s is empty", x->watch->table);
}
