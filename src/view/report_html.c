/* report_html.c: a report as one page: see report_format.h. */
#include "view/report_format.h"
#include "view/report_words.h"

/* The chart's own units; the page scales it. */
#define CHART_HEIGHT 60
#define DAY_WIDTH 24
#define BAR_WIDTH 18

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

static void add_escaped(struct buf *out, const char *text, size_t n)
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

static const struct report_style style = {"<code>", "</code>", add_escaped, add_escaped};

static void add_lines(const struct report_lines *lines, struct buf *out)
{
	buf_add(out, "<table>\n");
	for (int i = 0; i < lines->n; i++) {
		buf_addf(out, "<tr%s><th scope=\"row\">%s</th><td>",
		         lines->items[i].warns ? " class=\"warns\"" : "", lines->items[i].label);
		report_write(out, &style, lines->items[i].words);
		buf_add(out, "</td></tr>\n");
	}
	buf_add(out, "</table>\n");
}

static void add_bar(const struct report_watch *w, int i, int64_t peak, struct buf *out)
{
	const struct report_day *d = &w->days[i];
	int x = i * DAY_WIDTH, middle = x + DAY_WIDTH / 2;
	double height = (double)d->recovered * CHART_HEIGHT / (double)peak;
	double top = CHART_HEIGHT + 8 - height;
	buf_addf(
		out,
		"<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"><title>%s: %lld</title></rect>",
		x + (DAY_WIDTH - BAR_WIDTH) / 2, top, BAR_WIDTH, height, d->day, (long long)d->recovered);
	buf_addf(out, "<text x=\"%d\" y=\"%.1f\">%lld</text>", middle, top - 2,
	         (long long)d->recovered);
	buf_addf(out, "<text x=\"%d\" y=\"%d\">%s</text>\n", middle, CHART_HEIGHT + 16, d->day + 5);
}

static void add_chart(const struct report_watch *w, struct buf *out)
{
	int64_t peak = report_peak(w);
	int width = w->ndays * DAY_WIDTH, height = CHART_HEIGHT + 20;
	buf_addf(out,
	         "<svg role=\"img\" aria-label=\"recovered by day\" viewBox=\"0 0 %d %d\" "
	         "width=\"%d\" height=\"%d\">\n",
	         width, height, width * 2, height * 2);
	for (int i = 0; i < w->ndays; i++)
		add_bar(w, i, peak, out);
	buf_add(out, "</svg>\n");
}

static void add_watch(const struct report *r, const struct report_watch *w, struct arena *a,
                      struct buf *out)
{
	struct report_lines lines;
	struct buf heading = BUF_INIT;
	report_heading(w, &heading);
	buf_add(out, "<h2>");
	report_write(out, &style, buf_text(&heading));
	buf_add(out, "</h2>\n");
	report_watch_lines(r, w, a, &lines);
	add_lines(&lines, out);
	if (!w->no_ledger)
		add_chart(w, out);
	buf_release(&heading);
}

void report_html(const struct report *r, struct buf *out)
{
	struct arena a = ARENA_INIT;
	struct report_lines lines;
	buf_add(out, head);
	buf_add(out, "<h1>defib report, ");
	report_span(r, out);
	buf_add(out, "</h1>\n");
	report_summary_lines(r, &a, &lines);
	add_lines(&lines, out);
	for (int i = 0; i < r->nwatches; i++)
		add_watch(r, &r->watches[i], &a, out);
	buf_add(out, "</body></html>\n");
	arena_release(&a);
}
