/* SPDX-License-Identifier: Apache-2.0 */
#include "setup/table_facts.h"

#include "setup/propose_lines.h"
#include "setup/propose_words.h"
#include "setup/trust.h"
#include "store/dialect.h"
#include "store/sql.h"
#include "watch/lexer.h"
#include "watch/timesql.h"

/* ---- parsing texts of the catalog ---- */

static void table_facts_add_value(struct table_column *c, const char *value, int64_t rows,
                                  struct arena *a)
{
	for (int i = 0; i < c->nvalues; i++)
		if (text_eq(c->values[i].value, value)) {
			c->values[i].rows = rows > c->values[i].rows ? rows : c->values[i].rows;
			return;
		}
	if (!c->values)
		c->values = ARENA_ARRAY(a, struct column_value, TABLE_VALUES_MAX);
	if (c->nvalues < TABLE_VALUES_MAX)
		c->values[c->nvalues++] = (struct column_value){.value = value, .rows = rows};
}

/* The text of a literal whose first quote is at `*at`, which moves past the last. */
static const char *take_literal(const char **at, struct arena *a)
{
	AUTO_BUF out = BUF_INIT;
	const char *p = *at + 1;
	for (; *p; p++) {
		if (*p == '\'' && p[1] != '\'')
			break;
		if (*p == '\'')
			p++;
		buf_addch(&out, *p);
	}
	*at = *p ? p + 1 : p;
	return arena_strdup(a, buf_text(&out));
}

void column_values_from(struct table_column *c, const char *sql, struct arena *a)
{
	for (const char *at = sql; (at = strchr(at, '\'')) != NULL;)
		table_facts_add_value(c, take_literal(&at, a), -1, a);
}

/* The one column that a condition is about; NULL if there is none or several. */
static struct table_column *only_column(const struct table_facts *t, const char *sql)
{
	struct table_column *found = NULL;
	for (int i = 0; i < t->ncolumns; i++)
		if (sql_names(sql, t->engine, t->columns[i].name)) {
			if (found)
				return NULL;
			found = &t->columns[i];
		}
	return found;
}

/* Up to the parenthesis that closes the first one. */
static const char *balanced(const char *sql, struct arena *a)
{
	int depth = 0;
	const char *at = sql;
	for (bool quoted = false; *at; at++) {
		quoted = quoted != (*at == '\'');
		depth += !quoted && *at == '(';
		depth -= !quoted && *at == ')';
		if (!quoted && *at == ')' && depth == 0)
			break;
	}
	return arena_strndup(a, sql, (size_t)(at - sql));
}

void declared_values(struct table_facts *t, const char *sql, struct arena *a)
{
	static const char *const starts[] = {"CHECK", "WHERE"};
	for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
		for (const char *at = sql; (at = strcasestr(at, starts[i])) != NULL;) {
			at += strlen(starts[i]);
			const char *condition = i == 0 ? balanced(at, a) : at;
			struct table_column *c = only_column(t, condition);
			if (c)
				column_values_from(c, condition, a);
		}
}

const char *default_value(const char *sql, struct arena *a)
{
	static const char *const clocks[] = {"CURRENT_TIMESTAMP", "datetime('now'", "strftime(",
	                                     "now()"};
	if (!sql)
		return NULL;
	for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++)
		if (strcasestr(sql, clocks[i]))
			return "CURRENT_TIMESTAMP";
	const char *at = sql + strspn(sql, "( ");
	if (*at == '\'')
		return take_literal(&at, a);
	size_t digits = strspn(at, "-0123456789");
	return digits && strspn(at + digits, ") ") == strlen(at + digits) ? arena_strndup(a, at, digits)
	                                                                  : NULL;
}

struct table_column *facts_column(const struct table_facts *t, const char *name)
{
	for (int i = 0; i < t->ncolumns; i++)
		if (text_eq(t->columns[i].name, name))
			return &t->columns[i];
	return NULL;
}

