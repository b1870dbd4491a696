/*
 * manual.c: the manual page, defib(1), from the tables of commands and options: what --help
 * says and what man shows cannot differ. Installed by the build, checked with groff by a test.
 */
#include "cli/help.h"

#include <ctype.h>

static const struct {
	const char *name, *meaning;
} environment[] = {
	{"DEFIB_CONFIG", "the configuration, where no -c FILE is given"},
	{"DEFIB_DB", "a database, where no --db URL is given"},
	{"NO_COLOR", "set to anything: no colours"},
};

/* Text for roff: no line of ours may become a request, no sign of ours an escape. */
static void print_text(const char *text)
{
	if (*text == '.' || *text == '\'')
		printf("\\&");
	for (; *text; text++) {
		if (*text == '\\')
			printf("\\e");
		else if (*text == '-')
			printf("\\-");
		else if (*text == '\'')
			printf("\\(aq");
		else
			putchar(*text);
	}
}

static void print_line(const char *before, const char *text, const char *after)
{
	printf("%s", before);
	print_text(text);
	printf("%s\n", after);
}

static void print_options(const struct cli_option *options)
{
	for (; options && options->name; options++) {
		printf(".TP\n\\fB\\-\\-");
		print_text(options->name);
		printf("\\fR");
		if (options->argument)
			print_line(" \\fI", options->argument, "\\fR");
		else
			printf("\n");
		print_line("", options->help, "");
	}
}

static void print_examples(const struct command *c)
{
	printf(".PP\nExamples:\n");
	for (int i = 0; i < CLI_EXAMPLES_MAX && c->examples[i].line; i++) {
		print_line(".PP\n.RS 4\n.nf\n\\fB", c->examples[i].line, "\\fR");
		printf(".fi\n.RE\n.RS 8\n");
		print_line("", c->examples[i].why, "");
		printf(".RE\n");
	}
}

static void print_group(enum command_group group)
{
	printf(".SH ");
	for (const char *p = group_titles[group]; *p; p++)
		putchar(toupper((unsigned char)*p));
	printf("\n");
	for (const struct command *c = commands; c->name; c++) {
		if (c->group != group)
			continue;
		printf(".SS \"defib %s ", c->name);
		print_text(c->arguments);
		printf("\"\n");
		print_line("", c->summary, ".");
		print_examples(c);
		print_options(c->options);
		if (c->watch_options)
			print_line(".PP\n", help_watch_options, "");
	}
}

void print_manual(void)
{
	printf(".TH DEFIB 1 \"\" \"defib %s\" \"User Commands\"\n", defib_version());
	printf(".SH NAME\ndefib \\- keeps background work alive\n"
	       ".SH SYNOPSIS\n.B defib\n.I COMMAND\n[\\fIOPTION\\fR...]\n"
	       ".SH DESCRIPTION\n"
	       "Watches rows that are being worked on in any table of PostgreSQL or SQLite, notices\n"
	       "when the worker behind one is gone, decides by a rule that can be read, acts in one\n"
	       "guarded transaction, and keeps the evidence.\n"
	       ".PP\n\\fBdefib help\\fR \\fICOMMAND\\fR shows one command with its examples.\n");
	for (int group = 0; group < GROUP_COUNT; group++)
		print_group((enum command_group)group);
	printf(".SH OPTIONS OF EVERY COMMAND\n");
	print_options(global_options);
	print_line(".SH EXIT STATUS\n", help_exit_codes, ".");
	printf(".SH ENVIRONMENT\n");
	for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) {
		print_line(".TP\n.B ", environment[i].name, "");
		print_line("", environment[i].meaning, "");
	}
	printf(".SH FILES\n.TP\n.B ./defib.yaml\nthe configuration, where nothing else is named\n");
}
