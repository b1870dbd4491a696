/* SPDX-License-Identifier: Apache-2.0 */
#include "view/output.h"

#include "base/clock.h"

#include <assert.h>
#include <wchar.h>

void out_color(struct buf *out, bool on, enum color color, const char *text)
{
	static const char *const codes[] = {"",         "\033[1m",  "\033[31m",
	                                    "\033[32m", "\033[33m", "\033[2m"};
	if (!on || color == COLOR_NONE) {
		buf_add(out, text);
		return;
	}
	buf_addf(out, "%s%s\033[0m", codes[color], text);
}

int out_width(const char *text)
{
	int width = 0;
	mbstate_t state = {0};
	while (*text) {
		wchar_t wc;
		size_t n = mbrtowc(&wc, text, MB_CUR_MAX, &state);
		if (n == (size_t)-1 || n == (size_t)-2) {
			state = (mbstate_t){0};
			n = 1;
			width++;
		} else {
			int w = wcwidth(wc);
			width += w < 0 ? 1 : w;
		}
		text += n;
	}
	return width;
}

void out_visible(struct buf *out, const char *text)
{
	const char *begin = text;
	for (; *text && text - begin < OUT_TEXT_MAX;) {
		size_t n = utf8_len(text);
		if (n == 0 || utf8_is_control(text))
			buf_addch(out, '?');
		else
			buf_addn(out, text, n);
		text += n ? n : 1;
	}
	if (*text) {
		buf_add(out, "… (");
		buf_add_count(out, (int64_t)strlen(begin));
		buf_add(out, " bytes)");
	}
}

void out_padded(struct buf *out, const char *text, int width)
{
	out_visible(out, text);
	for (int have = out_width(text); have < width; have++)
		buf_addch(out, ' ');
}

void out_line(struct buf *out, const char *name, int width, const char *text)
{
	buf_add(out, "  ");
	out_padded(out, name, width);
	buf_add(out, " ");
	out_padded(out, text, 0);
	buf_add(out, "\n");
}

void out_title(struct buf *out, bool color, const char *database, const char *watch)
{
	AUTO_BUF title = BUF_INIT;
	buf_addf(&title, "%s/%s", database, watch);
	out_color(out, color, COLOR_BOLD, buf_text(&title));
}

void state_words(const struct watch *w, const char *state, struct buf *out)
{
	const char *name = w ? state_named(w, state) : NULL;
	if (name && !text_eq(name, state))
		buf_addf(out, "%s (%s)", name, state);
	else
		buf_add(out, state ? state : "");
}

void when_text(int64_t us, int64_t now_us, struct buf *out)
{
	int64_t ahead = us - now_us;
	if (ahead > -US_PER_S && ahead < US_PER_S) {
		buf_add(out, "just now");
		return;
	}
	buf_add(out, ahead > 0 ? "in " : "");
	duration_text(ahead > 0 ? ahead : -ahead, out);
	buf_add(out, ahead > 0 ? "" : " ago");
}

void out_print(struct buf *out)
{
	fputs(buf_text(out), stdout);
	buf_release(out);
}

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

void table_columns(struct table *t, const char *titles)
{
	while (*titles) {
		size_t n = strcspn(titles, " ");
		table_column(t, arena_strndup(&t->arena, titles, n));
		titles += n + (titles[n] == ' ');
	}
}

/* The text, cut to this many characters. */
static const char *output_cut(struct table *t, const char *text)
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
	t->cells[t->n++] = copy && !first && !t->whole ? output_cut(t, copy) : copy;
}

void table_take(struct table *t, enum color color, struct buf *text)
{
	table_cell(t, color, buf_text(text));
	buf_clear(text);
}

/* 0: the column is empty. */
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

/* One line; the last cell is not padded. */
static void output_print_row(const struct table *t, const int *widths, int first, bool color,
                             struct buf *out)
{
	AUTO_BUF cell = BUF_INIT;
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
}

void table_print(const struct table *t, bool color, struct buf *out)
{
	int widths[TABLE_COLUMNS_MAX];
	assert(t->n % t->ncols == 0);
	for (int col = 0; col < t->ncols; col++)
		widths[col] = column_width(t, col);
	output_print_row(t, widths, -1, color, out);
	for (int i = 0; i < t->n; i += t->ncols)
		output_print_row(t, widths, i, color, out);
}

/* ---- members of JSON objects ---- */

void json_value(struct buf *out, const char *value)
{
	if (value)
		buf_add_json(out, value);
	else
		buf_add(out, "null");
}

void json_text(struct buf *out, const char *name, const char *value)
{
	buf_addf(out, ",\"%s\":", name);
	json_value(out, value);
}

void json_number(struct buf *out, const char *name, bool has, int64_t value)
{
	if (has)
		buf_addf(out, ",\"%s\":%lld", name, (long long)value);
	else
		buf_addf(out, ",\"%s\":null", name);
}

void json_bool(struct buf *out, const char *name, bool value)
{
	buf_addf(out, ",\"%s\":%s", name, value ? "true" : "false");
}

void json_time(struct buf *out, const char *name, bool has, int64_t us)
{
	AUTO_BUF iso = BUF_INIT;
	if (has)
		time_iso(us, &iso);
	json_text(out, name, has ? buf_text(&iso) : NULL);
}
