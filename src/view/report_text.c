/* report_text.c: a report for a terminal: see report_format.h. */
#include "view/report_format.h"
#include "view/report_words.h"

#define LABEL_WIDTH 20
#define BAR_WIDTH 40

static void as_it_is(struct buf *out, const char *text, size_t n)
{
	buf_addn(out, text, n);
}

static const struct report_style plain = {"", "", as_it_is, as_it_is};

static void add_lines(const struct report_lines *lines, struct buf *out)
{
	for (int i = 0; i < lines->n; i++) {
		buf_addf(out, "%s %-*s", lines->items[i].warns ? "!" : " ", LABEL_WIDTH,
		         lines->items[i].label);
		report_write(out, &plain, lines->items[i].words);
		buf_add(out, "\n");
	}
}

/* A bar to the scale of the best day; a day with anything at all shows something. */
static void add_day(const struct report_day *d, int64_t peak, struct buf *out)
{
	int64_t width = (d->recovered * BAR_WIDTH + peak - 1) / peak;
	buf_addf(out, "  %s  ", d->day);
	for (int64_t i = 0; i < width; i++)
		buf_add(out, "█");
	buf_addf(out, "%s%lld", width ? " " : "", (long long)d->recovered);
	if (d->held)
		buf_addf(out, ", held %lld", (long long)d->held);
	if (d->reported)
		buf_addf(out, ", reported %lld", (long long)d->reported);
	buf_add(out, "\n");
}

static void add_watch(const struct report *r, const struct report_watch *w, struct arena *a,
                      struct buf *out)
{
	struct report_lines lines;
	struct buf heading = BUF_INIT;
	report_heading(w, &heading);
	buf_add(out, "\n");
	report_write(out, &plain, buf_text(&heading));
	buf_add(out, "\n");
	report_watch_lines(r, w, a, &lines);
	add_lines(&lines, out);
	for (int i = 0; i < w->ndays && !w->no_ledger; i++)
		add_day(&w->days[i], report_peak(w), out);
	buf_release(&heading);
}

void report_text(const struct report *r, struct buf *out)
{
	struct arena a = ARENA_INIT;
	struct report_lines lines;
	buf_add(out, "defib report, ");
	report_span(r, out);
	buf_add(out, "\n");
	report_summary_lines(r, &a, &lines);
	add_lines(&lines, out);
	for (int i = 0; i < r->nwatches; i++)
		add_watch(r, &r->watches[i], &a, out);
	arena_release(&a);
}
