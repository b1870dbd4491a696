/* SPDX-License-Identifier: Apache-2.0
 * cmd_report.c: `defib report --since 7d`: what happened to the watches, as text,
 * Markdown, HTML or JSON. Databases that are down are named, and the rest is told.
 */
#include "cli/select.h"

#include "base/clock.h"
#include "base/text.h"
#include "view/report.h"

#include <errno.h>
#include <unistd.h>

#define WEEK_US (INT64_C(7) * 86400 * 1000000)

const struct cli_option report_options[] = {
	{"since", "DURATION", "how far back, such as 24h, 7d or 30d (7d)"},
	{"format", "FORMAT", "text, markdown, html or json (text)"},
	{"output", "FILE", "write to this file instead of stdout, completely or not at all"},
	{"watch", "WATCH", "of this watch only"},
	{NULL, NULL, NULL},
};

static bool read_form(const struct cli *c, enum report_form *form)
{
	const char *name = cli_value(c, "format");
	int at = name ? report_form_named(name) : (int)(c->json ? REPORT_JSON : REPORT_TEXT);
	if (at < 0) {
		cli_usage("--format: there is no format \"%s\"%s; text, markdown, html or json", name,
		          text_hint(name, report_form_names).text);
		return false;
	}
	*form = (enum report_form)at;
	return true;
}

/* Now, as late as an entry that was written a moment ago can say: times are cut, not rounded. */
static bool read_period(const struct cli *c, struct period *p)
{
	int64_t since = WEEK_US;
	if (!cli_duration(c, "since", &since))
		return false;
	if (since < REPORT_LEAST_US || since > REPORT_MOST_US) {
		cli_usage("--since must be from 1m to 366d");
		return false;
	}
	p->to_us = (clock_wall_us() / 1000 + 1) * 1000;
	p->from_us = p->to_us - since;
	return true;
}

/* Beside the file first: who reads it finds the old one or the new one, never a half. */
static int write_file(const char *path, const struct buf *text)
{
	struct buf beside = BUF_INIT;
	buf_addf(&beside, "%s.%ld", path, (long)getpid());
	FILE *file = fopen(buf_text(&beside), "w");
	bool written = file && fwrite(text->data, 1, text->len, file) == text->len;
	int why = errno;
	if (file && fclose(file) != 0)
		written = false;
	if (written && rename(buf_text(&beside), path) != 0) {
		why = errno;
		written = false;
	}
	if (!written)
		unlink(buf_text(&beside));
	buf_release(&beside);
	return written ? EXIT_CLEAN : cli_usage("--output: cannot write %s: %s", path, strerror(why));
}

static int write_report(const struct cli *c, enum report_form form, const struct report *r)
{
	const char *path = cli_value(c, "output");
	struct buf text = BUF_INIT;
	int code = EXIT_CLEAN;
	report_render(form, r, &text);
	if (path)
		code = write_file(path, &text);
	else
		fwrite(text.data, 1, text.len, stdout);
	buf_release(&text);
	return code;
}

/* Everything that is missing is also told on stderr: the document may be for somebody else. */
static int outcome(const struct report *r)
{
	int code = EXIT_CLEAN;
	for (int i = 0; i < r->nlost; i++)
		code = cli_fail(&r->lost[i].failure);
	for (int i = 0; i < r->nwatches; i++)
		if (r->watches[i].missing.code)
			code = cli_fail(&r->watches[i].missing);
	return code != EXIT_CLEAN && r->nwatches ? EXIT_PARTLY : code;
}

int cmd_report(struct cli *c)
{
	struct selection selection;
	struct report report;
	struct period period;
	enum report_form form;
	if (!read_form(c, &form) || !read_period(c, &period))
		return EXIT_USAGE;
	int code = select_watches(c, &selection);
	if (code != EXIT_CLEAN)
		return code;
	select_queues_too(c, &selection);
	struct report_source *sources = ARENA_ARRAY(&c->arena, struct report_source, selection.n + 1);
	for (int i = 0; i < selection.n; i++)
		sources[i] = (struct report_source){selection.groups[i].watch, selection.groups[i].database,
		                                    selection.groups[i].session};
	report_gather(sources, selection.n, &period, c->settings.ledger == LEDGER_OFF, &c->arena,
	              &report);
	code = write_report(c, form, &report);
	if (code == EXIT_CLEAN)
		code = outcome(&report);
	selection_release(&selection);
	return code;
}
