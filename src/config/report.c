/* SPDX-License-Identifier: Apache-2.0
 * report.c: collects problems with their positions, so that one run shows them all, and effective
 * values with their origins, for `config show`. Whatever is quoted passes one masking function
 * first.
 */
#include "config/report.h"

#include "base/clock.h"
#include "config/source.h"

#include <assert.h>

#define QUOTE_MAX 60 /* bytes of a value that a message repeats */
#define KNOWN_MAX 12 /* keys that a message lists */

struct cfg_expanded {
	struct cfg_mark at;
	const char *origin;
	struct cfg_expanded *next;
};

enum { OPEN, URL, MASKED };

static const struct {
	const char *word;
	int secrecy;
} secret_words[] = {
	{"token", MASKED},
	{"password", MASKED},
	{"secret", MASKED},
	{"url", URL},
};

static int secrecy_of(const char *name)
{
	int most = OPEN;
	for (size_t i = 0; i < sizeof(secret_words) / sizeof(secret_words[0]); i++)
		if (strcasestr(name, secret_words[i].word) && secret_words[i].secrecy > most)
			most = secret_words[i].secrecy;
	return most;
}

int report_secrecy(struct cfg_reader *r, const char *name)
{
	int before = r->secrecy, own = secrecy_of(name);
	if (own > before)
		r->secrecy = own;
	return before;
}

static void add_masked(int secrecy, const char *value, struct buf *out)
{
	if (secrecy == OPEN)
		buf_add(out, value);
	else if (secrecy == URL)
		url_redact(value, out);
	else
		buf_add(out, *value ? "***" : "");
}

const char *report_path(const struct cfg_reader *r)
{
	return r->path.len ? buf_text(&r->path) : "the file";
}

void cfg_mark_text(struct cfg_mark at, struct buf *out)
{
	if (at.file)
		buf_addf(out, "%s:%d:%d", at.file, at.line, at.col);
	else
		buf_add(out, "command line");
}

/* A message is one line, whatever the user's text contains. */
static void flatten(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7F)
			*text = ' ';
}

static void add_problem(struct cfg_reader *r, struct cfg_mark at, bool warning, const char *fmt,
                        va_list ap)
{
	char text[1024];
	if (!warning)
		r->nerrors++;
	if (r->nproblems == CFG_PROBLEMS_MAX)
		return;
	vsnprintf(text, sizeof(text), fmt, ap);
	flatten(text);
	r->problems[r->nproblems++] = (struct cfg_problem){at, arena_strdup(r->arena, text), warning};
}

void cfg_problem(struct cfg_reader *r, struct cfg_mark at, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	add_problem(r, at, false, fmt, ap);
	va_end(ap);
}

void cfg_warning(struct cfg_reader *r, struct cfg_mark at, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	add_problem(r, at, true, fmt, ap);
	va_end(ap);
}

static const char *config_report_origin_of(const struct cfg_reader *r, struct cfg_mark at)
{
	const struct cfg_expanded *e = r->expanded;
	while (e && !(text_eq(e->at.file, at.file) && e->at.line == at.line && e->at.col == at.col))
		e = e->next;
	return e ? e->origin : "";
}

void report_expanded(struct cfg_reader *r, struct cfg_mark at, const char *origin)
{
	if (!*origin)
		return;
	struct cfg_expanded *e = ARENA_NEW(r->arena, struct cfg_expanded);
	*e = (struct cfg_expanded){at, arena_strdup(r->arena, origin), r->expanded};
	r->expanded = e;
}

/*
 * At most QUOTE_MAX bytes, cut between characters. A URL under any name loses its password, because
 * a quoted value is often at the wrong place.
 */
static void config_report_add_quoted(const struct cfg_reader *r, const char *value, struct buf *out)
{
	AUTO_BUF masked = BUF_INIT;
	add_masked(r->secrecy > URL ? r->secrecy : URL, value, &masked);
	const char *text = buf_text(&masked);
	size_t n = 0;
	while (n < QUOTE_MAX && text[n]) {
		size_t length = utf8_len(text + n);
		n += length ? length : 1;
	}
	buf_addch(out, '"');
	buf_addn(out, text, n);
	buf_add(out, text[n] ? "…\"" : "\"");
}

