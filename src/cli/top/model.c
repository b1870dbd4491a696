/* SPDX-License-Identifier: Apache-2.0 */
/* top/model.c: see top/model.h. */
#include "cli/top/model.h"

#include "base/text.h"

#include <assert.h>

const char *const top_titles[TOP_PANES][TOP_CELLS_MAX] = {
	[TOP_WATCHES] = {"WATCH", "RUNNING", "STUCK", "HELD", "OLDEST", "WORKERS", "RECOVERED",
                     "STATUS"},
	[TOP_JOBS] = {"STUCK JOB", "VERDICT", "WOULD", "OWNER", "NOTE", "KIND", "TEXT"},
	[TOP_WORKERS] = {"WORKER", "STATE", "HAS", "RENEWED", "HOST", "PID", "SERVES"},
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

/* ---- what is left by the filter ---- */

static bool passes(const struct top_model *m, enum top_pane pane, const struct top_row *row)
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
			if (passes(m, pane, &m->parts[i]->rows[pane][k]))
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

/* On the same row as before, or where it was when that row is gone. */
static void keep_cursor(struct top_model *m, enum top_pane pane)
{
	int at = m->cursor[pane];
	for (int i = 0; i < m->nshown[pane]; i++)
		if (text_eq(m->shown[pane][i]->id, m->cursor_id[pane]))
			at = i;
	set_cursor(m, pane, at);
}

static bool is_there(const struct top_model *m, const char *id)
{
	for (int i = 0; i < m->nparts; i++)
		for (int k = 0; m->parts[i] && k < m->parts[i]->n[TOP_JOBS]; k++)
			if (text_eq(m->parts[i]->rows[TOP_JOBS][k].id, id))
				return true;
	return false;
}

/* A job that is no longer stuck is no longer meant. */
static void drop_tags(struct top_model *m)
{
	int kept = 0;
	for (int i = 0; i < m->ntags; i++) {
		if (is_there(m, m->tags[i]))
			m->tags[kept++] = m->tags[i];
		else
			free(m->tags[i]);
	}
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
	/* One that is away says nothing of its jobs: what is tagged there stays so. */
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

/* ---- where one is ---- */

void top_move(struct top_model *m, int by)
{
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

/* Tagged jobs that the filter hides are not meant: nobody sees them. */
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