/* ---- the catalog ---- */

const char *catalog_name(enum store_engine engine, const char *table, struct arena *a)
{
	AUTO_BUF out = BUF_INIT;
	dialect_of(engine)->catalog_name(&out, table);
	return arena_strdup(a, buf_text(&out));
}

static defib_err table_facts_ask(struct store *s, const char *sql, const struct table_facts *t,
                                 struct arena *a, struct store_rows *rows, struct failure *f)
{
	struct store_param name = P_TEXT(catalog_name(s->engine, t->table, a));
	return store_exec(s, sql, &name, 1, a, rows, f);
}

static defib_err no_such_table(struct store *s, const char *table, struct arena *a,
                               struct failure *f)
{
	struct store_rows rows;
	struct failure ignored = {0};
	fail(f, DEFIB_USAGE, "there is no table \"%s\" in %s", table, s->name);
	if (store_exec(s, dialect_of(s->engine)->catalog.tables, NULL, 0, a, &rows, &ignored) ==
	    DEFIB_OK) {
		const char **names = ARENA_ARRAY(a, const char *, rows.nrows + 1);
		for (int i = 0; i < rows.nrows; i++)
			names[i] = row_text(&rows, i, 0);
		if (!fail_nearest(f, table, names))
			fail_next(f, "defib init --detect looks at all of them");
	}
	return f->code;
}

static enum column_class class_of(const char *word)
{
	static const char *const words[] = {
		[CLASS_OTHER] = "other", [CLASS_TEXT] = "text",       [CLASS_NUMBER] = "number",
		[CLASS_BOOL] = "bool",   [CLASS_INSTANT] = "instant", [CLASS_NAIVE] = "naive",
		[CLASS_LIST] = "list",
	};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (text_eq(words[i], word))
			return (enum column_class)i;
	return CLASS_OTHER;
}

static defib_err table_facts_read_columns(struct store *s, struct arena *a, struct table_facts *t,
                                          struct failure *f)
{
	struct store_rows rows;
	defib_err err = table_facts_ask(s, dialect_of(s->engine)->catalog.columns, t, a, &rows, f);
	if (err)
		return err;
	t->ncolumns = rows.nrows;
	t->columns = ARENA_ARRAY(a, struct table_column, rows.nrows + 1);
	for (int i = 0; i < rows.nrows; i++)
		t->columns[i] = (struct table_column){
			.name = row_text(&rows, i, 0),
			.type = row_text(&rows, i, 1),
			.class = class_of(row_text(&rows, i, 2)),
			.nullable = row_bool(&rows, i, 3),
			.standard = default_value(row_text(&rows, i, 4), a),
		};
	return DEFIB_OK;
}

static defib_err read_key(struct store *s, struct arena *a, struct table_facts *t,
                          struct failure *f)
{
	struct store_rows rows;
	defib_err err = table_facts_ask(s, dialect_of(s->engine)->catalog.key, t, a, &rows, f);
	if (err || rows.nrows > WATCH_KEYS_MAX)
		return err;
	for (int i = 0; i < rows.nrows; i++) {
		t->keys[t->nkeys++] = row_text(&rows, i, 0);
		t->key_primary = row_bool(&rows, i, 1);
	}
	return DEFIB_OK;
}

static defib_err read_declared(struct store *s, struct arena *a, struct table_facts *t,
                               struct failure *f)
{
	struct store_rows rows;
	defib_err err = table_facts_ask(s, dialect_of(s->engine)->catalog.declared, t, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		const char *name = row_text(&rows, i, 0);
		struct table_column *c = name ? facts_column(t, name) : NULL;
		if (c)
			column_values_from(c, row_text(&rows, i, 1), a);
		else if (!name)
			declared_values(t, row_text(&rows, i, 1), a);
	}
	return err;
}

/* ---- rows, as far as they are read ---- */

