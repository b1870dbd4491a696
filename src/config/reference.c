/* SPDX-License-Identifier: Apache-2.0
 * reference.c: the option tables as documentation. What the reference says is
 * what the reader does, because both come from the same rows.
 */
#include "config/options.h"

#include <string.h>

static const char *const type_names[] = {
	[OPT_TEXT] = "text",
	[OPT_SQL] = "SQL",
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
	for (; *text; text++) {
		if (*text == '|')
			buf_add(out, "\\|");
		else
			buf_addch(out, *text == '\n' ? ' ' : *text);
	}
}

static void add_type(struct buf *out, const struct opt_row *row)
{
	buf_add(out, type_names[row->type]);
	if (row->type == OPT_INT && (row->min || row->max))
		buf_addf(out, ", %lld to %lld", (long long)row->min, (long long)row->max);
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

static void add_rows(struct buf *out, const struct opt_row *rows, const char *prefix)
{
	for (const struct opt_row *row = rows; row->name; row++) {
		struct buf name = BUF_INIT;
		buf_addf(&name, "%s%s", prefix, row->name);
		buf_addf(out, "| `%s` | ", buf_text(&name));
		add_type(out, row);
		buf_add(out, " | ");
		add_default(out, row);
		buf_add(out, " | ");
		add_cell(out, row->help ? row->help : "");
		buf_add(out, " |\n");
		buf_addch(&name, '.');
		if (row->rows)
			add_rows(out, row->rows, buf_text(&name));
		buf_release(&name);
	}
}

void cfg_reference(const struct opt_row *rows, struct buf *out)
{
	buf_add(out, "| key | type | default | meaning |\n|---|---|---|---|\n");
	add_rows(out, rows, "");
}
