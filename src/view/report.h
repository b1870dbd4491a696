/* SPDX-License-Identifier: Apache-2.0
 * report.h: renders a report from one struct to a buffer.
 */
#ifndef VIEW_REPORT_H
#define VIEW_REPORT_H

#include "insight/report.h"
#include "view/record.h"

extern const char *const report_form_names[]; /* by enum report_form; ends with NULL */
enum report_form { REPORT_TEXT, REPORT_MARKDOWN, REPORT_HTML, REPORT_JSON, REPORT_FORMS };

/* A report, and the sums over its watches. */
struct report_view {
	struct report report;
	struct report_numbers now, before;
};

/* The form of that name, as enum report_form; -1: there is none. */
int report_form_named(const char *name);
/* "text/html; charset=utf-8" */
const char *report_type(enum report_form form);

#define MARK_NAME '\1' /* a name begins */
#define MARK_TEXT '\2' /* a foreign sentence begins */
#define MARK_END '\3'

struct report_line {
	const char *label, *words;
	bool warns; /* it needs attention */
};

#define REPORT_LINES_MAX 24
struct report_lines {
	int n;
	struct report_line items[REPORT_LINES_MAX];
};

/* Lines without content are left out. */
void report_watch_lines(const struct report *r, const struct report_watch *w, struct arena *a,
                        struct report_lines *out);
/* Of all watches, and of databases that could not be read. */
void report_summary_lines(const struct report *r, struct arena *a, struct report_lines *out);
/* "7d to 2026-11-15 14:00 UTC" */
void report_span(const struct report *r, struct buf *out);
/* "main/pages, Page processing", with marks. */
void report_heading(const struct report_watch *w, struct buf *out);
/* The maximum of a day, for the scale of a chart; at least 1. */
int64_t report_peak(const struct report_watch *w);

/* How a form writes the text between marks. */
struct report_style {
	const char *name_open, *name_close;
	void (*name)(struct buf *out, const char *text, size_t n);
	void (*text)(struct buf *out, const char *text, size_t n);
};
void report_write(struct buf *out, const struct report_style *style, const char *words);

#endif
