/* report_format.c: see report_format.h. */
#include "view/report_format.h"

#include "watch/reports.h"

#include <assert.h>

static const struct {
	const char *type;
	void (*render)(const struct report *r, struct buf *out);
} forms[REPORT_FORMS] = {
	[REPORT_TEXT] = {"text/plain; charset=utf-8", report_text},
	[REPORT_MARKDOWN] = {"text/markdown; charset=utf-8", report_markdown},
	[REPORT_HTML] = {"text/html; charset=utf-8", report_html},
	[REPORT_JSON] = {"application/json", report_json},
};

int report_form_named(const char *name)
{
	return word_index(report_form_names, name);
}

void report_render(enum report_form form, const struct report *r, struct buf *out)
{
	assert(form < REPORT_FORMS);
	forms[form].render(r, out);
}

const char *report_type(enum report_form form)
{
	assert(form < REPORT_FORMS);
	return forms[form].type;
}
