/* SPDX-License-Identifier: Apache-2.0 */
#include "store/dialect.h"

#include "store/sql.h"

#include <assert.h>
#include <ctype.h>

#define ARGUMENTS_MAX 3 /* per piece */

const struct dialect *dialect_of(enum store_engine engine)
{
	static const struct dialect *const all[] = {
		[STORE_POSTGRES] = &dialect_postgres,
		[STORE_SQLITE] = &dialect_sqlite,
	};
	return all[engine];
}

static bool dialect_is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static const char *dialect_piece_text(const struct dialect *d, const char *name, size_t n)
{
	for (const struct dialect_piece *p = d->pieces; p->name; p++)
		if (strlen(p->name) == n && memcmp(p->name, name, n) == 0)
			return p->text;
	assert(!"a piece that the engine's dialect has");
	return "";
}

/* Past the brace that closes what `at` is in. */
static const char *closing(const char *at)
{
	for (int depth = 1; depth > 0; at++) {
		assert(*at);
		depth += (*at == '{') - (*at == '}');
	}
	return at;
}

/* The bar after an argument, not one of a nested piece; `end`: it is the last argument. */
static const char *argument_end(const char *at, const char *end)
{
	for (int depth = 0; at < end && (depth > 0 || *at != '|'); at++)
		depth += (*at == '{') - (*at == '}');
	return at;
}

static void add_part(const struct dialect *d, struct buf *out, const char *text, const char *end);

/* "piece x|y}": returns the position after it. */
static const char *dialect_add_piece(const struct dialect *d, struct buf *out, const char *at)
{
	const char *end = closing(at) - 1;
	size_t n = strcspn(at, " }");
	struct {
		const char *from, *to;
	} args[ARGUMENTS_MAX] = {{at + n + (at[n] == ' '), end}};
	for (int i = 1; i < ARGUMENTS_MAX; i++) {
		args[i - 1].to = argument_end(args[i - 1].from, end);
		args[i].from = args[i - 1].to < end ? args[i - 1].to + 1 : end;
		args[i].to = end;
	}
	for (const char *text = dialect_piece_text(d, at, n); *text; text++)
		if (*text > 0 && *text <= ARGUMENTS_MAX)
			add_part(d, out, args[*text - 1].from, args[*text - 1].to);
		else
			buf_addch(out, *text);
	return end + 1;
}

/* Past "::type" and "::type[]". */
static const char *past_cast(const char *at)
{
	for (at += 2; dialect_is_word(*at); at++)
		;
	return text_starts(at, "[]") ? at + 2 : at;
}

static void add_part(const struct dialect *d, struct buf *out, const char *text, const char *end)
{
	char before = ' ';
	for (const char *at = text; at < end; before = at[-1]) {
		if (*at == '\'') {
			size_t n = strcspn(at + 1, "'") + 2;
			buf_addn(out, at, n);
			at += n;
		} else if (*at == '{' && islower((unsigned char)at[1])) {
			at = dialect_add_piece(d, out, at + 1);
		} else if (*at == '$' && isdigit((unsigned char)at[1])) {
			buf_addch(out, d->mark);
			at++;
		} else if (!d->has_types && text_starts(at, "::")) {
			at = past_cast(at);
		} else if (!dialect_is_word(before) && text_starts(at, "defib.")) {
			buf_add(out, d->own);
			at += strlen("defib.");
		} else {
			buf_addch(out, *at++);
		}
	}
}

void dialect_add(const struct dialect *d, struct buf *out, const char *text)
{
	add_part(d, out, text, text + strlen(text));
}

void dialect_addf(const struct dialect *d, struct buf *out, const char *format, ...)
{
	AUTO_BUF text = BUF_INIT;
	va_list args;
	va_start(args, format);
	buf_vaddf(&text, format, args);
	va_end(args);
	dialect_add(d, out, buf_text(&text));
}

const char *dialect_text(const struct dialect *d, const char *piece)
{
	return dialect_piece_text(d, piece, strlen(piece));
}

void dialect_cast(const struct dialect *d, struct buf *out, const char *expression,
                  const char *type)
{
	if (d->has_types)
		buf_addf(out, "(%s)::%s", expression, type);
	else
		buf_addf(out, "CAST((%s) AS %s)", expression, text_eq(type, "bigint") ? "INTEGER" : "TEXT");
}

const char *dialect_sql(const struct dialect *d, struct arena *a, const char *text)
{
	struct buf out = BUF_INIT;
	dialect_add(d, &out, text);
	return buf_to_arena(&out, a);
}

typedef defib_err runner(struct store *, const char *, const struct store_param *, int,
                         struct arena *, struct store_rows *, struct failure *);

static defib_err dialect_run(runner *how, struct store *s, const char *text,
                             const struct store_param *params, int nparams, struct arena *a,
                             struct store_rows *rows, struct failure *f)
{
	AUTO_BUF sql = BUF_INIT;
	dialect_add(store_dialect(s), &sql, text);
	return how(s, buf_text(&sql), params, nparams, a, rows, f);
}

defib_err dialect_exec(struct store *s, const char *text, const struct store_param *params,
                       int nparams, struct arena *a, struct store_rows *rows, struct failure *f)
{
	return dialect_run(store_exec, s, text, params, nparams, a, rows, f);
}

defib_err dialect_write(struct store *s, const char *text, const struct store_param *params,
                        int nparams, struct arena *a, struct store_rows *rows, struct failure *f)
{
	return dialect_run(store_write, s, text, params, nparams, a, rows, f);
}

defib_err dialect_write_alone(struct store *s, const char *text, const struct store_param *params,
                              int nparams, struct arena *a, struct store_rows *rows,
                              struct failure *f)
{
	return dialect_run(store_dialect(s)->one_writer ? store_write : store_exec, s, text, params,
	                   nparams, a, rows, f);
}

defib_err dialect_int(struct store *s, const char *text, const struct store_param *params,
                      int nparams, int64_t *out, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_rows rows;
	defib_err err = dialect_exec(s, text, params, nparams, &a, &rows, f);
	*out = row_int(&rows, 0, 0, 0);
	return err;
}

defib_err dialect_own_table(struct store *s, const char *table, bool *there, struct failure *f)
{
	AUTO_ARENA a = ARENA_INIT;
	struct store_param params[] = {P_TEXT(table), P_INT(0)};
	struct store_rows rows;
	defib_err err = store_exec(s, store_dialect(s)->ask.own_table, params, 2, &a, &rows, f);
	*there = row_bool(&rows, 0, 0);
	return err;
}

defib_err dialect_home(struct store *s, const char *table, struct arena *a, const char **out,
                       struct failure *f)
{
	AUTO_BUF quoted = BUF_INIT;
	struct store_rows rows;
	*out = table;
	sql_table(&quoted, table);
	if (!store_dialect(s)->ask.home || !s->own_path || strstr(buf_text(&quoted), "\".\""))
		return DEFIB_OK;
	struct store_param params[] = {P_TEXT(s->own_path), P_TEXT(buf_text(&quoted))};
	defib_err err = store_exec(s, store_dialect(s)->ask.home, params, 2, a, &rows, f);
	if (err || rows.nrows == 0)
		return err;
	*out = arena_printf(a, "%s.%s", row_text(&rows, 0, 0), table);
	if (rows.nrows == 1)
		return DEFIB_OK;
	fail(f, DEFIB_CONFIG, "table %s is in schemas %s and %s, where other roles can create tables",
	     table, row_text(&rows, 0, 0), row_text(&rows, 1, 0));
	fail_next(f, "name its schema, such as %s", *out);
	return DEFIB_CONFIG;
}
