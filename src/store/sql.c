/* SPDX-License-Identifier: Apache-2.0
 * sql.c: examines SQL without parsing it: its first word, words that write, whether anything is
 * left after a statement, and the quoting of names.
 *
 * There is deliberately no parser here. The database parses; we only need to know what a lost reply
 * may mean, and that only our code controls transactions.
 */

#include "store/sql.h"

#include "store/store.h"

#include <assert.h>
#include <ctype.h>
#include <strings.h>

static const char *skip_block_comment(const char *at)
{
	int depth = 0;
	/* PostgreSQL nests these, SQLite does not; there a nested opening is a rare oddity. */
	while (*at != '\0') {
		if (at[0] == '/' && at[1] == '*') {
			depth++;
			at += 2;
		} else if (at[0] == '*' && at[1] == '/') {
			at += 2;
			if (--depth == 0)
				break;
		} else {
			at++;
		}
	}
	return at;
}

/* Past white space, comments and the characters in `also`. */
static const char *skip_blank(const char *at, const char *also)
{
	for (;;)
		if (at[0] == '-' && at[1] == '-')
			at += strcspn(at, "\n");
		else if (at[0] == '/' && at[1] == '*')
			at = skip_block_comment(at);
		else if (*at != '\0' && (isspace((unsigned char)*at) || strchr(also, *at)))
			at++;
		else
			return at;
}

static bool is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (c & 0x80) != 0;
}

static size_t word_length(const char *at)
{
	size_t n = 0;
	while (is_word_char(at[n]))
		n++;
	return n;
}

static bool word_among(const char *word, size_t n, const char *const *list)
{
	for (; *list; list++)
		if (strlen(*list) == n && strncasecmp(word, *list, n) == 0)
			return true;
	return false;
}

bool sql_controls_transaction(const char *sql)
{
	static const char *const words[] = {"begin",    "start",   "commit",  "end",       "abort",
	                                    "rollback", "prepare", "release", "savepoint", NULL};
	const char *first = skip_blank(sql, ";");
	return word_among(first, word_length(first), words);
}

bool sql_only_reads(const char *sql)
{
	static const char *const queries[] = {"select", "with",    "values", "show",
	                                      "table",  "explain", "pragma", NULL};
	static const char *const writes[] = {"insert", "update", "delete", "merge",
	                                     "into",   "call",   NULL};
	const char *at = skip_blank(sql, ";(");
	if (!word_among(at, word_length(at), queries))
		return false;
	/* Words in strings and comments count too, which only makes the result more cautious. */
	while (*at != '\0') {
		size_t n = word_length(at);
		if (n > 0 && word_among(at, n, writes))
			return false;
		at += n > 0 ? n : 1;
	}
	return true;
}

bool sql_is_blank(const char *sql)
{
	return *skip_blank(sql, ";") == '\0';
}

static void sql_add_quoted(struct buf *out, const char *text, size_t n, char quote)
{
	buf_addch(out, quote);
	for (size_t i = 0; i < n; i++) {
		if (text[i] == quote)
			buf_addch(out, quote);
		buf_addch(out, text[i]);
	}
	buf_addch(out, quote);
}

void sql_ident(struct buf *out, const char *name)
{
	assert(out && name);
	sql_add_quoted(out, name, strlen(name), '"');
}

/* A part that the user already quoted is copied with its quotes. */
static const char *add_quoted_part(struct buf *out, const char *at)
{
	buf_addch(out, *at++);
	while (*at != '\0') {
		if (at[0] == '"' && at[1] == '"') {
			buf_add(out, "\"\"");
			at += 2;
			continue;
		}
		if (*at == '"') {
			at++;
			break;
		}
		buf_addch(out, *at++);
	}
	buf_addch(out, '"');
	return at;
}

void sql_table(struct buf *out, const char *name)
{
	const char *at = name;
	assert(out && name);
	for (;;) {
		if (*at == '"')
			at = add_quoted_part(out, at);
		/* Text after a closing quote without a dot becomes part of the name, and is quoted too. */
		size_t n = strcspn(at, ".");
		if (n > 0 || at == name || at[-1] == '.')
			sql_add_quoted(out, at, n, '"');
		at += n;
		if (*at == '\0')
			return;
		buf_addch(out, *at++);
	}
}

void sql_literal(struct buf *out, const char *text)
{
	assert(out && text);
	sql_add_quoted(out, text, strlen(text), '\'');
}

static const char *sql_piece_text(const struct sql_piece *pieces, const char *name, size_t n)
{
	while (pieces->name && (strlen(pieces->name) != n || strncmp(pieces->name, name, n) != 0))
		pieces++;
	assert(pieces->name && pieces->text);
	return pieces->text;
}

void sql_fill(struct buf *out, const char *part, const struct sql_piece *pieces)
{
	for (const char *at = part, *open; *at; at = open) {
		open = strstr(at, "{{");
		if (!open) {
			buf_add(out, at);
			return;
		}
		const char *name = open + 2, *close = strstr(name, "}}");
		assert(close);
		bool begins_line = open == part || open[-1] == '\n';
		const char *text = sql_piece_text(pieces, name, (size_t)(close - name));
		buf_addn(out, at, (size_t)(open - at));
		buf_add(out, text);
		open = close + 2;
		if (begins_line && !*text && *open == '\n')
			open++;
	}
}
