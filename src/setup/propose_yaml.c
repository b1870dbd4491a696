/* SPDX-License-Identifier: Apache-2.0 */
/* propose_yaml.c: a proposal as YAML that a person reads from top to bottom. */
#include "setup/propose.h"

#include "base/text.h"

#include <ctype.h>

#define WIDTH 92

/* Words that YAML, or a person, would take for something else than text. */
static bool plain_is_safe(const char *text)
{
	if (!*text || text[strlen(text) - 1] == ' ' || text[strlen(text) - 1] == ':')
		return false;
	if (!isalnum((unsigned char)*text) && *text != '_' && *text != '(' && *text != '/')
		return false;
	for (const char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || (unsigned char)*at >= 0x7f ||
		    (*at == ':' && at[1] == ' ') || (*at == ' ' && at[1] == '#') ||
		    (*at == '$' && at[1] == '{'))
			return false;
	return true;
}

/* Escapes of JSON are escapes of YAML, which also wants DEL and U+0080 to U+009F escaped. */
static void add_quoted(const char *text, struct buf *out)
{
	struct buf json = BUF_INIT;
	buf_add_json(&json, text);
	for (const char *at = buf_text(&json); *at; at++) {
		unsigned char byte = (unsigned char)*at, next = (unsigned char)at[1];
		if (byte == 0x7f || (byte == 0xc2 && next < 0xa0))
			buf_addf(out, "\\u%04x", byte == 0x7f ? byte : next);
		else
			buf_addch(out, *at);
		at += byte == 0xc2 && next < 0xa0;
	}
	buf_release(&json);
}

void yaml_scalar(const char *text, struct buf *out)
{
	if (plain_is_safe(text))
		buf_add(out, text);
	else
		add_quoted(text, out);
}

/* One word; what is not printable would end the comment, or the reader's trust in the file. */
static size_t add_word(const char *word, struct buf *out)
{
	size_t n = strcspn(word, " ");
	for (size_t i = 0; i < n;) {
		size_t len = utf8_len(word + i);
		bool plain = len == 1 && (unsigned char)word[i] >= ' ' && word[i] != 0x7f;
		/* U+0080 to U+009F are controls, too. */
		bool wide =
			len > 1 && !((unsigned char)word[i] == 0xc2 && (unsigned char)word[i + 1] < 0xa0);
		if (plain || wide)
			buf_addn(out, word + i, len);
		else
			buf_addch(out, '?');
		i += len ? len : 1;
	}
	return n;
}

void yaml_comment(const char *indent, const char *text, struct buf *out)
{
	size_t col = 0;
	for (const char *word = text; *word;) {
		size_t n = strcspn(word, " ");
		if (col == 0 || col + n + 1 > WIDTH) {
			buf_addf(out, "%s%s#", col ? "\n" : "", indent);
			col = strlen(indent) + 1;
		}
		buf_addch(out, ' ');
		word += add_word(word, out);
		col += n + 1;
		word += strspn(word, " ");
	}
	buf_add(out, "\n");
}

static void add_line(const struct proposed_line *line, const char *indent, struct buf *out)
{
	if (line->why)
		yaml_comment(indent, line->why, out);
	if (line->check) {
		struct buf check = BUF_INIT;
		buf_addf(&check, "CHECK: %s", line->check);
		yaml_comment(indent, buf_text(&check), out);
		buf_release(&check);
	}
	buf_addf(out, "%s%s: ", indent, line->key);
	if (line->yaml)
		buf_add(out, line->value);
	else
		yaml_scalar(line->value, out);
	buf_add(out, "\n");
	for (int i = 0; i < line->nothers; i++)
		buf_addf(out, "%s# or %s\n", indent, line->others[i]);
}

void proposal_yaml(const struct proposal *p, const char *database, struct buf *out)
{
	const char *first = p->nmissing ? "#  - name: " : "  - name: ";
	const char *indent = p->nmissing ? "#    " : "    ";
	for (int i = 0; i < p->nmissing; i++)
		yaml_comment("  ", p->missing[i], out);
	buf_add(out, first);
	yaml_scalar(p->name, out);
	buf_add(out, "\n");
	if (database) {
		buf_addf(out, "%sdatabase: ", indent);
		yaml_scalar(database, out);
		buf_add(out, "\n");
	}
	for (int i = 0; i < p->nlines; i++)
		add_line(&p->lines[i], indent, out);
}
