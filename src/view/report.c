/* SPDX-License-Identifier: Apache-2.0 */
#include "view/report.h"

#include "base/clock.h"
#include "insight/run_times.h"
#include "ledger/events.h"
#include "recover/masked.h"
#include "view/output.h"

#include <assert.h>

const char *const report_form_names[] = {"text", "markdown", "html", "json", NULL};

int report_form_named(const char *name)
{
	return word_index(report_form_names, name);
}

const char *report_type(enum report_form form)
{
	static const char *const types[REPORT_FORMS] = {
		[REPORT_TEXT] = "text/plain; charset=utf-8",
		[REPORT_MARKDOWN] = "text/markdown; charset=utf-8",
		[REPORT_HTML] = "text/html; charset=utf-8",
		[REPORT_JSON] = "application/json",
	};
	assert(form < REPORT_FORMS);
	return types[form];
}

/* ---- texts ---- */

/* Foreign text without control characters, as UTF-8: safe between marks. */
static void report_clean(struct buf *out, const char *text)
{
	while (text && *text) {
		size_t n = utf8_len(text);
		if (n == 0 || utf8_is_control(text))
			buf_addch(out, n == 0 ? '?' : ' ');
		else
			buf_addn(out, text, n);
		text += n ? n : 1;
	}
}

static void report_add_name(struct buf *out, const char *name)
{
	buf_addch(out, MARK_NAME);
	report_clean(out, name && *name ? name : "-");
	buf_addch(out, MARK_END);
}

static void report_add_text(struct buf *out, const char *text)
{
	buf_addch(out, MARK_TEXT);
	report_clean(out, text);
	buf_addch(out, MARK_END);
}

static void add_length(struct buf *out, const struct report *r)
{
	duration_text(r->period.to_us - r->period.from_us, out);
}

/* "50 % more than in the 7d before (8)" */
static void add_trend(struct buf *out, const struct report *r, int64_t now, int64_t before)
{
	AUTO_BUF length = BUF_INIT;
	add_length(&length, r);
	if (before == 0 || now == before) {
		buf_addf(out, before == 0 ? "none in the %s before" : "as many as in the %s before",
		         buf_text(&length));
	} else {
		double change = (double)(now - before) / (double)before * 100;
		buf_addf(out, "%.0f %% %s than in the %s before (", change < 0 ? -change : change,
		         change < 0 ? "less" : "more", buf_text(&length));
		buf_add_count(out, before);
		buf_add(out, ")");
	}
}

/* ---- lines ---- */

static void report_add_line(struct report_lines *out, struct arena *a, const char *label,
                            bool warns, struct buf *words)
{
	assert(out->n < REPORT_LINES_MAX);
	if (words->len)
		out->items[out->n++] = (struct report_line){label, arena_strdup(a, buf_text(words)), warns};
	buf_release(words);
}

static void report_part(struct buf *out, int64_t n, const char *what)
{
	if (n == 0)
		return;
	buf_add(out, out->len ? ", " : "");
	buf_add_count(out, n);
	buf_addf(out, " %s", what);
}

static void recovered_text(const struct report *r, const struct report_numbers *now,
                           const struct report_numbers *before, struct buf *out)
{
	AUTO_BUF parts = BUF_INIT;
	for (int i = 0; i < REMEDY_COUNT; i++)
		report_part(&parts, now->by_remedy[i], event_named(act_event(i))->label);
	buf_add_count(out, now->recovered);
	if (parts.len)
		buf_addf(out, " (%s)", buf_text(&parts));
	if (now->recovered_by_hand) {
		buf_add(out, ", ");
		buf_add_count(out, now->recovered_by_hand);
		buf_add(out, " of them by hand");
	}
	buf_add(out, "; ");
	add_trend(out, r, now->recovered, before->recovered);
}

static void top_text(const struct digest_list *t, struct buf *out)
{
	for (int i = 0; i < t->n; i++) {
		buf_add(out, i ? ", " : "");
		report_add_name(out, t->items[i].name);
		if (t->items[i].also && !text_eq(t->items[i].also, t->items[i].name)) {
			buf_add(out, " ");
			report_add_name(out, t->items[i].also);
		}
		buf_add(out, ": ");
		buf_add_count(out, t->items[i].n);
	}
}

