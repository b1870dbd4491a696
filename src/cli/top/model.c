/* SPDX-License-Identifier: Apache-2.0
 * top/model.c: see top/model.h.
 */

#include "cli/top/model.h"

#include <assert.h>

const struct top_column top_columns[TOP_PANES][TOP_CELLS_MAX + 1] = {
	[TOP_WATCHES] = {[WATCH_NAME] = {"WATCH", 0},
                     [WATCH_WAITING] = {"WAITING", 1},
                     [WATCH_OLDEST_WAIT] = {"OLDEST WAIT", 4},
                     [WATCH_RUNNING] = {"RUNNING", 1},
                     [WATCH_OLDEST_RUN] = {"OLDEST RUN", 6},
                     [WATCH_STUCK] = {"STUCK", 0},
                     [WATCH_HELD] = {"HELD", 2},
                     [WATCH_UNSTARTED] = {"NOT STARTED", 9},
                     [WATCH_WORKERS] = {"WORKERS", 8},
                     [WATCH_RECOVERED] = {"RECOVERED", 5},
                     [WATCH_WAITING_HOUR] = {"WAITING 1H", 3},
                     [WATCH_DONE_HOUR] = {"DONE 1H", 7},
                     [WATCH_STATE] = {"STATUS", 0}},
	[TOP_JOBS] = {{"STUCK JOB", 0},
                  {"VERDICT", 0},
                  {"WOULD", 1},
                  {"OWNER", 3},
                  {"NOTE", 2},
                  {"KIND", 4},
                  {"TEXT", 5}},
	[TOP_WORKERS] = {{"WORKER", 0},
                     {"STATE", 0},
                     {"HAS", 1},
                     {"RENEWED", 2},
                     {"HOST", 4},
                     {"PID", 3},
                     {"SERVES", 5}},
};

void top_part_free(struct top_part *p)
{
	if (!p)
		return;
	arena_release(&p->arena);
	free(p);
}

void top_model_init(struct top_model *m, int nparts)
{
	*m = (struct top_model){.nparts = nparts, .focus = TOP_JOBS};
	m->parts = mem_alloc(sizeof *m->parts * (size_t)(nparts + 1));
}

void top_model_release(struct top_model *m)
{
	for (int i = 0; i < m->nparts; i++)
		top_part_free(m->parts[i]);
	for (int p = 0; p < TOP_PANES; p++) {
		free(m->shown[p]);
		free(m->cursor_id[p]);
	}
	top_untag_all(m);
	free(m->tags);
	free(m->parts);
}

/* ---- rows that pass the filter ---- */

static bool top_model_passes(const struct top_model *m, enum top_pane pane,
                             const struct top_row *row)
{
	bool found = pane == TOP_WATCHES || !m->filter[0];
	for (int i = 0; i < TOP_CELLS_MAX && !found; i++)
		found = row->cells[i].text && strcasestr(row->cells[i].text, m->filter);
	return found;
}

static void show_pane(struct top_model *m, enum top_pane pane)
{
	int room = 0, n = 0;
	for (int i = 0; i < m->nparts; i++)
		room += m->parts[i] ? m->parts[i]->n[pane] : 0;
	m->shown[pane] = mem_grow(m->shown[pane], sizeof *m->shown[pane] * (size_t)(room + 1));
	for (int i = 0; i < m->nparts; i++)
		for (int k = 0; m->parts[i] && k < m->parts[i]->n[pane]; k++)
			if (top_model_passes(m, pane, &m->parts[i]->rows[pane][k]))
				m->shown[pane][n++] = &m->parts[i]->rows[pane][k];
	m->nshown[pane] = n;
}

static void set_cursor(struct top_model *m, enum top_pane pane, int at)
{
	int last = m->nshown[pane] - 1;
	at = at > last ? last : at;
	at = at < 0 ? 0 : at;
	m->cursor[pane] = at;
	free(m->cursor_id[pane]);
	m->cursor_id[pane] = last < 0 ? NULL : mem_strdup(m->shown[pane][at]->id);
}

