/* SPDX-License-Identifier: Apache-2.0
 * report_forms.c: a report in its forms: text for a terminal, Markdown for chat and mail, a
 * self-contained HTML page, and JSON. See report.h.
 *
 * In Markdown, names are in code spans, where only a backtick has a meaning. Angle brackets are
 * still replaced by look-alikes, because some chat services process <!channel> and links before
 * Markdown.
 */
#include "base/clock.h"
#include "recover/masked.h"
#include "view/output.h"
#include "view/report.h"

#include <assert.h>

struct form {
	struct report_style style;
	const char *head, *begin, *title_end, *end;                 /* of the document */
	const char *heading, *heading_end;                          /* of a watch */
	const char *lines, *lines_end;                              /* around a block of lines */
	void (*line)(const struct report_line *l, struct buf *out); /* before its text … */
	const char *line_end;                                       /* … and after it */
	void (*days)(const struct report_watch *w, struct buf *out);
};

/* A bar on the scale of the highest day; a day with any value shows something. */
static void bar(int64_t n, int64_t peak, int width, struct buf *out)
{
	int64_t blocks = (n * width + peak - 1) / peak;
	for (int64_t i = 0; i < blocks; i++)
		buf_add(out, "█");
	buf_addf(out, "%s%lld", blocks ? " " : "", (long long)n);
}

/* ---- text ---- */

#define LABEL_WIDTH 20
#define TEXT_BAR 40

static void plain(struct buf *out, const char *text, size_t n)
{
	buf_addn(out, text, n);
}

static void text_line(const struct report_line *l, struct buf *out)
{
	buf_addf(out, "%s %-*s", l->warns ? "!" : " ", LABEL_WIDTH, l->label);
}

static void text_days(const struct report_watch *w, struct buf *out)
{
	for (int i = 0; i < w->ndays; i++) {
		const struct report_day *d = &w->days[i];
		buf_addf(out, "  %s  ", d->day);
		bar(d->recovered, report_peak(w), TEXT_BAR, out);
		if (d->held)
			buf_addf(out, ", held %lld", (long long)d->held);
		if (d->reported)
			buf_addf(out, ", reported %lld", (long long)d->reported);
		buf_add(out, "\n");
	}
}

/* ---- Markdown ---- */

#define MARKDOWN_BAR 24

static void markdown_code(struct buf *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text[i] == '<' || text[i] == '>')
			buf_add(out, text[i] == '<' ? "‹" : "›");
		else
			buf_addch(out, text[i] == '`' ? '\'' : text[i]);
}

static void markdown_escaped(struct buf *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '<' || text[i] == '>') {
			buf_add(out, text[i] == '<' ? "‹" : "›");
			continue;
		}
		if (strchr("\\`*_[]|~#!", text[i]))
			buf_addch(out, '\\');
		buf_addch(out, text[i]);
	}
}

static void markdown_line(const struct report_line *l, struct buf *out)
{
	buf_addf(out, "- **%s%s:** ", l->warns ? "⚠ " : "", l->label);
}

static void markdown_days(const struct report_watch *w, struct buf *out)
{
	buf_add(out, "\n```\n");
	for (int i = 0; i < w->ndays; i++) {
		buf_addf(out, "%s ", w->days[i].day);
		bar(w->days[i].recovered, report_peak(w), MARKDOWN_BAR, out);
		buf_add(out, "\n");
	}
	buf_add(out, "```\n");
}

/* ---- HTML ---- */

/* The chart's own units; the page scales it. */
#define CHART_HEIGHT 60
#define DAY_WIDTH 24
#define HTML_BAR 18

