/* SPDX-License-Identifier: Apache-2.0
 * report_forms.c: a report for people, in the forms of one table: text for a terminal,
 * Markdown for chat and mail, and an HTML page that needs nothing else. See report.h.
 *
 * In Markdown names stand in code spans, where nothing but a backtick has a meaning; angle
 * brackets become look-alikes all the same, because some chat services read <!channel> and
 * links before they read Markdown.
 */
#include "view/report.h"

struct form {
	struct report_style style;
	const char *begin, *title_end, *end;                        /* of the document */
	const char *heading, *heading_end;                          /* of a watch */
	const char *lines, *lines_end;                              /* around a block of lines */
	void (*line)(const struct report_line *l, struct buf *out); /* before its words … */
	const char *line_end;                                       /* … and behind them */
	void (*days)(const struct report_watch *w, struct buf *out);
};

/* A bar to the scale of the best day; a day with anything at all shows something. */
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

static const char head[] =
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
	for (size_t i = 0; i < n; i++)
		switch (text[i]) {
		case '&':
			buf_add(out, "&amp;");
			break;
		case '<':
			buf_add(out, "&lt;");
			break;
		case '>':
			buf_add(out, "&gt;");
			break;
		case '"':
			buf_add(out, "&quot;");
			break;
		case '\'':
			buf_add(out, "&#39;");
			break;
		default:
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

static const struct form text = {
	.style = {"", "", plain, plain},
	.begin = "defib report, ",
	.title_end = "\n",
	.heading = "\n",
	.heading_end = "\n",
	.line = text_line,
	.line_end = "\n",
	.days = text_days,
};
static const struct form markdown = {
	.style = {"`", "`", markdown_code, markdown_escaped},
	.begin = "# defib report, ",
	.title_end = "\n",
	.heading = "\n## ",
	.heading_end = "\n",
	.line = markdown_line,
	.line_end = "\n",
	.days = markdown_days,
};
static const struct form html = {
	.style = {"<code>", "</code>", html_escaped, html_escaped},
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
	struct buf heading = BUF_INIT;
	report_heading(w, &heading);
	add(out, f->heading);
	report_write(out, &f->style, buf_text(&heading));
	add(out, f->heading_end);
	report_watch_lines(r, w, a, &lines);
	add_lines(f, &lines, out);
	if (!w->no_ledger)
		f->days(w, out);
	buf_release(&heading);
}

static void write_document(const struct form *f, const struct report *r, struct buf *out)
{
	struct arena a = ARENA_INIT;
	struct report_lines lines;
	add(out, f->begin);
	report_span(r, out);
	add(out, f->title_end);
	report_summary_lines(r, &a, &lines);
	add_lines(f, &lines, out);
	for (int i = 0; i < r->nwatches; i++)
		add_watch(f, r, &r->watches[i], &a, out);
	add(out, f->end);
	arena_release(&a);
}

void report_text(const struct report *r, struct buf *out)
{
	write_document(&text, r, out);
}

void report_markdown(const struct report *r, struct buf *out)
{
	write_document(&markdown, r, out);
}

void report_html(const struct report *r, struct buf *out)
{
	buf_add(out, head);
	write_document(&html, r, out);
}
