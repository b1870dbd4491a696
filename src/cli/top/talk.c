/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/top/talk.h"

#include "cli/top/model.h"
#include "cli/top/reader.h"
#include "cli/top/screen.h"

#include <assert.h>
#include <limits.h>
#include <wchar.h>

#define TARGETS_MAX 1000

void top_talk_init(struct top_talk *t, struct top_place *places, int n)
{
	*t = (struct top_talk){.places = places, .nplaces = n};
	top_model_init(&t->model, n);
}

static void drop_plan(struct top_talk *t)
{
	while (t->plan) {
		struct top_action *e = t->plan;
		t->plan = e->next;
		top_action_free(e);
	}
}

void top_talk_release(struct top_talk *t)
{
	drop_plan(t);
	buf_release(&t->page);
	top_model_release(&t->model);
}

static void show_message(struct top_talk *t, const char *text)
{
	utf8_copy(t->message, sizeof t->message, text);
	t->message[strcspn(t->message, "\n")] = '\0';
}

static void to_list(struct top_talk *t)
{
	drop_plan(t);
	t->mode = MODE_LIST;
	t->input[0] = '\0';
}

static void to_page(struct top_talk *t, enum top_mode mode)
{
	t->mode = mode;
	t->page_from = 0;
}

/* ---- plans ---- */

/* The action of the plan that is about this watch. */
static struct top_action *part_of_plan(struct top_talk *t, enum top_action_is is, int part,
                                       int watch)
{
	struct top_action **at = &t->plan;
	while (*at && ((*at)->part != part || (*at)->watch != watch))
		at = &(*at)->next;
	if (!*at) {
		*at = top_action_new(is, part, watch);
		(*at)->dry_run = true;
		(*at)->jobs = ARENA_ARRAY(&(*at)->arena, const char *, TARGETS_MAX);
	}
	return *at;
}

/* The selected jobs, watch by watch; false if there are none. */
static bool plan_jobs(struct top_talk *t, enum top_action_is is, const struct act_kind *kind)
{
	const struct top_row *rows[TARGETS_MAX];
	int n = top_targets(&t->model, rows, TARGETS_MAX);
	for (int i = 0; i < n; i++) {
		struct top_action *e = part_of_plan(t, is, rows[i]->part, rows[i]->watch);
		e->kind = kind;
		e->jobs[e->njobs++] = arena_strdup(&e->arena, rows[i]->job);
	}
	if (n == 0)
		show_message(t, "no job is selected: move the cursor to one, or tag some with space");
	return n > 0;
}

static void ask_reason(struct top_talk *t, const char *verb)
{
	t->verb = verb;
	t->input[0] = '\0';
	t->mode = MODE_REASON;
}

static void plan_act(struct top_talk *t, const char *verb)
{
	const struct act_kind *kind = act_kind_named(verb);
	assert(kind);
	if (plan_jobs(t, TOP_ACT, kind))
		ask_reason(t, kind->verb);
}

/* The last act from here; else the last act on the selected jobs. */
static void plan_undo(struct top_talk *t, const char *verb)
{
	for (int i = 0; i < t->nlast; i++) {
		struct top_action *e = part_of_plan(t, TOP_UNDO, t->last[i].part, t->last[i].watch);
		e->batch = arena_strdup(&e->arena, t->last[i].batch);
	}
	if (t->plan || plan_jobs(t, TOP_UNDO, NULL))
		ask_reason(t, verb);
}

static void plan_pause(struct top_talk *t, const char *verb)
{
	const struct top_row *row = top_at(&t->model, TOP_WATCHES);
	const struct top_row *job = top_at(&t->model, TOP_JOBS);
	(void)verb;
	if (t->model.focus == TOP_JOBS && job)
		for (int i = 0; i < t->model.nshown[TOP_WATCHES]; i++)
			if (t->model.shown[TOP_WATCHES][i]->part == job->part &&
			    t->model.shown[TOP_WATCHES][i]->watch == job->watch)
				row = t->model.shown[TOP_WATCHES][i];
	if (!row)
		return;
	part_of_plan(t, row->paused ? TOP_RESUME : TOP_PAUSE, row->part, row->watch)->dry_run = false;
	ask_reason(t, row->paused ? "resume" : "pause");
}

