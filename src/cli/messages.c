/* SPDX-License-Identifier: Apache-2.0
 * messages.c: what a command prints on stderr: a line for a person, or an event of its log
 * where a program reads that; and the question before something is changed.
 */
#include "base/text.h"
#include "cli/cli.h"

#include <unistd.h>

/* Set once, before there are threads. */
static bool as_events;

bool cli_set_up_log(const struct cli *c, enum log_format standard)
{
	enum log_format format = standard;
	const char *form = cli_value(c, "log");
	if (form && !log_format_parse(form, &format)) {
		cli_unknown("log format", form, log_format_names);
		return false;
	}
	as_events = form && format != LOG_PLAIN;
	log_setup(c->verbose ? LOG_DEBUG : (c->quiet ? LOG_ERROR : LOG_INFO), format);
	return true;
}

/* A message may quote what stands in a row, or what a server answered. */
static void print_line(const char *text, const char *next)
{
	struct buf line = BUF_INIT;
	buf_add(&line, "defib: ");
	out_visible(&line, text);
	buf_add(&line, next ? "; " : "");
	out_visible(&line, next ? next : "");
	fprintf(stderr, "%s\n", buf_text(&line));
	buf_release(&line);
}

void cli_message(const char *text, const char *next)
{
	bool more = next && *next;
	if (!as_events)
		print_line(text, more ? next : NULL);
	else if (more)
		log_event(LOG_ERROR, text, LOG_STR("next", next));
	else
		log_event(LOG_ERROR, text);
}

static void problem_event(const struct cfg_problem *p, const char *place)
{
	log_event(p->warning ? LOG_WARN : LOG_ERROR,
	          p->warning ? "questionable setting" : "invalid configuration", LOG_STR("at", place),
	          LOG_STR("because", p->text));
}

void cli_problems(const struct cli *c)
{
	struct buf place = BUF_INIT;
	for (int i = 0; i < c->reader.nproblems; i++) {
		const struct cfg_problem *p = &c->reader.problems[i];
		if (p->warning && c->quiet)
			continue;
		buf_clear(&place);
		cfg_mark_text(p->at, &place);
		if (as_events)
			problem_event(p, buf_text(&place));
		else
			fprintf(stderr, "%s: %s%s\n", buf_text(&place), p->warning ? "warning: " : "", p->text);
	}
	buf_release(&place);
}

/* ---- questions ---- */

/* Somebody sits at stdin or, where data came from there, at the terminal that stderr shows. */
static FILE *somebody(const struct cli *c, bool stdin_used)
{
	if (!stdin_used)
		return isatty(STDIN_FILENO) ? stdin : NULL;
	return c->tty_err ? fopen("/dev/tty", "re") : NULL;
}

static bool answer_is_yes(FILE *in)
{
	char line[16] = "";
	if (!fgets(line, sizeof line, in))
		return false;
	line[strcspn(line, "\r\n")] = '\0';
	return strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0;
}

int cli_confirm(const struct cli *c, const char *question, bool stdin_used)
{
	struct failure f = {0};
	if (cli_flag(c, "yes") || cli_flag(c, "dry-run"))
		return EXIT_CLEAN;
	FILE *in = somebody(c, stdin_used);
	if (!in) {
		fail(&f, DEFIB_REFUSED, "nothing was done: not a terminal");
		fail_next(&f, "pass --yes to %s, or --dry-run to see what would be done", question);
		return cli_fail(&f);
	}
	fflush(stdout);
	fprintf(stderr, "%s? [y/N] ", question);
	bool yes = answer_is_yes(in);
	if (in != stdin)
		(void)fclose(in);
	if (yes)
		return EXIT_CLEAN;
	fail(&f, DEFIB_REFUSED, "nothing was changed");
	return cli_fail(&f);
}