static const char html_head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	"<title>defib report</title>\n<style>\n"
	":root{color-scheme:light dark;--ink:#1c2024;--dim:#60646c;--line:#d9d9e0;--bar:#3e7bd6;"
	"--warn:#b54708;--page:#fff}\n"
	"@media (prefers-color-scheme:dark){:root{--ink:#edeef0;--dim:#b0b4ba;--line:#3a3f45;"
	"--bar:#70a5f0;--warn:#ffb86b;--page:#111315}}\n"
	"body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);"
	"max-width:60rem;margin:2rem auto;padding:0 1rem}\n"
	"h1{font-size:1.4rem}h2{font-size:1.1rem;border-top:1px solid var(--line);padding-top:1rem}\n"
	"table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;"
	"padding:.2rem .8rem .2rem 0}th{color:var(--dim);font-weight:normal;width:11rem}\n"
	".warns th,.warns td{color:var(--warn)}code{font:13px ui-monospace,monospace;"
	"overflow-wrap:anywhere}h2 code{font-size:1em}\n"
	"svg{max-width:100%;height:auto;margin-top:.5rem}svg rect{fill:var(--bar)}"
	"svg text{fill:var(--dim);font:6px system-ui,sans-serif;text-anchor:middle}\n"
	"@media print{body{margin:0;max-width:none}h2,table,svg{break-inside:avoid}}\n"
	"</style></head><body>\n";