static void begin_turn(struct top_talk *t)
{
	t->mode = MODE_WAIT;
	t->turn++;
	t->waiting = 0;
}

static void send(struct top_talk *t, struct top_action *e)
{
	e->turn = t->turn;
	t->waiting++;
	top_reader_send(t->places[e->part].reader, e);
}

/* Pass the plan to the readers; it is returned action by action. */
static void send_plan(struct top_talk *t)
{
	begin_turn(t);
	buf_clear(&t->page);
	while (t->plan) {
		struct top_action *e = t->plan;
		t->plan = e->next;
		send(t, e);
	}
}

static void question(const struct top_talk *t, struct buf *out)
{
	AUTO_BUF all = BUF_INIT;
	for (const struct top_action *e = t->plan; e; e = e->next) {
		const struct top_place *p = &t->places[e->part];
		if (e->is == TOP_PAUSE || e->is == TOP_RESUME)
			buf_addf(&all, "%s recovery of watch %s in database %s", t->verb,
			         p->watches[e->watch]->name, p->database->name);
		else
			act_question(&all, e->is == TOP_UNDO ? "undo what was done to" : t->verb,
			             e->batch ? e->good : e->njobs, p->watches[e->watch], p->database);
	}
	buf_addf(out, "%s?\n\n", buf_text(&all));
}

/* The preview is ready: show what would be done, and ask; or why there is nothing to ask. */
static void top_talk_ask(struct top_talk *t)
{
	AUTO_BUF preview = BUF_INIT;
	int64_t good = 0;
	for (const struct top_action *e = t->plan; e; e = e->next) {
		good += e->good;
		buf_add(&preview, buf_text(&e->text));
	}
	buf_clear(&t->page);
	question(t, &t->page);
	buf_add(&t->page, buf_text(&preview));
	to_page(t, good ? MODE_ASK : MODE_PAGE);
	if (!good) {
		buf_addf(&t->page, "\nNothing to %s: nothing was changed.\n", t->verb);
		drop_plan(t);
	}
}

static void reason_given(struct top_talk *t)
{
	bool word = t->plan->is == TOP_PAUSE || t->plan->is == TOP_RESUME;
	for (struct top_action *e = t->plan; e; e = e->next)
		e->reason = t->input[0] ? arena_strdup(&e->arena, t->input) : NULL;
	if (!word) {
		send_plan(t);
		return;
	}
	buf_clear(&t->page);
	question(t, &t->page);
	to_page(t, MODE_ASK);
}

static void agreed(struct top_talk *t)
{
	for (struct top_action *e = t->plan; e; e = e->next) {
		e->dry_run = false;
		buf_clear(&e->text);
	}
	t->nlast = 0;
	t->acting = true;
	send_plan(t);
}

/* ---- results ---- */

static void top_talk_keep_last(struct top_talk *t, const struct top_action *e)
{
	if (e->is != TOP_ACT || !e->made[0] || t->nlast == TOP_LAST_MAX)
		return;
	struct top_last *l = &t->last[t->nlast++];
	*l = (struct top_last){.part = e->part, .watch = e->watch};
	snprintf(l->batch, sizeof l->batch, "%s", e->made);
}

/* As one line if there is only one; else as a page. */
static void top_talk_all_done(struct top_talk *t)
{
	const char *text = buf_text(&t->page), *end = strchr(text, '\n');
	t->acting = false;
	top_untag_all(&t->model);
	if (end && end[1] == '\0') {
		show_message(t, text);
		t->mode = MODE_LIST;
		return;
	}
	if (t->nlast)
		buf_add(&t->page, "\nu undoes it.\n");
	to_page(t, MODE_PAGE);
}

static void came_back(struct top_talk *t, struct top_action *e)
{
	if (e->turn != t->turn || t->mode != MODE_WAIT) {
		top_action_free(e);
		return;
	}
	t->waiting--;
	if (e->is == TOP_STORY) {
		buf_clear(&t->page);
		buf_add(&t->page, buf_text(&e->text));
		to_page(t, MODE_PAGE);
		top_action_free(e);
	} else if (e->dry_run) {
		e->next = t->plan;
		t->plan = e;
		if (t->waiting == 0)
			top_talk_ask(t);
	} else {
		top_talk_keep_last(t, e);
		buf_add(&t->page, buf_text(&e->text));
		top_action_free(e);
		if (t->waiting == 0)
			top_talk_all_done(t);
	}
}

