/* propose_yaml.c: a proposal as YAML that a person reads from top to bottom. */
#include "recover/propose.h"

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
		if ((unsigned char)*at < ' ' || (*at == ':' && at[1] == ' ') ||
		    (*at == ' ' && at[1] == '#') || (*at == '$' && at[1] == '{') || *at == 0x7f)
			return false;
	return true;
}

void yaml_scalar(const char *text, struct buf *out)
{
	if (plain_is_safe(text))
		buf_add(out, text);
	else
		buf_add_json(out, text); /* double quotes and escapes of YAML are those of JSON */
}

/* Comment lines of a readable width; control characters cannot end a comment. */
static void comment(const char *indent, const char *text, struct buf *out)
{
	size_t col = 0;
	for (const char *word = text; *word;) {
		size_t n = strcspn(word, " ");
		if (col == 0 || col + n + 1 > WIDTH) {
			buf_addf(out, "%s%s#", col ? "\n" : "", indent);
			col = strlen(indent) + 1;
		}
		buf_addch(out, ' ');
		for (size_t i = 0; i < n; i++)
			buf_addch(out, (unsigned char)word[i] < ' ' ? '?' : word[i]);
		col += n + 1;
		word += n;
		word += strspn(word, " ");
	}
	buf_add(out, "\n");
}

static void add_line(const struct proposed_line *line, const char *indent, struct buf *out)
{
	if (line->why)
		comment(indent, line->why, out);
	if (line->check) {
		struct buf check = BUF_INIT;
		buf_addf(&check, "CHECK: %s", line->check);
		comment(indent, buf_text(&check), out);
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
		comment("  ", p->missing[i], out);
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
