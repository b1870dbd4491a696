/* SPDX-License-Identifier: Apache-2.0
 * lexer.h: just enough SQL to find parameters in what a user wrote.
 *
 * Users write predicates, SET lists and statements. We replace `:name` with values and leave every
 * other byte unchanged. That requires knowing strings, quoted names, dollar quoting, comments and
 * `::`, and nothing more.
 */
#ifndef WATCH_LEXER_H
#define WATCH_LEXER_H

#include "store/store.h"

enum sql_token_type {
	SQL_END,
	SQL_SPACE, /* white space and comments */
	SQL_WORD,  /* identifier, keyword or number */
	SQL_NAME,  /* quoted identifier */
	SQL_STRING,
	SQL_PARAM,      /* :name or :name.field */
	SQL_CAST,       /* :: */
	SQL_PUNCT,      /* one character */
	SQL_OPEN_ENDED, /* an unterminated string, name or comment */
};

struct sql_token {
	enum sql_token_type type;
	const char *text; /* inside the source */
	size_t len;
};

struct sql_lexer {
	const char *at;
	enum store_engine engine;
};

void sql_lexer_init(struct sql_lexer *lx, const char *text, enum store_engine engine);
struct sql_token sql_next(struct sql_lexer *lx);

/* Whether a token is this bare word, ignoring case, or this character outside quotes. */
bool sql_is_word(struct sql_token t, const char *word);
bool sql_is_mark(struct sql_token t, char c);
/* The name that a word or quoted name denotes, in the case in which it is written. */
char *sql_name(struct arena *a, struct sql_token t);
/* Whether the text contains this word or quoted name: a column, or a keyword in lower case. */
bool sql_names(const char *text, enum store_engine engine, const char *name);

/*
 * The next sub-select of an expression, up to its closing parenthesis; those inside it belong to
 * it. `*at` moves past it; false at the end. `rows` gets a SELECT of the rows that it reads, to
 * which a lock can be added: its FROM and WHERE, without aggregates, order and limit. "": it reads
 * no table. *apart: its rows are not those of one job, or no lock can name them: `x IN (SELECT …)`,
 * WITH, UNION.
 */
bool sql_next_subselect(const char **at, enum store_engine engine, struct buf *rows, bool *apart);

/*
 * Check that text is one expression, SET list or statement: everything
 * closed, parentheses balanced, no `;` except at the very end of a statement.
 */
MUST_CHECK defib_err sql_check(const char *text, enum store_engine engine, struct failure *f);

/*
 * The next statement of a script, up to its `;`, skipping leading space and comments; false at the
 * end. `*at` moves past it.
 */
bool sql_next_statement(const char **at, enum store_engine engine, struct buf *out);

/* Called for each parameter. Appends its replacement, or returns false if it is unknown. */
typedef bool (*sql_param_fn)(void *ctx, const char *name, struct buf *out);

/* Copy `text` to `out` with every parameter replaced. Fails on unknown ones. */
MUST_CHECK defib_err sql_render(const char *text, enum store_engine engine, sql_param_fn param,
                                void *ctx, struct buf *out, struct failure *f);

/*
 * The next assignment of a SET list; false at the end. `*at` moves past it. The column is its name,
 * unquoted; NULL if several are assigned at once.
 */
bool sql_next_assignment(const char **at, enum store_engine engine, struct arena *a,
                         const char **column, const char **text);
/* Whether the value of such an assignment is one parameter (`:now`) and nothing else. */
bool sql_assigns_parameter(const char *assignment);

/*
 * The columns that a SET list assigns, unquoted, in order:
 * `a = 1, "B c" = f(x, y), (d, e) = (1, 2)` gives a, B c, d, e.
 */
MUST_CHECK defib_err sql_set_targets(const char *text, enum store_engine engine, struct arena *a,
                                     const char ***names, int *n, struct failure *f);

#endif
