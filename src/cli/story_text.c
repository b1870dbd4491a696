/* story_text.c: see story_text.h. */
#include "cli/story_text.h"

#include "base/clock.h"
#include "base/text.h"
#include "cli/job_facts.h"
#include "recover/evidence.h"
#include "recover/masked.h"
#include "view/job_words.h"
#include "view/story_words.h"

#define VALUE_MAX 400

/* ---- the story in the order of time */

struct happening {
	const char *at; /* ISO, which sorts as text */
	const char *what;
	const struct ledger_row *entry; /* NULL: none */
};

static int by_time(const void *a, const void *b)
{
	const struct happening *x = a, *y = b;
	int order = strcmp(x->at, y->at);
	if (order == 0 && x->entry && y->entry)
		order = (x->entry->id > y->entry->id) - (x->entry->id < y->entry->id);
	return order;
}

static struct happening happened(struct story_sheet *x, int64_t us, const char *what)
{
	struct buf iso = BUF_INIT;
	time_iso(us, &iso);
	struct happening h = {arena_strdup(x->arena, buf_text(&iso)), what, NULL};
	buf_release(&iso);
	return h;
}

static const char *started_words(struct story_sheet *x)
{
	struct buf text = BUF_INIT;
	const struct facts *f = &x->story.row.facts;
	buf_add(&text, "started");
	if (f->has_attempts) {
		buf_add(&text, ", attempt ");
		attempts_words(f, &text);
	}
	if (f->owner) {
		buf_add(&text, ", worker ");
		shown_owner(x->watch, f->owner, &text);
	}
	const char *words = arena_strdup(x->arena, buf_text(&text));
	buf_release(&text);
	return words;
}

static const char *step_words(struct story_sheet *x, const struct story_step *s)
{
	struct buf text = BUF_INIT;
	buf_addf(&text, "step %s: %s", s->name, s->state);
	if (s->has_started) {
		buf_add(&text, ", took ");
		duration_text(s->finished_us - s->started_us, &text);
	}
	if (s->error) {
		buf_add(&text, ": ");
		masked_words(x->watch, NULL, s->error, &text);
	}
	const char *words = arena_strdup(x->arena, buf_text(&text));
	buf_release(&text);
	return words;
}

static const char *entry_line(struct story_sheet *x, const struct ledger_row *r)
{
	struct buf text = BUF_INIT, change = BUF_INIT;
	entry_words(x->watch, r, &text);
	change_words(x->watch, r, false, &change);
	if (change.len)
		buf_addf(&text, " (%s)", buf_text(&change));
	buf_addf(&text, "  [%s by %s", r->event, r->actor);
	if (r->rule)
		buf_addf(&text, ", %s", r->rule);
	buf_addf(&text, ", batch %s]", r->batch);
	const char *words = arena_strdup(x->arena, buf_text(&text));
	buf_release(&text);
	buf_release(&change);
	return words;
}

/* All of it, sorted; returns how many. */
static int happenings(struct story_sheet *x, struct happening **out)
{
	const struct story *s = &x->story;
	const char *const moments[] = {"created", started_words(x), "finished"};
	int n = 0;
	*out = ARENA_ARRAY(x->arena, struct happening, MOMENT_COUNT + s->nsteps + s->nentries + 2);
	for (int m = 0; m < MOMENT_COUNT; m++)
		if (s->has[m])
			(*out)[n++] = happened(x, s->at_us[m], moments[m]);
	for (int i = 0; i < s->nsteps; i++)
		(*out)[n++] = happened(x, s->steps[i].finished_us, step_words(x, &s->steps[i]));
	if (s->progress.there)
		(*out)[n++] = happened(x, s->progress.at_us,
		                       arena_printf(x->arena, "progress: %s%s%s",
		                                    s->progress.step ? s->progress.step : "",
		                                    s->progress.step && s->progress.text ? ", " : "",
		                                    s->progress.text ? s->progress.text : ""));
	for (int i = 0; i < s->nentries; i++)
		(*out)[n++] =
			(struct happening){s->entries[i].at, entry_line(x, &s->entries[i]), &s->entries[i]};
	if (s->has_retry)
		(*out)[n++] =
			happened(x, s->retry.due_us,
		             s->retry.due_us > s->row.facts.now_us ? "retry is due then" : "retry was due");
	qsort(*out, (size_t)n, sizeof **out, by_time);
	return n;
}

