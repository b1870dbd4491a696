/* SPDX-License-Identifier: Apache-2.0
 * report_forms.c: a report in its forms: text for a terminal, Markdown for chat and mail, a
 * self-contained HTML page, and JSON. See report.h.
 *
 * In Markdown, names are in code spans, where only a backtick has a meaning. Angle brackets are
 * still replaced by look-alikes, because some chat services process <!channel> and links before
 * Markdown.
 */
#include "view/report_forms.h"

#include "base/clock.h"
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
static void report_forms_bar(int64_t n, int64_t peak, int width, struct buf *out)
{
	int64_t blocks = (n * width + peak - 1) / peak;
	for (int64_t i = 0; i < blocks; i++)
		buf_add(out, "█");
	buf_addf(out, "%s%lld", blocks ? " " : "", (long long)n);
}

/* ---- text ---- */

#define LABEL_WIDTH 20
#define TEXT_BAR 40

static void report_forms_plain(struct buf *out, const char *text, size_t n)
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
		report_forms_bar(d->recovered, report_peak(w), TEXT_BAR, out);
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
		report_forms_bar(w->days[i].recovered, report_peak(w), MARKDOWN_BAR, out);
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
			.style = {"", "", report_forms_plain, report_forms_plain},
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

static void report_forms_add(struct buf *out, const char *piece)
{
	buf_add(out, piece ? piece : "");
}

static void report_forms_add_lines(const struct form *f, const struct report_lines *lines,
                                   struct buf *out)
{
	report_forms_add(out, f->lines);
	for (int i = 0; i < lines->n; i++) {
		f->line(&lines->items[i], out);
		report_write(out, &f->style, lines->items[i].words);
		report_forms_add(out, f->line_end);
	}
	report_forms_add(out, f->lines_end);
}

static void report_forms_add_watch(const struct form *f, const struct report *r,
                                   const struct report_watch *w, struct arena *a, struct buf *out)
{
	struct report_lines lines;
	AUTO_BUF heading = BUF_INIT;
	report_heading(w, &heading);
	report_forms_add(out, f->heading);
	report_write(out, &f->style, buf_text(&heading));
	report_forms_add(out, f->heading_end);
	report_watch_lines(r, w, a, &lines);
	report_forms_add_lines(f, &lines, out);
	if (!w->no_ledger)
		f->days(w, out);
}

static void write_document(const struct form *f, const struct report *r, struct buf *out)
{
	AUTO_ARENA a = ARENA_INIT;
	struct report_lines lines;
	report_forms_add(out, f->head);
	report_forms_add(out, f->begin);
	report_span(r, out);
	report_forms_add(out, f->title_end);
	report_summary_lines(r, &a, &lines);
	report_forms_add_lines(f, &lines, out);
	for (int i = 0; i < r->nwatches; i++)
		report_forms_add_watch(f, r, &r->watches[i], &a, out);
	report_forms_add(out, f->end);
}

/* ---- JSON ---- */

#define N(member) FIELD_NUMBER, FIELD_AT(struct report_numbers, member)
/* Remedies that recover a job. */
#define OF_RECOVERED(id, count) {count, N(by_remedy[REMEDY_##id])},
#define OF_HELD(id, count)
#define OF_LEFT(id, count)
#define OF_REMEDY(id, name, by_hand, marks, event, outcome, count, ...) OF_##outcome(id, count)
/* clang-format off */
static const struct field numbers_fields[] = {
	{"detected", N(detected), .about = "found stuck"},
	{"recovered", N(recovered), .about = "the sum over the remedies that follow"},
	REMEDY_LIST(OF_REMEDY)
	{"recovered_by_hand", N(recovered_by_hand), .about = "of the recovered: by an operator"},
	{"rolled_back", N(rolled_back), .about = "rollbacks that were completed"},
	{"held", N(held), .about = "put on hold"},
	{"reported", N(reported), .about = "found stuck and left unchanged"},
	{"retries_exhausted", N(exhausted)},
	{"late_completions", N(late)},
	{"workers_returned", N(returned)},
	{"changed_meanwhile", N(changed)},
	{"brakes", N(brakes)},
	{"by_hand", N(by_hand), .about = "acts of operators"},
	{0},
};
/* clang-format on */
#undef N
static const struct record numbers_record = {.fields = numbers_fields,
                                             .size = sizeof(struct report_numbers)};

