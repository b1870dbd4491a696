/* SPDX-License-Identifier: Apache-2.0
 * report_forms.h: a report as text, Markdown, HTML and JSON.
 */
#ifndef VIEW_REPORT_FORMS_H
#define VIEW_REPORT_FORMS_H

#include "view/report.h"

/* A struct report_view, and a struct held_job in it. */
extern const struct record report_record, held_record;

void report_render(enum report_form form, const struct report *r, struct buf *out);

#endif
