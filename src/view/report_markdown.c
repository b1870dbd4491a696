/*
 * report_markdown.c: a report for chat and mail: see report_format.h.
 *
 * Names stand in code spans, where nothing but a backtick has a meaning; angle
 * brackets become look-alikes all the same, because some chat services read
 * <!channel> and links before they read Markdown.
 */
#include "view/report_format.h"
#include "view/report_words.h"

#define BAR_WIDTH 24

static void add_code(struct buf *out, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text[i] == '<' || text[i] == '>')
			buf_add(out, text[i] == '<' ? "‹" : "›");
		else
			buf_addch(out, text[i] == '`' ? '\'' : text[i]);
}

static void add_escaped(struct buf *out, const char *text, size_t n)
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

static const struct report_style style = {"`", "`", add_code, add_escaped};

static void add_lines(const struct report_lines *lines, struct buf *out)
{
	for (int i = 0; i < lines->n; i++) {
		buf_addf(out, "- **%s%s:** ", lines->items[i].warns ? "⚠ " : "", lines->items[i].label);
		report_write(out, &style, lines->items[i].words);
		buf_add(out, "\n");
	}
}

static void add_days(const struct report_watch *w, struct buf *out)
{
	int64_t peak = report_peak(w);
	buf_add(out, "\n```\n");
	for (int i = 0; i < w->ndays; i++) {
		int64_t width = (w->days[i].recovered * BAR_WIDTH + peak - 1) / peak;
		buf_addf(out, "%s ", w->days[i].day);
		for (int64_t k = 0; k < width; k++)
			buf_add(out, "█");
		buf_addf(out, "%s%lld\n", width ? " " : "", (long long)w->days[i].recovered);
	}
	buf_add(out, "```\n");
}

static void add_watch(const struct report *r, const struct report_watch *w, struct arena *a,
                      struct buf *out)
{
	struct report_lines lines;
	struct buf heading = BUF_INIT;
	report_heading(w, &heading);
	buf_add(out, "\n## ");
	report_write(out, &style, buf_text(&heading));
	buf_add(out, "\n");
	report_watch_lines(r, w, a, &lines);
	add_lines(&lines, out);
	if (!w->no_ledger)
		add_days(w, out);
	buf_release(&heading);
}

void report_markdown(const struct report *r, struct buf *out)
{
	struct arena a = ARENA_INIT;
	struct report_lines lines;
	buf_add(out, "# defib report, ");
	report_span(r, out);
	buf_add(out, "\n");
	report_summary_lines(r, &a, &lines);
	add_lines(&lines, out);
	for (int i = 0; i < r->nwatches; i++)
		add_watch(r, &r->watches[i], &a, out);
	arena_release(&a);
}