#define N(member) FIELD_NUMBER, FIELD_AT(struct report_day, member)
static const struct field day_fields[] = {
	{"day", FIELD_CHARS, FIELD_AT(struct report_day, day)},
	{"recovered", N(recovered)},
	{"held", N(held)},
	{"reported", N(reported)},
	{0},
};
#undef N
static const struct record day_record = {.fields = day_fields, .size = sizeof(struct report_day)};

static bool times_median(const void *row, int64_t *out)
{
	*out = ((const struct digest_times *)row)->median_us;
	return ((const struct digest_times *)row)->n > 0;
}

static bool times_longest(const void *row, int64_t *out)
{
	*out = ((const struct digest_times *)row)->worst_us;
	return ((const struct digest_times *)row)->n > 0;
}

static const struct field times_fields[] = {
	{"n", FIELD_NUMBER, FIELD_AT(struct digest_times, n)},
	{"median_s", FIELD_SECONDS, .number = times_median, .null = true},
	{"longest_s", FIELD_SECONDS, .number = times_longest, .null = true},
	{0},
};
static const struct record times_record = {.fields = times_fields,
                                           .size = sizeof(struct digest_times)};

/* The most frequent of something, and how often. */
#define COUNT                                                                                      \
	{                                                                                              \
		"n", FIELD_NUMBER, FIELD_AT(struct digest_count, n)                                        \
	}
#define NAME FIELD_AT(struct digest_count, name), .null = true
#define ALSO FIELD_AT(struct digest_count, also), .null = true
static const struct field cause_fields[] = {COUNT, {"verdict", NAME}, {"rule", ALSO}, {0}};
static const struct field top_kind_fields[] = {COUNT, {"kind", NAME}, {0}};
static const struct field owner_fields[] = {COUNT, {"owner", FIELD_TEXT, MASK_OWNER, NAME}, {0}};
static const struct field top_job_fields[] = {COUNT, {"job", NAME}, {0}};
static const struct field actor_fields[] = {COUNT, {"actor", NAME}, {"event", ALSO}, {0}};
#undef COUNT
#undef NAME
#undef ALSO
#define TOP(rows)                                                                                  \
	{                                                                                              \
		.fields = (rows), .size = sizeof(struct digest_count)                                      \
	}
static const struct record cause_record = TOP(cause_fields);
static const struct record top_kind_record = TOP(top_kind_fields);
static const struct record owner_record = TOP(owner_fields);
static const struct record top_job_record = TOP(top_job_fields);
static const struct record actor_record = TOP(actor_fields);
#undef TOP

#define AT(member) FIELD_AT(struct held_job, member)
static const struct field held_fields[] = {
	{"job", AT(job)},
	{"at", AT(at)},
	{"cause", AT(cause)},
	{"reason", FIELD_TEXT, MASK_WORDS, AT(reason), .null = true},
	{0},
};
#undef AT

static void held_secrets(const void *row, const struct watch *w, struct secrets *out)
{
	secrets_owner(out, w, ((const struct held_job *)row)->owner);
}

const struct record held_record = {
	.name = "HeldJob",
	.about = "a job on hold",
	.fields = held_fields,
	.size = sizeof(struct held_job),
	.secrets = held_secrets,
};

static void report_forms_watch_of(const void *row, struct viewer *v)
{
	v->watch = ((const struct report_watch *)row)->watch;
	v->database = ((const struct report_watch *)row)->database->name;
}

static const char *watch_label(const void *row)
{
	return ((const struct report_watch *)row)->watch->label;
}

static const char *watch_group(const void *row)
{
	return ((const struct report_watch *)row)->watch->group;
}