/* "FROM table" that returns at most TABLE_ROWS_EXACT rows, the newest ones or a spread. */
static void from_some(const struct table_facts *t, const char *columns, struct buf *sql)
{
	buf_addf(sql, "FROM (SELECT %s FROM ", columns);
	sql_table(sql, t->table);
	if (t->sampled && dialect_of(t->engine)->has_page_samples && !t->view)
		buf_addf(sql, " TABLESAMPLE SYSTEM (%.6f)", 100.0 * TABLE_ROWS_EXACT / (double)t->rows);
	else if (t->sampled && !t->view)
		buf_add(sql, " ORDER BY rowid DESC");
	buf_addf(sql, " LIMIT %d) AS defib_some", TABLE_ROWS_EXACT);
}

static defib_err count_rows(struct store *s, struct arena *a, struct table_facts *t,
                            int64_t estimate, struct failure *f)
{
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows;
	buf_add(&sql, "SELECT count(*) FROM (SELECT 1 FROM ");
	sql_table(&sql, t->table);
	buf_addf(&sql, " LIMIT %d) AS defib_some", TABLE_ROWS_EXACT + 1);
	defib_err err = store_exec(s, buf_text(&sql), NULL, 0, a, &rows, f);
	if (err)
		return err;
	t->rows = row_int(&rows, 0, 0, 0);
	t->sampled = t->rows > TABLE_ROWS_EXACT;
	if (t->sampled && estimate > t->rows)
		t->rows = estimate;
	return DEFIB_OK;
}

bool facts_is_key(const struct table_facts *t, const struct table_column *c)
{
	for (int i = 0; i < t->nkeys; i++)
		if (text_eq(t->keys[i], c->name))
			return true;
	return false;
}

/* A column that may show which rows are running. */
static bool may_be_state(const struct table_facts *t, const struct table_column *c)
{
	bool holds = c->class == CLASS_TEXT || c->class == CLASS_NUMBER;
	return holds && !facts_is_key(t, c) && (c->nvalues > 0 || word_rank(words_state, c->name) >= 0);
}

static defib_err table_facts_read_values(struct store *s, struct arena *a,
                                         const struct table_facts *t, struct table_column *c,
                                         struct failure *f)
{
	AUTO_BUF sql = BUF_INIT, name = BUF_INIT;
	struct store_rows rows;
	sql_ident(&name, c->name);
	buf_addf(&sql, "SELECT CAST(%s AS TEXT), count(*) ", buf_text(&name));
	from_some(t, buf_text(&name), &sql);
	buf_addf(&sql, " GROUP BY 1 ORDER BY 2 DESC LIMIT %d", TABLE_VALUES_MAX + 1);
	defib_err err = store_exec(s, buf_text(&sql), NULL, 0, a, &rows, f);
	if (err || rows.nrows > TABLE_VALUES_MAX)
		return err;
	for (int i = 0; i < rows.nrows; i++)
		if (row_text(&rows, i, 0))
			table_facts_add_value(c, row_text(&rows, i, 0), row_int(&rows, i, 1, 0), a);
	for (int i = 0; i < c->nvalues; i++)
		if (c->values[i].rows < 0 && !t->sampled)
			c->values[i].rows = 0; /* all rows were read */
	return DEFIB_OK;
}

/* Times and counts whose contents show whether the name is right. */
static bool is_judged(const struct table_column *c)
{
	static const char *const *const sets[] = {words_beat,     words_lease,    words_lock,
	                                          words_handed,   words_updated,  words_started,
	                                          words_deadline, words_finished, words_attempts};
	if (c->class == CLASS_BOOL || c->class == CLASS_LIST)
		return false;
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
		if (word_rank(sets[i], c->name) >= 0)
			return true;
	return false;
}

