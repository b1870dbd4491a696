/* SPDX-License-Identifier: Apache-2.0 */
/* top/lines.c: see top/top.h. */
#include "cli/top/top.h"

#include "base/text.h"

#include <assert.h>

/* ---- one text ---- */

/* One character of a text that is well-formed UTF-8, and how wide it is. */
static size_t one_character(const char *text, bool ascii, char out[8], int *width)
{
	size_t n = utf8_len(text);
	bool plain = n == 1 || !ascii;
	assert(n > 0 && n < 8);
	snprintf(out, 8, "%.*s", plain ? (int)n : 1, plain ? text : "?");
	*width = out_width(out);
	return n;
}

void top_fit(struct buf *out, const char *text, int width, bool ascii)
{
	const char *mark = ascii ? "~" : "…";
	struct buf seen = BUF_INIT, taken = BUF_INIT;
	int have = 0;
	size_t fits = 0; /* what of `taken` leaves room for the mark */
	int fits_width = 0;
	bool cut = false;
	out_padded(&seen, text, 0);
	for (const char *p = buf_text(&seen); *p && !cut;) {
		char one[8];
		int wide;
		p += one_character(p, ascii, one, &wide);
		cut = have + wide > width;
		if (!cut)
			buf_add(&taken, one);
		have += cut ? 0 : wide;
		if (!cut && have < width) {
			fits = taken.len;
			fits_width = have;
		}
	}
	buf_addn(out, buf_text(&taken), cut ? fits : taken.len);
	if (cut && width > 0)
		buf_add(out, mark);
	for (int i = cut ? fits_width + 1 : have; i < width; i++)
		buf_addch(out, ' ');
	buf_release(&seen);
	buf_release(&taken);
}

static void add_span(struct top_line *l, struct arena *a, const char *text, int width,
                     struct top_span how, bool ascii)
{
	struct buf fitted = BUF_INIT;
	assert(l->n < TOP_SPANS_MAX);
	top_fit(&fitted, text, width, ascii);
	how.text = arena_strdup(a, buf_text(&fitted));
	l->spans[l->n++] = how;
	buf_release(&fitted);
}

void top_line_text(struct top_line *l, struct arena *a, const char *text, struct top_span how,
                   const struct top_size *size)
{
	l->n = 0;
	add_span(l, a, text, size->width, how, size->ascii);
}

/* ---- panes ---- */

/* The widest that a column becomes; what names a row, and what explains it, may be wider. */
#define CELL_MOST 22
#define GAP 2

struct columns {
	int at[TOP_CELLS_MAX]; /* which cell */
	int width[TOP_CELLS_MAX];
	int n;
};

static bool has_title(enum top_pane pane, int cell)
{
	return cell < TOP_CELLS_MAX && top_titles[pane][cell];
}

static int cell_width(const struct top_cell *c)
{
	struct buf seen = BUF_INIT;
	out_padded(&seen, c->text ? c->text : "", 0);
	int width = out_width(buf_text(&seen));
	buf_release(&seen);
	return width;
}

static int widest_cell(const struct top_model *m, enum top_pane pane, int cell)
{
	int widest = 0;
	for (int k = 0; k < m->nshown[pane]; k++) {
		int wide = cell_width(&m->shown[pane][k]->cells[cell]);
		widest = wide > widest ? wide : widest;
	}
	return widest;
}

/* As wide as what stands there, the last one to the end; a column of nothing is left out. */
static void measure(const struct top_model *m, enum top_pane pane, int width, struct columns *out)
{
	int left = width - 2;
	*out = (struct columns){0};
	for (int i = 0; has_title(pane, i) && left > 0; i++) {
		bool last = !has_title(pane, i + 1);
		int title = out_width(top_titles[pane][i]), widest = widest_cell(m, pane, i);
		int most = i == 1 ? CELL_MOST + CELL_MOST / 2 : CELL_MOST;
		if (widest == 0 && m->nshown[pane] > 0 && !last)
			continue;
		widest = widest > title ? widest : title;
		widest = last || widest > left ? left : (widest > most ? most : widest);
		out->at[out->n] = i;
		out->width[out->n++] = widest;
		left -= widest + GAP;
	}
}

static void head_line(const struct top_model *m, enum top_pane pane, const struct columns *c,
                      const struct top_size *size, struct arena *a, struct top_line *out)
{
	struct buf text = BUF_INIT;
	const struct top_span how = {.inverse = m->focus == pane, .bold = true};
	buf_add(&text, m->focus == pane ? "> " : "  ");
	for (int i = 0; i < c->n; i++) {
		top_fit(&text, top_titles[pane][c->at[i]], c->width[i], size->ascii);
		buf_add(&text, i + 1 < c->n ? "  " : "");
	}
	top_line_text(out, a, buf_text(&text), how, size);
	buf_release(&text);
}

/* "> " is the cursor and "*" a tag, so that both show without colours too. */
static void row_line(const struct top_model *m, enum top_pane pane, int at, const struct columns *c,
                     const struct top_size *size, struct arena *a, struct top_line *out)
{
	const struct top_row *row = m->shown[pane][at];
	bool here = at == m->cursor[pane] && pane == m->focus;
	struct top_span how = {.inverse = here};
	char marks[3] = {here ? '>' : ' ', top_tagged(m, row) ? '*' : ' ', '\0'};
	int used = 2;
	out->n = 0;
	add_span(out, a, marks, size->width < 2 ? size->width : 2, how, true);
	for (int i = 0; i < c->n; i++) {
		const struct top_cell *cell = &row->cells[c->at[i]];
		how.color = cell->color;
		add_span(out, a, cell->text ? cell->text : "", c->width[i], how, size->ascii);
		used += c->width[i];
		how.color = COLOR_NONE;
		int gap = size->width - used < GAP ? size->width - used : GAP;
		add_span(out, a, "", gap > 0 ? gap : 0, how, size->ascii);
		used += gap > 0 ? gap : 0;
	}
}