static void add_got(const struct cfg_reader *r, const struct cfg_node *node, const char *text,
                    struct buf *out)
{
	static const char *const kinds[] = {
		[CFG_NULL] = "nothing", [CFG_LIST] = "a list", [CFG_MAP] = "a map"};
	enum cfg_kind kind = node ? node->kind : CFG_NULL;
	if (kind != CFG_SCALAR) {
		buf_add(out, kinds[kind]);
		return;
	}
	config_report_add_quoted(r, text ? text : node->text, out);
	buf_add(out, config_report_origin_of(r, node->at));
}

bool report_expected(struct cfg_reader *r, const struct cfg_node *node, const char *text,
                     const char *expected)
{
	AUTO_BUF got = BUF_INIT;
	add_got(r, node, text, &got);
	cfg_problem(r, node ? node->at : (struct cfg_mark){0}, "%s expects %s, got %s", report_path(r),
	            expected, buf_text(&got));
	return false;
}

void report_missing(struct cfg_reader *r, const char *key, struct cfg_mark at)
{
	cfg_problem(r, at, "\"%s\" is missing in %s; add it", key, report_path(r));
}

static const char **row_names(struct cfg_reader *r, const struct opt_row *rows, int *n)
{
	*n = 0;
	while (rows[*n].name)
		(*n)++;
	const char **names = ARENA_ARRAY(r->arena, const char *, *n + 1);
	for (int i = 0; i < *n; i++)
		names[i] = rows[i].name;
	return names;
}

void report_unknown(struct cfg_reader *r, const struct opt_row *rows, const char *key,
                    struct cfg_mark at)
{
	int n;
	const char **names = row_names(r, rows, &n);
	const char *near = text_nearest(key, names);
	AUTO_BUF hint = BUF_INIT;
	if (near)
		buf_addf(&hint, "did you mean \"%s\"?", near);
	else if (n > KNOWN_MAX)
		buf_add(&hint, "remove it, or look up the known keys in the reference");
	for (int i = 0; !near && n <= KNOWN_MAX && i < n; i++)
		buf_addf(&hint, "%s%s", i ? ", " : "known keys: ", names[i]);
	cfg_problem(r, at, "unknown key \"%.*s\" in %s; %s", QUOTE_MAX, key, report_path(r),
	            buf_text(&hint));
}

static void config_report_add_shown(struct cfg_reader *r, const char *value, const char *origin)
{
	if (r->nshown == r->cap_shown) {
		int cap = r->cap_shown ? 2 * r->cap_shown : 64;
		struct cfg_shown *bigger = ARENA_ARRAY(&r->shown_arena, struct cfg_shown, cap);
		if (r->nshown)
			memcpy(bigger, r->shown, sizeof(*bigger) * (size_t)r->nshown);
		r->shown = bigger;
		r->cap_shown = cap;
	}
	assert(r->nshown < r->cap_shown);
	AUTO_BUF masked = BUF_INIT;
	add_masked(r->secrecy, value, &masked);
	r->shown[r->nshown++] = (struct cfg_shown){
		arena_strdup(&r->shown_arena, buf_text(&r->path)),
		arena_strdup(&r->shown_arena, buf_text(&masked)),
		arena_strdup(&r->shown_arena, origin),
	};
}

void report_standard(struct cfg_reader *r, const char *value)
{
	config_report_add_shown(r, value, "default");
}

void cfg_show(struct cfg_reader *r, const char *name, struct cfg_mark at, const char *value)
{
	size_t mark = r->path.len;
	int before = r->secrecy;
	if (name) {
		cfg_enter(r, name);
		report_secrecy(r, name);
	}
	AUTO_BUF origin = BUF_INIT;
	cfg_mark_text(at, &origin);
	buf_add(&origin, config_report_origin_of(r, at));
	config_report_add_shown(r, value, buf_text(&origin));
	r->secrecy = before;
	cfg_leave(r, mark);
}

