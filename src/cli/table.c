/* table.c: see table.h. */
#include "cli/table.h"

#include "base/text.h"

#include <assert.h>

void table_init(struct table *t)
{
	*t = (struct table){.arena = ARENA_INIT};
}

void table_release(struct table *t)
{
	free(t->cells);
	free(t->colors);
	arena_release(&t->arena);
}

void table_column(struct table *t, const char *title)
{
	assert(t->ncols < TABLE_COLUMNS_MAX && t->n == 0);
	t->titles[t->ncols++] = arena_strdup(&t->arena, title);
}

/* The text up to so many characters. */
static const char *cut(struct table *t, const char *text)
{
	size_t at = 0;
	int n = 0;
	if (out_width(text) <= TABLE_CELL_MAX)
		return text;
	for (; text[at] && n < TABLE_CELL_MAX - 1; n++)
		at += utf8_len(text + at) ? utf8_len(text + at) : 1;
	return arena_printf(&t->arena, "%.*s…", (int)at, text);
}

void table_cell(struct table *t, enum color color, const char *text)
{
	if (t->n == t->room) {
		t->room = t->room ? 2 * t->room : 256;
		t->cells = mem_grow(t->cells, sizeof *t->cells * (size_t)t->room);
		t->colors = mem_grow(t->colors, sizeof *t->colors * (size_t)t->room);
	}
	bool first = t->n % t->ncols == 0;
	const char *copy = text && *text ? arena_strdup(&t->arena, text) : NULL;
	t->colors[t->n] = color;
	t->cells[t->n++] = copy && !first ? cut(t, copy) : copy;
}

/* 0: nobody has anything in it. */
static int column_width(const struct table *t, int col)
{
	int width = 0;
	for (int i = col; i < t->n; i += t->ncols) {
		int w = t->cells[i] ? out_width(t->cells[i]) : 0;
		width = w > width ? w : width;
	}
	int title = out_width(t->titles[col]);
	return width && title > width ? title : width;
}

/* One line; what stands last is not padded. */
static void print_row(const struct table *t, const int *widths, int first, bool color,
                      struct buf *out)
{
	struct buf cell = BUF_INIT;
	size_t end = out->len;
	for (int col = 0; col < t->ncols; col++) {
		const char *text = first < 0 ? t->titles[col] : t->cells[first + col];
		enum color of = first < 0 ? COLOR_DIM : t->colors[first + col];
		if (widths[col] == 0)
			continue;
		buf_clear(&cell);
		out_padded(&cell, text ? text : "", widths[col]);
		buf_add(out, col ? "  " : "");
		out_color(out, color && text, of, buf_text(&cell));
		if (text)
			end = out->len;
	}
	while (out->len > end || (out->len > 0 && out->data[out->len - 1] == ' '))
		out->data[--out->len] = '\0';
	buf_add(out, "\n");
	buf_release(&cell);
}

void table_print(const struct table *t, bool color, struct buf *out)
{
	int widths[TABLE_COLUMNS_MAX];
	assert(t->n % t->ncols == 0);
	for (int col = 0; col < t->ncols; col++)
		widths[col] = column_width(t, col);
	print_row(t, widths, -1, color, out);
	for (int i = 0; i < t->n; i += t->ncols)
		print_row(t, widths, i, color, out);
}