static defib_err read_newest(struct store *s, struct arena *a, const struct table_facts *t,
                             struct table_column *c, struct failure *f)
{
	AUTO_BUF sql = BUF_INIT, name = BUF_INIT;
	struct store_rows rows;
	sql_ident(&name, c->name);
	buf_addf(&sql, "SELECT CAST(max(%s) AS TEXT), count(%s) ", buf_text(&name), buf_text(&name));
	from_some(t, buf_text(&name), &sql);
	defib_err err = store_exec(s, buf_text(&sql), NULL, 0, a, &rows, f);
	if (!err) {
		c->newest = row_text(&rows, 0, 0);
		c->filled = row_int(&rows, 0, 1, 0);
		c->counted = true;
	}
	return err;
}

static defib_err table_facts_read_rows(struct store *s, struct arena *a, struct table_facts *t,
                                       struct failure *f)
{
	defib_err err = DEFIB_OK;
	for (int i = 0; !err && i < t->ncolumns; i++) {
		struct table_column *c = &t->columns[i];
		if (may_be_state(t, c)) {
			if (c->standard)
				table_facts_add_value(c, c->standard, -1, a); /* rows begin with it */
			err = table_facts_read_values(s, a, t, c, f);
		}
		if (!err && is_judged(c))
			err = read_newest(s, a, t, c, f);
	}
	return err;
}

/* Two results for each judged column: how many rows have it, and its smallest value as a number. */
static void ask_in_work(const struct table_facts *t, const char *running, struct buf *sql)
{
	buf_add(sql, "SELECT count(*)");
	for (int i = 0; i < t->ncolumns; i++) {
		AUTO_BUF name = BUF_INIT;
		if (!t->columns[i].counted)
			continue;
		sql_ident(&name, t->columns[i].name);
		buf_addf(sql, ", count(%s)", buf_text(&name));
		if (t->columns[i].class == CLASS_NUMBER)
			buf_addf(sql, ", CAST(min(coalesce(%s, 0)) AS BIGINT)", buf_text(&name));
		else
			buf_add(sql, ", 0");
	}
	buf_add(sql, " FROM (SELECT t.* FROM ");
	sql_table(sql, t->table);
	buf_addf(sql, " AS t WHERE (%s) LIMIT %d) AS defib_some", running, TABLE_ROWS_EXACT);
}

void table_facts_in_work(struct store *s, struct table_facts *t, const char *running,
                         struct arena *a)
{
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows;
	struct failure slow = {0};
	ask_in_work(t, running, &sql);
	if (store_exec(s, buf_text(&sql), NULL, 0, a, &rows, &slow) == DEFIB_OK) {
		int at = 1;
		t->counted_in_work = true;
		t->in_work = row_int(&rows, 0, 0, 0);
		for (int i = 0; i < t->ncolumns; i++) {
			struct table_column *c = &t->columns[i];
			if (!c->counted)
				continue;
			c->in_work = row_int(&rows, 0, at, 0);
			c->least_in_work = row_int(&rows, 0, at + 1, 0);
			at += 2;
		}
	}
}

/* ---- related tables ---- */

/* The names of codes: 6 is OCR_PROCESSING in the table that status_id points to. */
static defib_err read_labels(struct store *s, struct arena *a, const struct table_facts *there,
                             const char *key, struct table_column *c, struct failure *f)
{
	static const char *const names[] = {"name",  "label",  "code",        "title",
	                                    "state", "status", "description", NULL};
	const struct table_column *label = column_named(there, names, fits_text);
	AUTO_BUF sql = BUF_INIT;
	struct store_rows rows;
	if (!label || c->class != CLASS_NUMBER || word_rank(words_state, c->name) < 0)
		return DEFIB_OK;
	buf_add(&sql, "SELECT CAST(");
	sql_ident(&sql, key);
	buf_add(&sql, " AS TEXT), CAST(");
	sql_ident(&sql, label->name);
	buf_add(&sql, " AS TEXT) FROM ");
	sql_table(&sql, there->table);
	buf_addf(&sql, " LIMIT %d", TABLE_VALUES_MAX);
	defib_err err = store_exec(s, buf_text(&sql), NULL, 0, a, &rows, f);
	for (int i = 0; !err && i < rows.nrows; i++) {
		table_facts_add_value(c, row_text(&rows, i, 0), 0, a);
		for (int v = 0; v < c->nvalues; v++)
			if (text_eq(c->values[v].value, row_text(&rows, i, 0)))
				c->values[v].label = row_text(&rows, i, 1);
	}
	return err;
}

