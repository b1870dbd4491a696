/*
 * report_format.h: the forms of a report: one struct in, a buffer out.
 *
 * report_text.c       for a terminal, with a small chart of the days
 * report_markdown.c   for chat and mail: lists and one block a chart, no tables
 * report_html.c       one page that needs nothing else: printable, light and dark, no script
 * report_json.c       every number, for programs
 * report_words.c      the sentences that the first three share
 */
#ifndef VIEW_REPORT_FORMAT_H
#define VIEW_REPORT_FORMAT_H

#include "insight/report.h"

enum report_form { REPORT_TEXT, REPORT_MARKDOWN, REPORT_HTML, REPORT_JSON, REPORT_FORMS };

void report_text(const struct report *r, struct buf *out);
void report_markdown(const struct report *r, struct buf *out);
void report_html(const struct report *r, struct buf *out);
void report_json(const struct report *r, struct buf *out);

/* The form of that name, in the order of the enum; -1: there is none. */
int report_form_named(const char *name);
void report_render(enum report_form form, const struct report *r, struct buf *out);
/* "text/html; charset=utf-8" */
const char *report_type(enum report_form form);

#endif