static void html_escaped(struct buf *out, const char *text, size_t n)
{
	static const char specials[] = "&<>\"'";
	static const char *const escapes[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
	for (size_t i = 0; i < n; i++) {
		const char *at = strchr(specials, text[i]);
		if (at && text[i])
			buf_add(out, escapes[at - specials]);
		else
			buf_addch(out, text[i]);
	}
}

static void html_line(const struct report_line *l, struct buf *out)
{
	buf_addf(out, "<tr%s><th scope=\"row\">%s</th><td>", l->warns ? " class=\"warns\"" : "",
	         l->label);
}

static void html_bar(const struct report_watch *w, int i, int64_t peak, struct buf *out)
{
	const struct report_day *d = &w->days[i];
	int x = i * DAY_WIDTH, middle = x + DAY_WIDTH / 2;
	double height = (double)d->recovered * CHART_HEIGHT / (double)peak;
	double top = CHART_HEIGHT + 8 - height;
	buf_addf(
		out,
		"<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"><title>%s: %lld</title></rect>",
		x + (DAY_WIDTH - HTML_BAR) / 2, top, HTML_BAR, height, d->day, (long long)d->recovered);
	buf_addf(out, "<text x=\"%d\" y=\"%.1f\">%lld</text>", middle, top - 2,
	         (long long)d->recovered);
	buf_addf(out, "<text x=\"%d\" y=\"%d\">%s</text>\n", middle, CHART_HEIGHT + 16, d->day + 5);
}

static void html_days(const struct report_watch *w, struct buf *out)
{
	int64_t peak = report_peak(w);
	int width = w->ndays * DAY_WIDTH, height = CHART_HEIGHT + 20;
	buf_addf(out,
	         "<svg role=\"img\" aria-label=\"recovered by day\" viewBox=\"0 0 %d %d\" "
	         "width=\"%d\" height=\"%d\">\n",
	         width, height, width * 2, height * 2);
	for (int i = 0; i < w->ndays; i++)
		html_bar(w, i, peak, out);
	buf_add(out, "</svg>\n");
}

/* ---- the document ---- */

static const struct form forms[] = {
	[REPORT_TEXT] =
		{
			.style = {"", "", plain, plain},
			.begin = "defib report, ",
			.title_end = "\n",
			.heading = "\n",
			.heading_end = "\n",
			.line = text_line,
			.line_end = "\n",
			.days = text_days,
		},
	[REPORT_MARKDOWN] =
		{
			.style = {"`", "`", markdown_code, markdown_escaped},
			.begin = "# defib report, ",
			.title_end = "\n",
			.heading = "\n## ",
			.heading_end = "\n",
			.line = markdown_line,
			.line_end = "\n",
			.days = markdown_days,
		},
	[REPORT_HTML] =
		{
			.style = {"<code>", "</code>", html_escaped, html_escaped},
			.head = html_head,
			.begin = "<h1>defib report, ",
			.title_end = "</h1>\n",
			.end = "</body></html>\n",
			.heading = "<h2>",
			.heading_end = "</h2>\n",
			.lines = "<table>\n",
			.lines_end = "</table>\n",
			.line = html_line,
			.line_end = "</td></tr>\n",
			.days = html_days,
		},
};

static void add(struct buf *out, const char *piece)
{
	buf_add(out, piece ? piece : "");
}

static void add_lines(const struct form *f, const struct report_lines *lines, struct buf *out)
{
	add(out, f->lines);
	for (int i = 0; i < lines->n; i++) {
		f->line(&lines->items[i], out);
		report_write(out, &f->style, lines->items[i].words);
		add(out, f->line_end);
	}
	add(out, f->lines_end);
}

static void add_watch(const struct form *f, const struct report *r, const struct report_watch *w,
                      struct arena *a, struct buf *out)
{
	struct report_lines lines;
	AUTO_BUF heading = BUF_INIT;
	report_heading(w, &heading);
	add(out, f->heading);
	report_write(out, &f->style, buf_text(&heading));
	add(out, f->heading_end);
	report_watch_lines(r, w, a, &lines);
	add_lines(f, &lines, out);
	if (!w->no_ledger)
		f->days(w, out);
}

static void write_document(const struct form *f, const struct report *r, struct buf *out)
{
	AUTO_ARENA a = ARENA_INIT;
	struct report_lines lines;
	add(out, f->head);
	add(out, f->begin);
	report_span(r, out);
	add(out, f->title_end);
	report_summary_lines(r, &a, &lines);
	add_lines(f, &lines, out);
	for (int i = 0; i < r->nwatches; i++)
		add_watch(f, r, &r->watches[i], &a, out);
	add(out, f->end);
}

/* ---- JSON ---- */

#define N(member) offsetof(struct report_numbers, member)
static const struct {
	const char *name;
	size_t offset;
} numbers[] = {
	{"detected", N(detected)},
	{"recovered", N(recovered)},
	{"requeued", N(requeued)},
	{"retried", N(retried)},
	{"failed", N(failed)},
	{"rollbacks", N(rollbacks)},
	{"recovered_by_hand", N(recovered_by_hand)},
	{"rolled_back", N(rolled_back)},
	{"held", N(held)},
	{"reported", N(reported)},
	{"retries_exhausted", N(exhausted)},
	{"late_completions", N(late)},
	{"workers_returned", N(returned)},
	{"changed_meanwhile", N(changed)},
	{"brakes", N(brakes)},
	{"by_hand", N(by_hand)},
};
#undef N

/* {"recovered":…}, without its first comma. */
static void add_numbers(const struct report_numbers *n, struct buf *out)
{
	buf_add(out, "{");
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		buf_addf(out, "%s\"%s\":%lld", i ? "," : "", numbers[i].name,
		         (long long)*(const int64_t *)((const char *)n + numbers[i].offset));
	buf_add(out, "}");
}

static void add_both(const struct report_numbers *now, const struct report_numbers *before,
                     struct buf *out)
{
	buf_add(out, ",\"now\":");
	add_numbers(now, out);
	buf_add(out, ",\"before\":");
	add_numbers(before, out);
}

static void add_days(const struct report_watch *w, struct buf *out)
{
	buf_add(out, ",\"days\":[");
	for (int i = 0; i < w->ndays; i++)
		buf_addf(out, "%s\n{\"day\":\"%s\",\"recovered\":%lld,\"held\":%lld,\"reported\":%lld}",
		         i ? "," : "", w->days[i].day, (long long)w->days[i].recovered,
		         (long long)w->days[i].held, (long long)w->days[i].reported);
	buf_add(out, "]");
}

/* ,"kinds":[{"n":2,"kind":"crawl"}]; `also` NULL: one name only. */
static void add_top(const char *list, const struct digest_list *t, const char *name,
                    const char *also, struct buf *out)
{
	buf_addf(out, ",\"%s\":[", list);
	for (int i = 0; i < t->n; i++) {
		buf_addf(out, "%s{\"n\":%lld", i ? "," : "", (long long)t->items[i].n);
		json_text(out, name, t->items[i].name);
		if (also)
			json_text(out, also, t->items[i].also);
		buf_add(out, "}");
	}
	buf_add(out, "]");
}

static void add_holds(const struct report_watch *w, struct buf *out)
{
	json_number(out, "waiting", true, w->waiting);
	buf_add(out, ",\"holds\":[");
	for (int i = 0; i < w->nholds; i++) {
		buf_addf(out, "%s{\"job\":", i ? "," : "");
		buf_add_json(out, w->holds[i].job);
		json_text(out, "at", w->holds[i].at);
		json_text(out, "cause", w->holds[i].cause);
		AUTO_SECRETS secrets = {0};
		secrets_owner(&secrets, w->watch, w->holds[i].owner);
		masked_member(w->watch, &secrets, "reason", w->holds[i].reason, out);
		buf_add(out, "}");
	}
	buf_add(out, "]");
}

static void json_watch(const struct report_watch *w, struct buf *out)
{
	bool timed = w->times.n > 0;
	buf_add(out, "{\"watch\":");
	buf_add_json(out, w->watch->name);
	json_text(out, "database", w->database->name);
	json_text(out, "label", w->watch->label);
	json_text(out, "group", w->watch->group);
	json_text(out, "no_ledger", w->no_ledger);
	json_text(out, "missing", w->missing.code ? w->missing.what : NULL);
	add_both(&w->now, &w->before, out);
	add_days(w, out);
	buf_addf(out, ",\"time_to_recover\":{\"n\":%lld", (long long)w->times.n);
	json_seconds(out, "median_s", timed, w->times.median_us);
	json_seconds(out, "longest_s", timed, w->times.worst_us);
	buf_add(out, "}");
	add_top("causes", &w->causes, "verdict", "rule", out);
	add_top("kinds", &w->kinds, "kind", NULL, out);
	add_top("owners", &w->owners, "owner", NULL, out);
	add_top("jobs", &w->jobs, "job", NULL, out);
	add_top("actions", &w->actors, "actor", "event", out);
	json_number(out, "false_positives", true, w->mistakes);
	json_number(out, "near_misses", w->has_near_misses, w->near_misses);
	add_holds(w, out);
	json_texts(out, "advice", w->advice, w->nadvice);
	buf_add(out, "}");
}

static void report_json(const struct report *r, struct buf *out)
{
	struct report_numbers now, before;
	report_total(r, &now, &before);
	buf_add(out, "{\"from\":\"");
	time_iso(r->period.from_us, out);
	buf_add(out, "\"");
	json_time(out, "to", true, r->period.to_us);
	add_both(&now, &before, out);
	buf_add(out, ",\"watches\":[");
	for (int i = 0; i < r->nwatches; i++) {
		buf_add(out, i ? ",\n" : "\n");
		json_watch(&r->watches[i], out);
	}
	buf_add(out, "],\"not_reported\":[");
	for (int i = 0; i < r->nlost; i++) {
		buf_addf(out, "%s{\"database\":", i ? "," : "");
		buf_add_json(out, r->lost[i].database);
		json_text(out, "because", r->lost[i].failure.what);
		buf_add(out, "}");
	}
	buf_add(out, "]}\n");
}

void report_render(enum report_form form, const struct report *r, struct buf *out)
{
	assert(form < REPORT_FORMS);
	if (form == REPORT_JSON)
		report_json(r, out);
	else
		write_document(&forms[form], r, out);
}