static const char *nothing_here(const struct top_model *m, enum top_pane pane)
{
	static const char *const words[] = {[TOP_WATCHES] = "no watches",
	                                    [TOP_JOBS] = "nothing is stuck",
	                                    [TOP_WORKERS] = "no workers are registered"};
	bool heard = true, away = false;
	for (int i = 0; i < m->nparts; i++) {
		heard = heard && m->parts[i];
		away = away || (m->parts[i] && m->parts[i]->error);
	}
	if (!heard)
		return "asking the database";
	if (away && pane != TOP_WATCHES)
		return "not known: a database is unavailable";
	return pane != TOP_WATCHES && m->filter[0] ? "nothing matches the filter" : words[pane];
}

/* A head and `rows` lines, the cursor among them. */
static int pane_lines(const struct top_model *m, enum top_pane pane, int rows,
                      const struct top_size *size, struct arena *a, struct top_line *out)
{
	struct columns c;
	int from = m->cursor[pane] >= rows ? m->cursor[pane] - rows + 1 : 0;
	measure(m, pane, size->width, &c);
	head_line(m, pane, &c, size, a, &out[0]);
	for (int i = 0; i < rows; i++) {
		if (from + i < m->nshown[pane])
			row_line(m, pane, from + i, &c, size, a, &out[1 + i]);
		else
			top_line_text(&out[1 + i], a,
			              i == 0 ? arena_printf(a, "  %s", nothing_here(m, pane)) : "",
			              (struct top_span){.color = COLOR_DIM}, size);
	}
	return rows + 1;
}

/* ---- the whole ---- */

static int at_most(int n, int most)
{
	int least = n < 1 ? 1 : n;
	return least > most ? most : least;
}

/* Lines below the panes: what is wrong with a database, else what happened last. */
static int foot_lines(const struct top_model *m, int rows, const struct top_size *size,
                      struct arena *a, struct top_line *out)
{
	int n = 0;
	for (int i = 0; i < m->nparts && n < rows; i++)
		if (m->parts[i] && m->parts[i]->error)
			top_line_text(&out[n++], a,
			              arena_printf(a, "! %s: %s", m->parts[i]->database, m->parts[i]->error),
			              (struct top_span){.color = COLOR_RED, .bold = true}, size);
	for (int k = 0; k < TOP_EVENTS_MAX && n < rows; k++)
		for (int i = 0; i < m->nparts && n < rows; i++)
			if (m->parts[i] && k < m->parts[i]->nevents)
				top_line_text(&out[n++], a, m->parts[i]->events[k],
				              (struct top_span){.color = COLOR_DIM}, size);
	while (n < rows)
		top_line_text(&out[n++], a, "", (struct top_span){0}, size);
	return n;
}

void top_lines(const struct top_model *m, const char *title, const struct top_size *size,
               struct arena *a, struct top_line *out)
{
	int height = size->height < TOP_HEIGHT_LEAST ? TOP_HEIGHT_LEAST : size->height;
	int foot = height < 12 ? 1 : (height < 30 ? 2 : TOP_EVENTS_MAX);
	int room = height - 2 - foot - TOP_PANES; /* without title, last line, foot and heads */
	int watches = at_most(m->nshown[TOP_WATCHES], room / 3 < 1 ? 1 : room / 3);
	int workers = at_most(m->nshown[TOP_WORKERS], room / 3 < 1 ? 1 : room / 3);
	int jobs = room - watches - workers;
	struct top_line *all = ARENA_ARRAY(a, struct top_line, height + TOP_PANES);
	int n = 1;
	top_line_text(&all[0], a, title, (struct top_span){.bold = true}, size);
	n += pane_lines(m, TOP_WATCHES, watches, size, a, &all[n]);
	n += pane_lines(m, TOP_JOBS, jobs < 1 ? 1 : jobs, size, a, &all[n]);
	n += pane_lines(m, TOP_WORKERS, workers, size, a, &all[n]);
	n += foot_lines(m, foot, size, a, &all[n]);
	for (int i = 0; i < size->height - 1; i++)
		out[i] = i < n ? all[i] : (struct top_line){0};
}

/* How many bytes of a line fit; at least one character, so that it goes on. */
static size_t fitting(const char *text, size_t len, int width)
{
	size_t at = 0;
	int have = 0;
	while (at < len) {
		char one[8];
		int wide = 1;
		size_t n = utf8_len(text + at) ? one_character(text + at, false, one, &wide) : 1;
		have += wide;
		if (have > width && at > 0)
			break;
		at += n;
	}
	return at;
}

int top_page_lines(const char *text, int from, const struct top_size *size, struct arena *a,
                   struct top_line *out)
{
	int n = 0, shown = 0;
	for (int i = 0; i < size->height - 1; i++)
		out[i].n = 0;
	for (const char *p = text; *p; n++) {
		size_t len = (size_t)(strchrnul(p, '\n') - p), take = fitting(p, len, size->width);
		if (n >= from && shown < size->height - 1)
			top_line_text(&out[shown++], a, arena_strndup(a, p, take),
			              (struct top_span){.bold = n == 0}, size);
		p += take + (take == len && p[take]);
	}
	return n;
}