/* On the same row as before, or at the same position if that row is gone. */
static void keep_cursor(struct top_model *m, enum top_pane pane)
{
	int at = m->cursor[pane];
	for (int i = 0; (m->moved[pane] || pane == TOP_JOBS) && i < m->nshown[pane]; i++)
		if (text_eq(m->shown[pane][i]->id, m->cursor_id[pane]))
			at = i;
	set_cursor(m, pane, at);
}

static bool top_model_is_there(const struct top_model *m, const char *id)
{
	for (int i = 0; i < m->nparts; i++)
		for (int k = 0; m->parts[i] && k < m->parts[i]->n[TOP_JOBS]; k++)
			if (text_eq(m->parts[i]->rows[TOP_JOBS][k].id, id))
				return true;
	return false;
}

/* A job that is no longer stuck is no longer tagged. */
static void drop_tags(struct top_model *m)
{
	int kept = 0;
	for (int i = 0; i < m->ntags; i++)
		if (top_model_is_there(m, m->tags[i]))
			m->tags[kept++] = m->tags[i];
		else
			free(m->tags[i]);
	m->ntags = kept;
}

static void show_all(struct top_model *m)
{
	for (int pane = 0; pane < TOP_PANES; pane++) {
		show_pane(m, (enum top_pane)pane);
		keep_cursor(m, (enum top_pane)pane);
	}
}

void top_model_put(struct top_model *m, int part, struct top_part *p)
{
	assert(part >= 0 && part < m->nparts);
	struct top_part *old = m->parts[part];
	m->parts[part] = p;
	/* An unavailable database reports no jobs: its tags stay. */
	if (!p->error)
		drop_tags(m);
	show_all(m);
	top_part_free(old);
}

void top_filter(struct top_model *m, const char *text)
{
	utf8_copy(m->filter, sizeof m->filter, text);
	show_all(m);
}

/* ---- the cursor ---- */

void top_move(struct top_model *m, int by)
{
	m->moved[m->focus] = true;
	set_cursor(m, m->focus, m->cursor[m->focus] + by);
}

void top_focus(struct top_model *m, int by)
{
	m->focus = (enum top_pane)((m->focus + TOP_PANES + by) % TOP_PANES);
}

const struct top_row *top_at(const struct top_model *m, enum top_pane pane)
{
	return m->nshown[pane] ? m->shown[pane][m->cursor[pane]] : NULL;
}

/* ---- tags ---- */

static int tag_at(const struct top_model *m, const char *id)
{
	for (int i = 0; i < m->ntags; i++)
		if (text_eq(m->tags[i], id))
			return i;
	return -1;
}

bool top_tagged(const struct top_model *m, const struct top_row *row)
{
	return row->job && tag_at(m, row->id) >= 0;
}

void top_tag(struct top_model *m, const struct top_row *row)
{
	int at = tag_at(m, row->id);
	if (at >= 0) {
		free(m->tags[at]);
		m->tags[at] = m->tags[--m->ntags];
		return;
	}
	m->tags = mem_grow(m->tags, sizeof *m->tags * (size_t)(m->ntags + 1));
	m->tags[m->ntags++] = mem_strdup(row->id);
}

void top_untag_all(struct top_model *m)
{
	for (int i = 0; i < m->ntags; i++)
		free(m->tags[i]);
	m->ntags = 0;
}

/* Tagged jobs that the filter hides are not included, because they are not visible. */
int top_targets(const struct top_model *m, const struct top_row **out, int room)
{
	int n = 0;
	for (int i = 0; i < m->nshown[TOP_JOBS] && n < room; i++)
		if (top_tagged(m, m->shown[TOP_JOBS][i]))
			out[n++] = m->shown[TOP_JOBS][i];
	const struct top_row *at = top_at(m, TOP_JOBS);
	if (n == 0 && at && room > 0)
		out[n++] = at;
	return n;
}

/* ---- lines of a screen ---- */

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
	AUTO_BUF seen = BUF_INIT, taken = BUF_INIT;
	int have = 0;
	size_t fits = 0; /* the part of `taken` that leaves room for the mark */
	int fits_width = 0, word_width = 0;
	size_t word = 0; /* the part of it that ends with a whole word */
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
		if (!cut && one[0] == ' ' && have < width) {
			word = taken.len;
			word_width = have;
		}
	}
	/* A long text ends with a word; of a short one the letters say more. */
	if (cut && word_width > width * 2 / 3) {
		fits = word;
		fits_width = word_width;
	}
	buf_addn(out, buf_text(&taken), cut ? fits : taken.len);
	if (cut && width > 0)
		buf_add(out, mark);
	for (int i = cut ? fits_width + 1 : have; i < width; i++)
		buf_addch(out, ' ');
}