void top_talk_read(struct top_talk *t)
{
	for (int i = 0; i < t->nplaces; i++) {
		struct top_part *p = top_reader_reading(t->places[i].reader);
		struct top_action *e;
		if (p)
			top_model_put(&t->model, i, p);
		while ((e = top_reader_done(t->places[i].reader)) != NULL)
			came_back(t, e);
	}
}

/* ---- keys of the list ---- */

static void top_talk_show_story(struct top_talk *t, const char *verb)
{
	const struct top_row *row = top_at(&t->model, TOP_JOBS);
	(void)verb;
	if (!row) {
		show_message(t, "nothing is stuck: there is no job to show");
		return;
	}
	struct top_action *e = top_action_new(TOP_STORY, row->part, row->watch);
	e->jobs = ARENA_ARRAY(&e->arena, const char *, 1);
	e->jobs[0] = arena_strdup(&e->arena, row->job);
	e->njobs = 1;
	begin_turn(t);
	send(t, e);
}

static void tag_row(struct top_talk *t, const char *verb)
{
	const struct top_row *row = top_at(&t->model, TOP_JOBS);
	(void)verb;
	if (!row || t->model.focus != TOP_JOBS)
		return;
	top_tag(&t->model, row);
	top_move(&t->model, 1);
}

static void begin_filter(struct top_talk *t, const char *verb)
{
	(void)verb;
	t->input[0] = '\0';
	t->mode = MODE_FILTER;
}

static void clear_all(struct top_talk *t, const char *verb)
{
	(void)verb;
	top_untag_all(&t->model);
	top_filter(&t->model, "");
}

static void top_talk_leave(struct top_talk *t, const char *verb)
{
	(void)verb;
	t->quit = true;
}

static void show_help(struct top_talk *t, const char *verb);

static void next_pane(struct top_talk *t, const char *verb)
{
	top_focus(&t->model, text_eq(verb, "back") ? -1 : 1);
}

static const struct list_key {
	int key;
	void (*does)(struct top_talk *t, const char *verb);
	const char *verb, *name, *help;
} list_keys[] = {
	{TOP_KEY_TAB, next_pane, NULL, "Tab", "the next pane; Shift-Tab: the previous one"},
	{TOP_KEY_BACK_TAB, next_pane, "back", NULL, NULL},
	{'/', begin_filter, NULL, "/", "only jobs and workers with this text"},
	{' ', tag_row, NULL, "space", "tag a job; actions apply to the tagged ones"},
	{TOP_KEY_ESCAPE, clear_all, NULL, "Esc", "clear the filter and the tags"},
	{TOP_KEY_ENTER, top_talk_show_story, NULL, "Enter", "the history of the job under the cursor"},
	{'r', plan_act, "requeue", "r", "requeue: make available to any worker"},
	{'R', plan_act, "retry", "R", "retry: run again at once, from where it failed"},
	{'f', plan_act, "fail", "f", "fail: end as failed"},
	{'h', plan_act, "hold", "h", "hold: keep automation away until released"},
	{'e', plan_act, "release", "e", "release a held job"},
	{'u', plan_undo, "undo", "u",
     "undo the last action done here, else the last change to the job"},
	{'p', plan_pause, NULL, "p", "pause or resume recovery of the watch"},
	{'?', show_help, NULL, "?", "this help"},
	{'q', top_talk_leave, NULL, "q", "quit"},
};
#define LIST_KEYS (sizeof list_keys / sizeof *list_keys)

static void show_help(struct top_talk *t, const char *verb)
{
	(void)verb;
	buf_clear(&t->page);
	buf_add(&t->page, "Keys of defib top\n\n  arrows  up and down; also j and k\n");
	for (size_t i = 0; i < LIST_KEYS; i++)
		if (list_keys[i].name)
			buf_addf(&t->page, "  %-7s %s\n", list_keys[i].name, list_keys[i].help);
	buf_add(&t->page, "\nEach action asks for a reason, shows what would be done, and asks "
	                  "for\nconfirmation. WOULD is what a scan would do to a job.\n");
	to_page(t, MODE_PAGE);
}