static void times_text(const struct report_watch *w, struct buf *out)
{
	if (w->times.n == 0)
		return;
	buf_add(out, "median ");
	duration_text(w->times.median_us, out);
	buf_add(out, ", longest ");
	duration_text(w->times.worst_us, out);
	buf_add(out, " from the end or last sign of life of the worker to the recovery");
}

static void hold_text(const struct report_watch *w, struct buf *out)
{
	if (w->waiting == 0)
		return;
	buf_add_count(out, w->waiting);
	buf_add(out, w->nholds < w->waiting ? ", the oldest: " : ": ");
	for (int i = 0; i < w->nholds; i++) {
		buf_add(out, i ? "; " : "");
		report_add_name(out, w->holds[i].job);
		buf_addf(out, " since %.10s", w->holds[i].at);
		if (w->holds[i].reason) {
			AUTO_SECRETS secrets = {0};
			AUTO_BUF reason = BUF_INIT;
			secrets_owner(&secrets, w->watch, w->holds[i].owner);
			masked_free_text(w->watch, &secrets, w->holds[i].reason, &reason);
			buf_add(out, ", ");
			report_add_text(out, buf_text(&reason));
		}
	}
}

static void mistake_text(const struct report_watch *w, struct buf *out)
{
	/* An operator's choice is not a verdict of defib, and so not a mistake. */
	int64_t recovered = w->now.recovered - w->now.recovered_by_hand;
	if (w->mistakes == 0)
		return;
	buf_add_count(out, w->mistakes);
	buf_add(out, " of ");
	buf_add_count(out, recovered);
	buf_add(out, " (");
	share_text(recovered ? (double)w->mistakes / (double)recovered : 1, out);
	buf_add(out, "): the worker was alive and finished the job");
}

static void report_count_line(struct report_lines *out, struct arena *a, const char *label,
                              bool warns, int64_t n, const char *what)
{
	struct buf words = BUF_INIT;
	report_part(&words, n, what);
	report_add_line(out, a, label, warns, &words);
}

/* What went wrong, or nearly did. */
static void trouble_lines(const struct report_watch *w, struct arena *a, struct report_lines *out)
{
	struct buf mistakes = BUF_INIT, holds = BUF_INIT;
	hold_text(w, &holds);
	report_add_line(out, a, "waiting for an operator", true, &holds);
	report_count_line(out, a, "held", false, w->now.held, "put on hold in this period");
	report_count_line(out, a, "rolled back", false, w->now.rolled_back, "rollbacks completed");
	report_count_line(out, a, "only reported", false, w->now.reported,
	                  "found stuck and not changed");
	report_count_line(out, a, "retries exhausted", true, w->now.exhausted, "had no attempts left");
	mistake_text(w, &mistakes);
	report_add_line(out, a, "false positives", true, &mistakes);
	report_count_line(out, a, "late completions", false, w->now.late,
	                  "reported the end of a job that was no longer theirs");
	report_count_line(out, a, "workers returned", false, w->now.returned,
	                  "returned after they were declared dead");
	report_count_line(out, a, "near misses", false, w->has_near_misses ? w->near_misses : 0,
	                  "were close to their limit, since the daemon was started");
	report_count_line(out, a, "brake", true, w->now.brakes,
	                  "times most workers fell silent at once and none was declared dead");
}

static void advice_line(const struct report_watch *w, struct arena *a, struct report_lines *out)
{
	struct buf words = BUF_INIT;
	for (int i = 0; i < w->nadvice; i++) {
		buf_add(&words, i ? "; " : "");
		report_add_text(&words, w->advice[i]);
	}
	report_add_line(out, a, "thresholds", false, &words);
}