/* What one foreign key provides: a beat in the other table, or names for our codes. */
static defib_err read_relation(struct store *s, struct arena *a, struct table_facts *t,
                               const struct store_rows *keys, int row, struct failure *f)
{
	struct table_facts there = {.engine = t->engine, .table = row_text(keys, row, 0)};
	const char *their = row_text(keys, row, 1), *our = row_text(keys, row, 2);
	bool points = row_bool(keys, row, 3);
	struct failure refused = {0};
	defib_err err = their && our ? trust_table(s, there.table, false, &refused) : DEFIB_REFUSED;
	if (err == DEFIB_REFUSED)
		return DEFIB_OK;
	if (err)
		*f = refused;
	else
		err = table_facts_read_columns(s, a, &there, f);
	if (err)
		return err;
	const struct table_column *beat = column_named(&there, words_beat, fits_time);
	const struct table_column *owner = column_named(&there, words_owner, fits_owner);
	struct table_column *mine = facts_column(t, our);
	if (beat)
		t->related[t->nrelated++] = (struct related_table){
			.table = there.table,
			.their_column = their,
			.our_column = our,
			.beat = beat->name,
			.owner = owner ? owner->name : NULL,
			.beat_class = beat->class,
			.workers = points,
		};
	return points && mine ? read_labels(s, a, &there, their, mine, f) : DEFIB_OK;
}

static defib_err read_related(struct store *s, struct arena *a, struct table_facts *t,
                              struct failure *f)
{
	struct store_rows rows;
	defib_err err = table_facts_ask(s, dialect_of(s->engine)->catalog.foreign_keys, t, a, &rows, f);
	if (err)
		return err;
	t->related = ARENA_ARRAY(a, struct related_table, rows.nrows + 1);
	for (int i = 0; !err && i < rows.nrows; i++)
		err = read_relation(s, a, t, &rows, i, f);
	return err;
}

static defib_err read_clock(struct store *s, struct arena *a, struct table_facts *t,
                            struct failure *f)
{
	struct store_rows rows;
	const char *sql = arena_printf(a, "SELECT %s", sql_now_us(s->engine));
	defib_err err = store_exec(s, sql, NULL, 0, a, &rows, f);
	t->now_us = err ? 0 : row_int(&rows, 0, 0, 0);
	return err;
}

defib_err table_facts_read(struct store *s, const char *table, struct arena *a,
                           struct table_facts *out, struct failure *f)
{
	struct store_rows rows;
	*out = (struct table_facts){.engine = s->engine, .table = table};
	defib_err err = table_facts_ask(s, dialect_of(s->engine)->catalog.relation, out, a, &rows, f);
	if (err)
		return err;
	if (rows.nrows == 0)
		return no_such_table(s, table, a, f);
	out->view = row_bool(&rows, 0, 0);
	err = trust_table(s, table, true, f);
	if (!err)
		err = count_rows(s, a, out, row_int(&rows, 0, 1, 0), f);
	if (!err)
		err = read_clock(s, a, out, f);
	if (!err)
		err = table_facts_read_columns(s, a, out, f);
	if (!err)
		err = read_key(s, a, out, f);
	if (!err)
		err = read_declared(s, a, out, f);
	if (!err)
		err = table_facts_read_rows(s, a, out, f);
	return err ? err : read_related(s, a, out, f);
}