/* How far a key moves; 0: it does not. */
static int steps(int key, int page)
{
	const struct {
		int key, by;
	} moves[] = {{TOP_KEY_UP, -1},
	             {TOP_KEY_DOWN, 1},
	             {'k', -1},
	             {'j', 1},
	             {TOP_KEY_PAGE_UP, -page},
	             {TOP_KEY_PAGE_DOWN, page},
	             {TOP_KEY_HOME, -1000000},
	             {TOP_KEY_END, 1000000}};
	for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
		if (moves[i].key == key)
			return moves[i].by;
	return 0;
}

static void list_key(struct top_talk *t, int key, const struct top_size *size)
{
	int by = steps(key, size->height / 2);
	t->message[0] = '\0';
	if (by)
		top_move(&t->model, by);
	for (size_t i = 0; i < LIST_KEYS; i++)
		if (list_keys[i].key == key) {
			list_keys[i].does(t, list_keys[i].verb);
			return;
		}
}

/* ---- keys elsewhere ---- */

/* One character more, or one less. */
static void type(struct top_talk *t, int key)
{
	size_t len = strlen(t->input);
	char bytes[MB_LEN_MAX + 1];
	mbstate_t state = {0};
	if (key == TOP_KEY_ERASE) {
		while (len > 0 && ((unsigned char)t->input[len - 1] & 0xc0) == 0x80)
			len--;
		t->input[len ? len - 1 : 0] = '\0';
		return;
	}
	if (key < 0x20 || key >= TOP_KEY_UP)
		return;
	size_t n = wcrtomb(bytes, (wchar_t)key, &state);
	if (n == (size_t)-1 || len + n >= sizeof t->input)
		return;
	bytes[n] = '\0';
	snprintf(t->input + len, sizeof t->input - len, "%s", bytes);
}

static void filter_key(struct top_talk *t, int key)
{
	if (key == TOP_KEY_ESCAPE)
		t->input[0] = '\0';
	else
		type(t, key);
	top_filter(&t->model, t->input);
	if (key == TOP_KEY_ESCAPE || key == TOP_KEY_ENTER)
		to_list(t);
}

static void reason_key(struct top_talk *t, int key)
{
	if (key == TOP_KEY_ESCAPE) {
		to_list(t);
		show_message(t, "nothing was changed");
	} else if (key == TOP_KEY_ENTER) {
		reason_given(t);
	} else {
		type(t, key);
	}
}

static void ask_key(struct top_talk *t, int key, const struct top_size *size)
{
	int by = steps(key, size->height / 2);
	if (key == 'y' || key == 'Y') {
		agreed(t);
	} else if (by) {
		t->page_from += by;
	} else if (key != TOP_KEY_RESIZE) {
		to_list(t);
		show_message(t, "nothing was changed");
	}
}

static void page_key(struct top_talk *t, int key, const struct top_size *size)
{
	int by = steps(key == ' ' ? TOP_KEY_PAGE_DOWN : key, size->height - 2);
	t->page_from += by;
	if (key == 'q' || key == TOP_KEY_ESCAPE || key == TOP_KEY_ENTER)
		to_list(t);
}

void top_talk_key(struct top_talk *t, int key, const struct top_size *size)
{
	switch (t->mode) {
	case MODE_LIST:
		list_key(t, key, size);
		break;
	case MODE_FILTER:
		filter_key(t, key);
		break;
	case MODE_REASON:
		reason_key(t, key);
		break;
	case MODE_WAIT:
		/* A confirmed act is under way; a mere request can be abandoned. */
		t->quit = key == 'q' && !t->acting;
		if (key == TOP_KEY_ESCAPE && !t->acting)
			to_list(t);
		break;
	case MODE_ASK:
		ask_key(t, key, size);
		break;
	case MODE_PAGE:
		page_key(t, key, size);
		break;
	}
}

/* ---- the screen ---- */