static void add_span(struct top_line *l, struct arena *a, const char *text, int width,
                     struct top_span how, bool ascii)
{
	AUTO_BUF fitted = BUF_INIT;
	assert(l->n < TOP_SPANS_MAX);
	top_fit(&fitted, text, width, ascii);
	how.text = arena_strdup(a, buf_text(&fitted));
	l->spans[l->n++] = how;
}

void top_line_text(struct top_line *l, struct arena *a, const char *text, struct top_span how,
                   const struct top_size *size)
{
	l->n = 0;
	add_span(l, a, text, size->width, how, size->ascii);
}

/* ---- panes ---- */

/* The widest column; the columns that name or explain a row may be wider. */
#define CELL_MOST 22
#define NARROW 100 /* on a screen below this width they are narrower */
#define CELL_NARROW 14
#define GAP 2

struct columns {
	int at[TOP_CELLS_MAX]; /* which cell */
	int width[TOP_CELLS_MAX];
	int n;
};

static const char *top_model_title_of(enum top_pane pane, int cell)
{
	return top_columns[pane][cell].title;
}

static int cell_width(const struct top_cell *c)
{
	AUTO_BUF seen = BUF_INIT;
	out_padded(&seen, c->text ? c->text : "", 0);
	return out_width(buf_text(&seen));
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

/* What the last column needs at least: its end may be cut. */
#define LAST_LEAST 9

/* As wide as its contents, each; an empty column is left out. */
static void natural_widths(const struct top_model *m, enum top_pane pane, int width,
                           struct columns *out)
{
	int normal = width < NARROW ? CELL_NARROW : CELL_MOST;
	*out = (struct columns){0};
	for (int i = 0; top_model_title_of(pane, i); i++) {
		bool last = !top_model_title_of(pane, i + 1);
		int title = out_width(top_model_title_of(pane, i)), widest = widest_cell(m, pane, i);
		int most = i == 0 ? CELL_MOST : i == 1 ? CELL_MOST + CELL_MOST / 2 : normal;
		if (widest == 0 && m->nshown[pane] > 0 && !last)
			continue;
		widest = widest > title ? widest : title;
		widest = widest > most ? most : widest;
		out->at[out->n] = i;
		out->width[out->n++] = last && widest > LAST_LEAST ? LAST_LEAST : widest;
	}
}

/* The column to leave out next; -1: all of them stay. */
static int least_wanted(const struct columns *c, enum top_pane pane)
{
	int which = -1, rank = 0;
	for (int i = 0; i < c->n; i++)
		if (top_columns[pane][c->at[i]].rank > rank) {
			which = i;
			rank = top_columns[pane][c->at[i]].rank;
		}
	return which;
}

static int whole_width(const struct columns *c)
{
	int width = 2;
	for (int i = 0; i < c->n; i++)
		width += c->width[i] + (i ? GAP : 0);
	return width;
}

/* Whole columns, as many as fit, and the last one to the end. */
static void top_model_measure(const struct top_model *m, enum top_pane pane, int width,
                              struct columns *out)
{
	int left = width - 2, drop;
	natural_widths(m, pane, width, out);
	while (whole_width(out) > width && (drop = least_wanted(out, pane)) >= 0) {
		for (int i = drop; i + 1 < out->n; i++) {
			out->at[i] = out->at[i + 1];
			out->width[i] = out->width[i + 1];
		}
		out->n--;
	}
	for (int i = 0; i < out->n; i++) {
		bool last = i + 1 == out->n;
		out->width[i] = last || out->width[i] > left ? left : out->width[i];
		left -= out->width[i] + GAP;
		if (left <= 0) /* a very narrow screen */
			out->n = i + 1;
	}
}

static void head_line(const struct top_model *m, enum top_pane pane, const struct columns *c,
                      const struct top_size *size, struct arena *a, struct top_line *out)
{
	AUTO_BUF text = BUF_INIT;
	const struct top_span how = {.inverse = m->focus == pane, .bold = true};
	buf_add(&text, m->focus == pane ? "> " : "  ");
	for (int i = 0; i < c->n; i++) {
		top_fit(&text, top_model_title_of(pane, c->at[i]), c->width[i], size->ascii);
		buf_add(&text, i + 1 < c->n ? "  " : "");
	}
	top_line_text(out, a, buf_text(&text), how, size);
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
	bool answered = true, away = false;
	for (int i = 0; i < m->nparts; i++) {
		answered = answered && m->parts[i];
		away = away || (m->parts[i] && m->parts[i]->error);
	}
	if (!answered)
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
	top_model_measure(m, pane, size->width, &c);
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

/* The database whose next event is the newest; -1: there are no more. */
static int newest_event(const struct top_model *m, const int *next)
{
	const char *newest = NULL;
	int part = -1;
	for (int i = 0; i < m->nparts; i++) {
		const struct top_part *p = m->parts[i];
		if (!p || next[i] >= p->nevents || (newest && strcmp(p->event_at[next[i]], newest) <= 0))
			continue;
		newest = p->event_at[next[i]];
		part = i;
	}
	return part;
}

/* Lines below the panes: what is wrong with a database, else the latest events. */
static int foot_lines(const struct top_model *m, int rows, const struct top_size *size,
                      struct arena *a, struct top_line *out)
{
	int n = 0;
	for (int i = 0; i < m->nparts && n < rows; i++)
		if (m->parts[i] && m->parts[i]->error)
			top_line_text(&out[n++], a,
			              arena_printf(a, "! %s: %s", m->parts[i]->database, m->parts[i]->error),
			              (struct top_span){.color = COLOR_RED, .bold = true}, size);
	int *next = ARENA_ARRAY(a, int, m->nparts + 1);
	while (n < rows) {
		int part = newest_event(m, next);
		if (part < 0)
			break;
		top_line_text(&out[n++], a, m->parts[part]->events[next[part]++],
		              (struct top_span){.color = COLOR_DIM}, size);
	}
	while (n < rows)
		top_line_text(&out[n++], a, "", (struct top_span){0}, size);
	return n;
}

static void title_line(const char *badge, const char *title, const struct top_size *size,
                       struct arena *a, struct top_line *out)
{
	int used = badge ? out_width(badge) + 2 : 0;
	out->n = 0;
	if (badge && used + 12 < size->width) {
		add_span(out, a, arena_printf(a, " %s ", badge), used,
		         (struct top_span){.bold = true, .inverse = true}, size->ascii);
		add_span(out, a, "", 1, (struct top_span){0}, size->ascii);
		used++;
	} else {
		used = 0;
	}
	add_span(out, a, title, size->width - used, (struct top_span){.bold = true}, size->ascii);
}

void top_lines(const struct top_model *m, const char *badge, const char *title,
               const struct top_size *size, struct arena *a, struct top_line *out)
{
	int height = size->height < TOP_HEIGHT_LEAST ? TOP_HEIGHT_LEAST : size->height;
	int foot = height < 12 ? 1 : (height < 30 ? 2 : TOP_EVENTS_MAX);
	int room = height - 2 - foot - TOP_PANES; /* without title, last line, foot and heads */
	int watches = at_most(m->nshown[TOP_WATCHES], room / 2 < 1 ? 1 : room / 2);
	int workers = at_most(m->nshown[TOP_WORKERS], room / 4 < 1 ? 1 : room / 4);
	int jobs = room - watches - workers;
	struct top_line *all = ARENA_ARRAY(a, struct top_line, height + TOP_PANES);
	int n = 1;
	title_line(badge, title, size, a, &all[0]);
	n += pane_lines(m, TOP_WATCHES, watches, size, a, &all[n]);
	n += pane_lines(m, TOP_JOBS, jobs < 1 ? 1 : jobs, size, a, &all[n]);
	n += pane_lines(m, TOP_WORKERS, workers, size, a, &all[n]);
	n += foot_lines(m, foot, size, a, &all[n]);
	for (int i = 0; i < size->height - 1; i++)
		out[i] = i < n ? all[i] : (struct top_line){0};
}

/* How many bytes of a line fit; at least one character, to make progress. */
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