/* Only what its reader expanded: SQL is not expanded. */
static void write_scalar(struct cfg_reader *r, const struct cfg_node *node)
{
	AUTO_BUF text = BUF_INIT, origin = BUF_INIT, why = BUF_INIT;
	bool expanded = *config_report_origin_of(r, node->at) &&
	                env_expand(node->text, r->getenv, &text, &origin, &why);
	cfg_show(r, NULL, node->at, expanded ? buf_text(&text) : node->text);
}

void report_written(struct cfg_reader *r, const struct cfg_node *node)
{
	if (node->kind == CFG_SCALAR)
		write_scalar(r, node);
	for (int i = 0; i < node->n; i++) {
		char number[16];
		snprintf(number, sizeof(number), "%d", i + 1);
		const char *name = node->kind == CFG_MAP ? node->keys[i] : number;
		size_t mark = cfg_enter(r, name);
		int before = report_secrecy(r, name);
		report_written(r, node->items[i]);
		r->secrecy = before;
		cfg_leave(r, mark);
	}
}

/* ---- the reference ---- */

/*
 * The option tables as documentation. The reference matches the reader, because both come from the
 * same rows.
 */

static const char *const type_names[] = {
	[OPT_TEXT] = "text",
	[OPT_SQL] = "SQL",
	[OPT_SET] = "SQL",
	[OPT_BOOL] = "true or false",
	[OPT_INT] = "whole number",
	[OPT_NUMBER] = "number",
	[OPT_DURATION] = "duration",
	[OPT_TEXT_LIST] = "text or list",
	[OPT_CHOICE] = "one of",
	[OPT_MAP] = "map",
	[OPT_CUSTOM] = "see meaning",
};

/* A pipe or a line break would end the cell. */
static void add_cell(struct buf *out, const char *text)
{
	for (; *text; text++)
		if (*text == '|')
			buf_add(out, "\\|");
		else
			buf_addch(out, *text == '\n' ? ' ' : *text);
}

static void add_type(struct buf *out, const struct opt_row *row)
{
	buf_add(out, type_names[row->type]);
	if (row->type == OPT_INT && (row->min || row->max))
		buf_addf(out, ", %lld to %lld", (long long)row->min, (long long)row->max);
	if (row->type == OPT_DURATION && row->min) {
		buf_add(out, ", at least ");
		duration_text(row->min, out);
	}
	for (int i = 0; row->type == OPT_CHOICE && row->choices[i]; i++) {
		buf_addf(out, "%s`", i ? ", " : " ");
		add_cell(out, row->choices[i]);
		buf_addch(out, '`');
	}
}

static void add_default(struct buf *out, const struct opt_row *row)
{
	if (row->standard) {
		buf_addch(out, '`');
		add_cell(out, *row->standard ? row->standard : "\"\"");
		buf_addch(out, '`');
	} else if (row->required) {
		buf_add(out, "required");
	}
}

static void add_row(struct buf *out, const struct opt_row *row, const char *prefix)
{
	AUTO_BUF name = BUF_INIT;
	buf_addf(&name, "%s%s", prefix, row->name);
	buf_addf(out, "| `%s` | ", buf_text(&name));
	add_type(out, row);
	buf_add(out, " | ");
	add_default(out, row);
	buf_add(out, " | ");
	add_cell(out, row->help ? row->help : "");
	buf_add(out, " |\n");
	buf_addch(&name, '.');
	for (const struct opt_row *part = row->rows; part && part->name; part++)
		add_row(out, part, buf_text(&name));
}

void cfg_reference(const struct opt_row *rows, int group, struct buf *out)
{
	buf_add(out, "| key | type | default | meaning |\n|---|---|---|---|\n");
	for (; rows->name; rows++)
		if (rows->group == group)
			add_row(out, rows, "");
}