/* Of every database that was read; unknown is not shown as 0. */
static void stuck_text(const struct top_model *m, struct buf *out)
{
	int64_t n = 0;
	bool more = false;
	if (m->filter[0]) { /* of the listed ones, these contain its text */
		buf_add_count(out, m->nshown[TOP_JOBS]);
		buf_add(out, " stuck");
		return;
	}
	for (int i = 0; i < m->nparts; i++) {
		n += m->parts[i] ? m->parts[i]->stuck : 0;
		more = more || !m->parts[i] || m->parts[i]->stuck_more;
	}
	if (n == 0 && more) {
		buf_add(out, "stuck: not known");
		return;
	}
	buf_add_count(out, n);
	buf_add(out, more ? " or more stuck" : " stuck");
}

/* A number of its own: no worker has these jobs. */
static void unstarted_text(const struct top_model *m, struct buf *out)
{
	int64_t n = 0;
	for (int i = 0; i < m->nparts; i++)
		n += m->parts[i] ? m->parts[i]->unstarted : 0;
	if (n == 0)
		return;
	buf_add(out, ", ");
	buf_add_count(out, n);
	buf_add(out, " not started");
}

static void title_text(const struct top_talk *t, struct buf *out)
{
	buf_add(out, "defib top ");
	for (int i = 0; i < t->nplaces; i++)
		buf_addf(out, " %s", t->places[i].database->name);
	buf_add(out, "  ");
	stuck_text(&t->model, out);
	unstarted_text(&t->model, out);
	if (t->model.ntags)
		buf_addf(out, ", %d tagged", t->model.ntags);
	if (t->model.filter[0])
		buf_addf(out, ", filter \"%s\"", t->model.filter);
}

/* As many as fit, none of them cut. */
static void key_texts(int width, struct buf *out)
{
	static const char *const keys[] = {
		"? help",  "q quit", "Tab pane", "/ filter",  "space tag", "Enter history", "r requeue",
		"R retry", "f fail", "h hold",   "e release", "u undo",    "p pause",
	};
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (out_width(buf_text(out)) + (out->len ? 2 : 0) + out_width(keys[i]) <= width)
			buf_addf(out, "%s%s", out->len ? "  " : "", keys[i]);
}

static void last_text(const struct top_talk *t, int width, struct buf *out)
{
	static const char *const texts[] = {
		[MODE_FILTER] = "filter: ",
		[MODE_WAIT] = "asking the database ...",
		[MODE_ASK] = "Do it? [y/N] ",
		[MODE_PAGE] = "q back  arrows scroll",
	};
	if (t->mode == MODE_LIST && t->message[0])
		buf_add(out, t->message);
	else if (t->mode == MODE_LIST)
		key_texts(width, out);
	else if (t->mode == MODE_REASON)
		buf_addf(out, "%s: reason (Enter continues, Esc cancels): %s", t->verb, t->input);
	else
		buf_addf(out, "%s%s", texts[t->mode], t->mode == MODE_FILTER ? t->input : "");
}

static int clamp_page(int from, int lines, int height)
{
	int most = lines - height > 0 ? lines - height : 0;
	from = from > most ? most : from;
	return from < 0 ? 0 : from;
}

int top_talk_lines(struct top_talk *t, const struct top_size *size, struct arena *a,
                   struct top_line *out)
{
	AUTO_BUF text = BUF_INIT;
	bool page = t->mode == MODE_PAGE || t->mode == MODE_ASK;
	bool types = t->mode == MODE_FILTER || t->mode == MODE_REASON || t->mode == MODE_ASK;
	if (page) {
		const char *shown = buf_text(&t->page);
		t->page_lines = top_page_lines(shown, 0, size, a, out);
		t->page_from = clamp_page(t->page_from, t->page_lines, size->height - 1);
		top_page_lines(shown, t->page_from, size, a, out);
	} else {
		title_text(t, &text);
		top_lines(&t->model, t->environment, buf_text(&text), size, a, out);
		buf_clear(&text);
	}
	last_text(t, size->width - 1, &text);
	int cursor = types ? out_width(buf_text(&text)) : -1;
	/* The last column stays free: a character there makes some terminals scroll. */
	struct top_size shorter = {size->width > 1 ? size->width - 1 : 1, size->height, size->ascii};
	top_line_text(&out[size->height - 1], a, buf_text(&text),
	              (struct top_span){.bold = types, .color = types ? COLOR_NONE : COLOR_DIM},
	              &shorter);
	return cursor;
}