static void log_lines(const struct story_sheet *x, const struct ledger_row *r, struct buf *out)
{
	const struct {
		const char *name, *text;
	} documents[] = {{"evidence", r->evidence}, {"before", r->before}, {"after", r->after}};
	struct buf line = BUF_INIT;
	struct secrets secrets = {0};
	story_secrets(x->watch, &x->story, &secrets);
	for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
		if (!documents[i].text)
			continue;
		buf_clear(&line);
		masked_document(x->watch, &secrets, documents[i].text, &line);
		buf_addf(out, "      %-8s ", documents[i].name);
		out_padded(out, buf_text(&line), 0);
		buf_add(out, "\n");
	}
	buf_release(&line);
	secrets_release(&secrets);
}

static void print_timeline(struct story_sheet *x, struct buf *out)
{
	struct happening *all;
	int n = happenings(x, &all);
	if (n > 0)
		buf_add(out, "\nTimeline\n");
	for (int i = 0; i < n; i++) {
		buf_addf(out, "  %s  ", all[i].at);
		out_padded(out, all[i].what, 0);
		buf_add(out, "\n");
		if (all[i].entry && x->logs)
			log_lines(x, all[i].entry, out);
	}
	if (x->story.nentries == STORY_ENTRIES_MAX)
		buf_addf(out, "  (the latest %d entries of the ledger; all: defib ledger --job …)\n",
		         STORY_ENTRIES_MAX);
}

/* ---- the whole row */

static void print_value(const char *value, struct buf *out)
{
	size_t len = strlen(value);
	struct buf count = BUF_INIT;
	if (len <= VALUE_MAX) {
		out_padded(out, value, 0);
		buf_add(out, "\n");
		return;
	}
	size_t at = VALUE_MAX;
	while (at > 0 && ((unsigned char)value[at] & 0xc0) == 0x80)
		at--;
	char *begin = strndup(value, at);
	out_count(&count, (int64_t)len);
	out_padded(out, begin ? begin : "", 0);
	buf_addf(out, "… (%s bytes; --raw has all)\n", buf_text(&count));
	free(begin);
	buf_release(&count);
}

static void add_shown(const struct watch *w, const struct secrets *s, const char *column,
                      const char *text, struct buf *out)
{
	masked_text(w, s, column, text, out);
	if (!text_eq(buf_text(out), text))
		return;
	buf_clear(out);
	shown_value(w, column, text, out);
}

static void print_row(const struct story_sheet *x, struct buf *out)
{
	const struct story *s = &x->story;
	struct buf value = BUF_INIT;
	struct secrets secrets = {0};
	int width = 0;
	story_secrets(x->watch, s, &secrets);
	for (int i = 0; i < s->ncolumns; i++)
		width = out_width(s->names[i]) > width ? out_width(s->names[i]) : width;
	buf_addf(out, "\nRow of %s\n", x->watch->table);
	for (int i = 0; i < s->ncolumns; i++) {
		buf_clear(&value);
		if (s->values[i])
			add_shown(x->watch, &secrets, s->names[i], s->values[i], &value);
		buf_add(out, "  ");
		out_padded(out, s->names[i], width);
		buf_add(out, "  ");
		print_value(s->values[i] ? buf_text(&value) : "null", out);
	}
	for (int i = 0; i < s->nsteps; i++) {
		buf_add(out, i ? "" : "\nSteps\n");
		buf_addf(out, "  %s (%s)  ", s->steps[i].name, s->steps[i].state);
		buf_clear(&value);
		if (s->steps[i].output)
			masked_text(x->watch, &secrets, "output", s->steps[i].output, &value);
		print_value(s->steps[i].output ? buf_text(&value) : "no output", out);
	}
	buf_release(&value);
	secrets_release(&secrets);
}

/* ---- all of it */

void story_text(struct story_sheet *x, struct buf *out)
{
	const struct story *s = &x->story;
	struct buf sentence = BUF_INIT, seen = BUF_INIT, state = BUF_INIT;
	struct fact_sheet sheet = {.arena = x->arena};
	story_sentence(x->watch, s, &x->cand, &sentence);
	out_padded(&seen, buf_text(&sentence), 0);
	out_color(out, x->color, COLOR_BOLD, buf_text(&seen));
	buf_add(out, "\n\nFacts\n");
	if (s->row.state) {
		state_words(x->watch, s->row.state, &state);
		fact_line(&sheet, "state", "%s", buf_text(&state));
	}
	fact_lines(&sheet, x->watch, &s->row.facts);
	if (s->has_claim)
		fact_claim(&sheet, &s->claim, s->row.facts.now_us);
	fact_print(&sheet, out);
	print_timeline(x, out);
	if (x->whole_row)
		print_row(x, out);
	buf_release(&sentence);
	buf_release(&seen);
	buf_release(&state);
}