void report_watch_lines(const struct report *r, const struct report_watch *w, struct arena *a,
                        struct report_lines *out)
{
	const struct {
		const char *label;
		const struct digest_list *top;
	} lists[] = {{"causes", &w->causes},
	             {"kinds", &w->kinds},
	             {"owners", &w->owners},
	             {"repeated jobs", &w->jobs}};
	struct buf words = BUF_INIT, times = BUF_INIT, actors = BUF_INIT;
	*out = (struct report_lines){0};
	if (w->no_ledger) {
		buf_add(&words, w->no_ledger);
		report_add_line(out, a, "nothing to report", false, &words);
		return;
	}
	recovered_text(r, &w->now, &w->before, &words);
	report_add_line(out, a, "recovered", false, &words);
	times_text(w, &times);
	report_add_line(out, a, "time to recover", false, &times);
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		struct buf top = BUF_INIT;
		bool once = lists[i].top == &w->jobs && w->jobs.n && w->jobs.items[0].n < 2;
		if (!once) /* no job was recovered more often than another */
			top_text(lists[i].top, &top);
		report_add_line(out, a, lists[i].label, false, &top);
	}
	trouble_lines(w, a, out);
	top_text(&w->actors, &actors);
	report_add_line(out, a, "by hand", false, &actors);
	advice_line(w, a, out);
	if (w->missing.code) {
		struct buf why = BUF_INIT;
		report_add_text(&why, w->missing.what);
		report_add_line(out, a, "numbers missing", true, &why);
	}
}

void report_summary_lines(const struct report *r, struct arena *a, struct report_lines *out)
{
	struct report_numbers now, before;
	struct buf words = BUF_INIT, lost = BUF_INIT;
	int64_t mistakes = 0, waiting = 0;
	*out = (struct report_lines){0};
	report_total(r, &now, &before);
	for (int i = 0; i < r->nwatches; i++) {
		mistakes += r->watches[i].mistakes;
		waiting += r->watches[i].waiting;
	}
	recovered_text(r, &now, &before, &words);
	report_add_line(out, a, "recovered", false, &words);
	report_count_line(out, a, "waiting", true, waiting, "on hold now");
	report_count_line(out, a, "false positives", true, mistakes,
	                  "recovered although the worker was alive");
	report_count_line(out, a, "by hand", false, now.by_hand, "done by operators");
	for (int i = 0; i < r->nlost; i++) {
		buf_add(&lost, i ? "; " : "");
		report_add_name(&lost, r->lost[i].database);
		buf_add(&lost, " ");
		report_add_text(&lost, r->lost[i].failure.what);
	}
	report_add_line(out, a, "not reported", true, &lost);
}

/* ---- titles and charts ---- */

void report_span(const struct report *r, struct buf *out)
{
	AUTO_BUF iso = BUF_INIT;
	time_iso(r->period.to_us, &iso);
	add_length(out, r);
	buf_addf(out, " to %.10s %.5s UTC", buf_text(&iso), buf_text(&iso) + 11);
}

void report_heading(const struct report_watch *w, struct buf *out)
{
	buf_addch(out, MARK_NAME);
	report_clean(out, w->database->name);
	buf_addch(out, '/');
	report_clean(out, w->watch->name);
	buf_addch(out, MARK_END);
	if (w->watch->label) {
		buf_add(out, " ");
		report_add_text(out, w->watch->label);
	}
}

int64_t report_peak(const struct report_watch *w)
{
	int64_t peak = 1;
	for (int i = 0; i < w->ndays; i++)
		if (w->days[i].recovered > peak)
			peak = w->days[i].recovered;
	return peak;
}

/* ---- marks ---- */

void report_write(struct buf *out, const struct report_style *style, const char *words)
{
	while (*words) {
		if (*words != MARK_NAME && *words != MARK_TEXT) {
			size_t ours = strcspn(words, "\1\2");
			buf_addn(out, words, ours);
			words += ours;
			continue;
		}
		const char *end = strchr(words, MARK_END);
		assert(end != NULL);
		size_t n = (size_t)(end - words - 1);
		if (*words == MARK_NAME) {
			buf_add(out, style->name_open);
			style->name(out, words + 1, n);
			buf_add(out, style->name_close);
		} else {
			style->text(out, words + 1, n);
		}
		words = end + 1;
	}
}