#define AT(member) FIELD_AT(struct report_watch, member)
#define N(member) FIELD_N(struct report_watch, member)
static const struct field watch_fields[] = {
	{"watch", .words = field_watch},
	{"database", .words = field_database},
	{"label", .text = watch_label, .null = true},
	{"group", .text = watch_group, .null = true},
	{"no_ledger", AT(no_ledger), .null = true, .about = "why there is nothing to report"},
	{"missing", FIELD_FAILURE, AT(missing), .about = "what is missing from the numbers"},
	{"now", FIELD_RECORD, AT(now), .of = &numbers_record, .about = "in this period"},
	{"before", FIELD_RECORD, AT(before), .of = &numbers_record, .about = "in the one before it"},
	{"days", FIELD_LIST, AT(days), N(ndays), .of = &day_record},
	{"time_to_recover", FIELD_RECORD, AT(times), .of = &times_record},
	{"causes", FIELD_LIST, AT(causes.items), N(causes.n), .of = &cause_record},
	{"kinds", FIELD_LIST, AT(kinds.items), N(kinds.n), .of = &top_kind_record},
	{"owners", FIELD_LIST, AT(owners.items), N(owners.n), .of = &owner_record},
	{"jobs", FIELD_LIST, AT(jobs.items), N(jobs.n), .of = &top_job_record},
	{"actions", FIELD_LIST, AT(actors.items), N(actors.n), .of = &actor_record},
	{"false_positives", FIELD_NUMBER, AT(mistakes), .about = "recoveries whose worker was alive"},
	{"near_misses", FIELD_NUMBER, AT(near_misses), FIELD_HAS(struct report_watch, has_near_misses)},
	{"waiting", FIELD_NUMBER, AT(waiting), .about = "current holds"},
	{"holds", FIELD_LIST, AT(holds), N(nholds), .of = &held_record, .about = "the oldest of them"},
	{"advice", FIELD_TEXTS, AT(advice), N(nadvice)},
	{0},
};
#undef AT
#undef N

static const struct record watch_record = {
	.fields = watch_fields, .size = sizeof(struct report_watch), .of = report_forms_watch_of};

static const struct field lost_fields[] = {
	{"database", FIELD_AT(struct report_lost, database)},
	{"because", FIELD_FAILURE, FIELD_AT(struct report_lost, failure)},
	{0},
};
static const struct record lost_record = {.fields = lost_fields,
                                          .size = sizeof(struct report_lost)};

#define AT(member) FIELD_AT(struct report_view, member)
#define N(member) FIELD_N(struct report_view, member)
static const struct field report_fields[] = {
	{"from", FIELD_TIME, AT(report.period.from_us)},
	{"to", FIELD_TIME, AT(report.period.to_us)},
	{"now", FIELD_RECORD, AT(now), .of = &numbers_record, .about = "in this period"},
	{"before", FIELD_RECORD, AT(before), .of = &numbers_record, .about = "in the one before it"},
	{"watches", FIELD_LIST, AT(report.watches), N(report.nwatches), .of = &watch_record},
	{"not_reported", FIELD_LIST, AT(report.lost), N(report.nlost), .of = &lost_record,
     .about = "databases that could not be read"},
	{0},
};
#undef AT
#undef N

const struct record report_record = {
	.name = "Report",
	.about = "what happened to the watches in a period",
	.fields = report_fields,
	.size = sizeof(struct report_view),
};

static void report_json(const struct report *r, struct buf *out)
{
	/* Each watch is the viewer's own copy. */
	const struct viewer v = viewer_local(NULL, NULL);
	struct report_view view = {.report = *r};
	report_total(r, &view.now, &view.before);
	record_json(&report_record, &view, &v, out);
	buf_add(out, "\n");
}

void report_render(enum report_form form, const struct report *r, struct buf *out)
{
	assert(form < REPORT_FORMS);
	if (form == REPORT_JSON)
		report_json(r, out);
	else
		write_document(&forms[form], r, out);
}
