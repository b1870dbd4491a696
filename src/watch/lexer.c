/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/lexer.h"

#include "store/dialect.h"

#include <assert.h>
#include <ctype.h>
#include <strings.h>

static bool word_start(char c)
{
	return isalpha((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool word_part(char c)
{
	return word_start(c) || isdigit((unsigned char)c) || c == '$';
}

void sql_lexer_init(struct sql_lexer *lx, const char *text, enum store_engine engine)
{
	assert(text != NULL);
	*lx = (struct sql_lexer){.at = text, .engine = engine};
}

/* The end of a quoted text that opens at p; a doubled quote is part of it. NULL: unterminated. */
static const char *quoted_end(const char *p, char close, bool backslash)
{
	for (p++; *p; p++) {
		if (backslash && *p == '\\' && p[1]) {
			p++;
		} else if (*p == close) {
			if (p[1] != close)
				return p + 1;
			p++;
		}
	}
	return NULL;
}

/* $tag$…$tag$: the end, NULL if unterminated, or p itself if it is not a dollar quote. */
static const char *dollar_end(const char *p)
{
	const char *tag_end = p + 1;
	if (*tag_end != '$' && !word_start(*tag_end))
		return p;
	while (*tag_end && *tag_end != '$' && word_part(*tag_end))
		tag_end++;
	if (*tag_end != '$')
		return p;
	size_t tag_len = (size_t)(tag_end - p) + 1;
	for (const char *q = tag_end + 1; *q; q++)
		if (*q == '$' && strncmp(q, p, tag_len) == 0)
			return q + tag_len;
	return NULL;
}

/* PostgreSQL nests block comments, SQLite does not. */
static const char *comment_end(const char *p, bool nested)
{
	int depth = 0;
	for (; *p; p++) {
		if (p[0] == '/' && p[1] == '*' && (depth == 0 || nested)) {
			depth++;
			p++;
		} else if (p[0] == '*' && p[1] == '/') {
			p++;
			if (--depth == 0)
				return p + 1;
		}
	}
	return NULL;
}

static const char *space_end(const char *p, enum store_engine engine, bool *open_ended)
{
	bool nests = dialect_of(engine)->words.nests_comments;
	for (;;) {
		if (isspace((unsigned char)*p)) {
			p++;
		} else if (p[0] == '-' && p[1] == '-') {
			p += strcspn(p, nests ? "\n\r" : "\n");
		} else if (p[0] == '/' && p[1] == '*') {
			const char *end = comment_end(p, nests);
			if (!end) {
				*open_ended = true;
				return p + strlen(p);
			}
			p = end;
		} else {
			return p;
		}
	}
}

static const char *param_end(const char *p)
{
	for (p++; word_part(*p); p++)
		;
	if (p[0] == '.' && word_start(p[1]))
		for (p++; word_part(*p); p++)
			;
	return p;
}

/* Strings and quoted names; type stays SQL_PUNCT if p opens none. */
static const char *quote_token(struct sql_lexer *lx, enum sql_token_type *type)
{
	const char *p = lx->at;
	const struct dialect *d = dialect_of(lx->engine);
	if (*p == '\'') {
		*type = SQL_STRING;
		return quoted_end(p, '\'', false);
	}
	if (d->words.has_escape_strings && (*p == 'e' || *p == 'E') && p[1] == '\'') {
		*type = SQL_STRING;
		return quoted_end(p + 1, '\'', true);
	}
	if (*p == '"' || (d->words.has_other_quotes && *p == '`')) {
		*type = SQL_NAME;
		return quoted_end(p, *p, false);
	}
	if (d->words.has_other_quotes && *p == '[') {
		*type = SQL_NAME;
		const char *end = strchr(p, ']');
		return end ? end + 1 : NULL;
	}
	if (d->words.has_escape_strings && *p == '$') {
		const char *end = dollar_end(p);
		if (end != p)
			*type = SQL_STRING;
		return end == p ? p + 1 : end;
	}
	return p + 1;
}

static const char *word_end(const char *p)
{
	while (word_part(*p) || (isdigit((unsigned char)*p)))
		p++;
	return p;
}

struct sql_token sql_next(struct sql_lexer *lx)
{
	const char *p = lx->at, *end;
	enum sql_token_type type = SQL_PUNCT;
	bool open_ended = false;
	if (*p == '\0')
		return (struct sql_token){SQL_END, p, 0};
	end = space_end(p, lx->engine, &open_ended);
	if (end != p) {
		type = open_ended ? SQL_OPEN_ENDED : SQL_SPACE;
	} else if (p[0] == ':' && p[1] == ':') {
		type = SQL_CAST;
		end = p + 2;
	} else if (p[0] == ':' && word_start(p[1])) {
		type = SQL_PARAM;
		end = param_end(p);
	} else {
		end = quote_token(lx, &type);
		if (end == NULL) {
			type = SQL_OPEN_ENDED;
			end = p + strlen(p);
		} else if (type == SQL_PUNCT && (word_start(*p) || isdigit((unsigned char)*p))) {
			type = SQL_WORD;
			end = word_end(p);
		}
	}
	lx->at = end;
	return (struct sql_token){type, p, (size_t)(end - p)};
}

/* How a token changes the nesting of parentheses. */
static int nesting(struct sql_token t)
{
	if (t.type != SQL_PUNCT)
		return 0;
	if (*t.text == '(' || *t.text == '[')
		return 1;
	return *t.text == ')' || *t.text == ']' ? -1 : 0;
}

bool sql_is_mark(struct sql_token t, char c)
{
	return t.type == SQL_PUNCT && *t.text == c;
}

/* $1, ?, @x: they would refer to the values that our own statements bind. */
static bool is_foreign_param(struct sql_token t, enum store_engine engine)
{
	return t.type == SQL_PUNCT && strchr(dialect_of(engine)->words.marks, *t.text);
}

bool sql_names(const char *text, enum store_engine engine, const char *name)
{
	struct sql_lexer lx;
	struct sql_token t;
	size_t len = strlen(name);
	sql_lexer_init(&lx, text, engine);
	do {
		t = sql_next(&lx);
		if (t.type == SQL_WORD && t.len == len && strncasecmp(t.text, name, len) == 0)
			return true;
		if (t.type == SQL_NAME && t.len == len + 2 && strncmp(t.text + 1, name, len) == 0)
			return true;
	} while (t.type != SQL_END && t.type != SQL_OPEN_ENDED);
	return false;
}

static bool is_one_of(struct sql_token t, const char *const *words)
{
	for (; *words; words++)
		if (sql_is_word(t, *words))
			return true;
	return false;
}

/* From behind its first word to its closing parenthesis, or to the end. */
static void read_subselect(struct sql_lexer *lx, struct buf *rows, bool *apart)
{
	static const char *const behind[] = {"group", "having", "order", "limit", "offset",
	                                     "fetch", "window", "for",   NULL};
	static const char *const several[] = {"union", "intersect", "except", NULL};
	struct sql_token t, before = {SQL_END, NULL, 0};
	const char *from = NULL, *end = NULL;
	int depth = 0;
	for (t = sql_next(lx); t.type != SQL_END; t = sql_next(lx)) {
		if (sql_is_mark(t, ')') && depth-- == 0)
			break;
		depth += sql_is_mark(t, '(');
		if (t.type == SQL_SPACE)
			continue;
		bool top = depth == 0;
		if (top && !from && sql_is_word(t, "from") && !sql_is_word(before, "distinct"))
			from = t.text;
		if (top && from && !end && is_one_of(t, behind))
			end = t.text;
		*apart = *apart || (top && is_one_of(t, several));
		before = t;
	}
	end = end ? end : t.text;
	if (from)
		buf_add(rows, "SELECT 1 ");
	if (from)
		buf_addn(rows, from, end ? (size_t)(end - from) : strlen(from));
}

bool sql_next_subselect(const char **at, enum store_engine engine, struct buf *rows, bool *apart)
{
	static const char *const lists[] = {"in", "any", "some", "all", NULL};
	struct sql_lexer lx;
	struct sql_token t, open = {SQL_END, NULL, 0}, before = open;
	sql_lexer_init(&lx, *at, engine);
	buf_clear(rows);
	*apart = false;
	for (t = sql_next(&lx); t.type != SQL_END; t = sql_next(&lx)) {
		if (t.type == SQL_SPACE)
			continue;
		bool with = sql_is_word(t, "with");
		if (sql_is_mark(open, '(') && (with || sql_is_word(t, "select"))) {
			*apart = with || is_one_of(before, lists);
			read_subselect(&lx, rows, apart);
			*at = lx.at;
			return true;
		}
		before = open;
		open = t;
	}
	return false;
}

defib_err sql_check(const char *text, enum store_engine engine, struct failure *f)
{
	struct sql_lexer lx;
	struct sql_token t;
	int depth = 0;
	bool ended = false, any = false;
	sql_lexer_init(&lx, text, engine);
	while ((t = sql_next(&lx)).type != SQL_END) {
		if (t.type == SQL_SPACE)
			continue;
		if (t.type == SQL_OPEN_ENDED)
			return fail(f, DEFIB_CONFIG, "a quote or comment is never closed: %.40s", t.text);
		if (is_foreign_param(t, engine))
			return fail(f, DEFIB_CONFIG, "parameters are names, write :name: %.40s", t.text);
		if (ended)
			return fail(f, DEFIB_CONFIG, "more than one statement: %.40s", t.text);
		any = true;
		ended = sql_is_mark(t, ';');
		depth += nesting(t);
		if (depth < 0)
			return fail(f, DEFIB_CONFIG, "a parenthesis is closed that was never opened: %.40s",
			            t.text);
	}
	if (depth > 0)
		return fail(f, DEFIB_CONFIG, "a parenthesis is never closed");
	if (!any)
		return fail(f, DEFIB_CONFIG, "it is empty");
	return DEFIB_OK;
}

bool sql_is_word(struct sql_token t, const char *word)
{
	return t.type == SQL_WORD && t.len == strlen(word) && strncasecmp(t.text, word, t.len) == 0;
}

/* The kind of a statement, by its first words. */
enum statement_head { HEAD_START, HEAD_CREATE, HEAD_TRIGGER, HEAD_OTHER };

static enum statement_head read_head(enum statement_head head, struct sql_token t)
{
	if (head == HEAD_START)
		return sql_is_word(t, "CREATE") ? HEAD_CREATE : HEAD_OTHER;
	if (head != HEAD_CREATE || sql_is_word(t, "TEMP") || sql_is_word(t, "TEMPORARY"))
		return head;
	return sql_is_word(t, "TRIGGER") ? HEAD_TRIGGER : HEAD_OTHER;
}

/*
 * A trigger of SQLite contains statements, each with its `;`, and ends at the `;` after an END that
 * follows one. PostgreSQL's triggers call a function.
 */
struct lexed_statement {
	enum statement_head head;
	bool part_ended, closed; /* the previous token was a `;` inside; was that END */
};

static bool ends_statement(struct lexed_statement *s, struct sql_token t)
{
	bool semicolon = sql_is_mark(t, ';');
	if (t.type == SQL_SPACE)
		return false;
	if (semicolon && (s->head != HEAD_TRIGGER || s->closed))
		return true;
	s->head = read_head(s->head, t);
	s->closed = s->part_ended && sql_is_word(t, "END");
	s->part_ended = semicolon;
	return false;
}

bool sql_next_statement(const char **at, enum store_engine engine, struct buf *out)
{
	struct sql_lexer lx;
	struct sql_token t;
	struct lexed_statement s = {.head =
	                                dialect_of(engine)->words.has_bodies ? HEAD_START : HEAD_OTHER};
	buf_clear(out);
	sql_lexer_init(&lx, *at, engine);
	while ((t = sql_next(&lx)).type != SQL_END) {
		if (out->len == 0 && (t.type == SQL_SPACE || sql_is_mark(t, ';')))
			continue;
		if (ends_statement(&s, t))
			break;
		buf_addn(out, t.text, t.len);
	}
	*at = lx.at;
	return out->len > 0;
}

defib_err sql_render(const char *text, enum store_engine engine, sql_param_fn param, void *ctx,
                     struct buf *out, struct failure *f)
{
	struct sql_lexer lx;
	struct sql_token t;
	sql_lexer_init(&lx, text, engine);
	while ((t = sql_next(&lx)).type != SQL_END) {
		if (t.type == SQL_PARAM) {
			AUTO_BUF name = BUF_INIT;
			buf_addn(&name, t.text + 1, t.len - 1);
			bool known = param(ctx, buf_text(&name), out);
			if (!known)
				fail(f, DEFIB_CONFIG, "unknown parameter :%s", buf_text(&name));
			if (!known)
				return DEFIB_CONFIG;
		} else {
			buf_addn(out, t.text, t.len);
		}
	}
	return DEFIB_OK;
}

char *sql_name(struct arena *a, struct sql_token t)
{
	if (t.type == SQL_WORD)
		return arena_strndup(a, t.text, t.len);
	char *name = arena_strndup(a, t.text + 1, t.len - 2), *to = name;
	char quote = *t.text; /* in [brackets] nothing is doubled */
	for (const char *from = name; *from; from++) {
		*to++ = *from;
		if (quote != '[' && *from == quote && from[1] == quote)
			from++;
	}
	*to = '\0';
	return name;
}

struct targets {
	struct arena *arena;
	const char **names;
	int n, cap;
};

static void targets_add(struct targets *list, struct sql_token t)
{
	if (list->n == list->cap) {
		int cap = list->cap ? list->cap * 2 : 8;
		const char **grown = ARENA_ARRAY(list->arena, const char *, cap);
		for (int i = 0; i < list->n; i++)
			grown[i] = list->names[i];
		list->names = grown;
		list->cap = cap;
	}
	list->names[list->n++] = sql_name(list->arena, t);
}

defib_err sql_set_targets(const char *text, enum store_engine engine, struct arena *a,
                          const char ***names, int *n, struct failure *f)
{
	struct sql_lexer lx;
	struct sql_token t, last = {SQL_END, NULL, 0};
	struct targets found = {.arena = a};
	int depth = 0, from = 0;
	bool in_value = false;
	defib_err err = sql_check(text, engine, f);
	if (err)
		return err;
	sql_lexer_init(&lx, text, engine);
	while ((t = sql_next(&lx)).type != SQL_END) {
		if (t.type == SQL_SPACE)
			continue;
		depth += nesting(t);
		if (in_value) {
			if (depth == 0 && sql_is_mark(t, ',')) {
				in_value = false;
				from = found.n;
			}
		} else if (t.type == SQL_WORD || t.type == SQL_NAME) {
			if (last.type == SQL_WORD || last.type == SQL_NAME)
				break;
			targets_add(&found, t);
		} else if (sql_is_mark(t, '=') && found.n > from) {
			in_value = true;
		} else if (!sql_is_mark(t, ',') && !sql_is_mark(t, '(') && !sql_is_mark(t, ')')) {
			break;
		}
		last = t;
	}
	if (t.type != SQL_END || !in_value)
		return fail(f, DEFIB_CONFIG, "not a SET list (column = value, …) near: %.40s", t.text);
	*names = found.names;
	*n = found.n;
	return DEFIB_OK;
}

bool sql_next_assignment(const char **at, enum store_engine engine, struct arena *a,
                         const char **column, const char **text)
{
	struct sql_lexer lx;
	struct sql_token t;
	struct targets found = {.arena = a};
	const char *from = *at;
	int depth = 0;
	bool in_value = false;
	if (!*from)
		return false;
	sql_lexer_init(&lx, from, engine);
	while ((t = sql_next(&lx)).type != SQL_END &&
	       !(depth == 0 && in_value && sql_is_mark(t, ','))) {
		depth += nesting(t);
		if (!in_value && (t.type == SQL_WORD || t.type == SQL_NAME))
			targets_add(&found, t);
		in_value = in_value || sql_is_mark(t, '=');
	}
	*column = found.n == 1 ? found.names[0] : NULL;
	*text = arena_printf(a, "%.*s", (int)(t.text - from), from);
	*at = t.type == SQL_END ? t.text : t.text + t.len;
	return true;
}

#define SPACES " \t\r\n"

bool sql_assigns_parameter(const char *assignment)
{
	const char *value = strchr(assignment, '=');
	if (!value)
		return false;
	value += 1 + strspn(value + 1, SPACES);
	if (*value != ':')
		return false;
	value += 1 + strspn(value + 1, "abcdefghijklmnopqrstuvwxyz_");
	return value[strspn(value, SPACES)] == '\0';
}
