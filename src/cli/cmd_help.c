/* SPDX-License-Identifier: Apache-2.0
 * cmd_help.c: `defib help`, and what --help prints: the tables of commands and options laid
 * out for a terminal of 80 columns. The manual page is the same tables.
 */
#include "cli/cli.h"

#include <ctype.h>

#define HELP_COLUMNS 80
#define OPTION_COLUMN 24 /* where the help of an option begins */
#define NAME_COLUMN 14   /* where the summary of a command begins */

static const struct cli_option help_options[] = {
	{"man", NULL, "print the manual page, defib(1)"},
	{NULL, NULL, NULL},
};

static const char *const group_titles[GROUP_COUNT] = {
	[GROUP_LOOK] = "Look",
	[GROUP_ACT] = "Act",
	[GROUP_RUN] = "Run",
	[GROUP_SET_UP] = "Set up",
};

static const char help_exit_codes[] =
	"0 clean or done, 1 stuck jobs found and not recovered, 2 usage,\n"
	"3 configuration, 4 database, 5 refused, 6 partly done";

static const char help_watch_options[] =
	"A watch without a file: --table T --key K --running SQL --alive-at SQL --stuck-after 1h "
	"--requeue 'SET list' …: every key of a watch is an option (defib config docs lists them).";

/* Text from column `at` on; lines after the first begin at column `indent`. */
static void print_wrapped(const char *text, int at, int indent)
{
	AUTO_BUF out = BUF_INIT, word = BUF_INIT;
	int column = at;
	for (bool first = true; *text; first = false) {
		size_t n = strcspn(text, " ");
		buf_clear(&word);
		buf_addn(&word, text, n);
		int width = out_width(buf_text(&word));
		if (!first && column + 1 + width > HELP_COLUMNS) {
			buf_addf(&out, "\n%*s", indent, "");
			column = indent;
		} else if (!first) {
			buf_addch(&out, ' ');
			column++;
		}
		buf_add(&out, buf_text(&word));
		column += width;
		text += n + strspn(text + n, " ");
	}
	printf("%s\n", buf_text(&out));
}

/* Text with line breaks; lines after the first begin at column `indent`. */
static void print_lines(const char *text, int indent)
{
	for (; *text; text++) {
		putchar(*text);
		if (*text == '\n')
			printf("%*s", indent, "");
	}
	putchar('\n');
}

/* " left", and its text beside it; below it if the left side is too wide. */
static void print_entry(const char *left, int column, const char *text)
{
	int width = out_width(left) + 2;
	printf("  %s", left);
	if (width + 2 > column)
		printf("\n%*s", column, "");
	else
		printf("%*s", column - width, "");
	print_wrapped(text, column, column);
}

static void print_options(const char *title, const struct cli_option *options)
{
	if (!options || !options->name)
		return;
	printf("\n%s\n", title);
	for (; options->name; options++) {
		char left[64];
		snprintf(left, sizeof left, "--%s%s%s", options->name, options->argument ? " " : "",
		         options->argument ? options->argument : "");
		print_entry(left, OPTION_COLUMN, options->help);
	}
}

static void print_examples(const struct command *command)
{
	printf("\nExamples:\n");
	for (int i = 0; i < CLI_EXAMPLES_MAX && command->examples[i].line; i++) {
		printf("  ");
		print_lines(command->examples[i].line, 4);
		printf("      ");
		print_wrapped(command->examples[i].why, 6, 6);
	}
}

static void print_command(const struct command *command)
{
	printf("Usage: defib %s%s%s\n\n", command->name, command->arguments[0] ? " " : "",
	       command->arguments);
	print_wrapped(command->summary, 0, 0);
	print_examples(command);
	print_options("Options:", command->options);
	if (command->watch_options) {
		printf("\n");
		print_wrapped(help_watch_options, 0, 2);
	}
}

static void print_groups(void)
{
	printf("defib %s: keeps background work alive\n\nUsage: defib COMMAND [OPTION…]\n",
	       defib_version());
	for (int group = 0; group < GROUP_COUNT; group++) {
		printf("\n%s:\n", group_titles[group]);
		for (const struct listed_command *l = commands; l->command; l++)
			if ((int)l->group == group)
				print_entry(l->command->name, NAME_COLUMN, l->command->summary);
	}
	printf("\ndefib help COMMAND shows its options, with examples.\n");
}

void cli_help(const struct command *command)
{
	if (command)
		print_command(command);
	else
		print_groups();
	print_options("Everywhere:", global_options);
	printf("\nExit codes:\n  ");
	print_lines(help_exit_codes, 2);
}

static const struct {
	const char *name, *meaning;
} environment[] = {
	{"DEFIB_CONFIG", "the configuration, where no -c FILE is given"},
	{"DEFIB_DB", "a database, where no --db URL is given"},
	{"DEFIB_DUMPABLE", "set to anything: core dumps are written, and debuggers can attach"},
	{"NO_COLOR", "set to anything: no colours"},
};

/* Text for roff: no line may become a request, no character an escape. */
static void print_text(const char *text)
{
	if (*text == '.' || *text == '\'')
		printf("\\&");
	for (; *text; text++)
		if (*text == '\\')
			printf("\\e");
		else if (*text == '-')
			printf("\\-");
		else if (*text == '\'')
			printf("\\(aq");
		else
			putchar(*text);
}

static void print_line(const char *before, const char *text, const char *after)
{
	printf("%s", before);
	print_text(text);
	printf("%s\n", after);
}

static void manual_options(const struct cli_option *options)
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

static void manual_examples(const struct command *c)
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
	for (const struct listed_command *l = commands; l->command; l++) {
		const struct command *c = l->command;
		if (l->group != group)
			continue;
		printf(".SS \"defib %s ", c->name);
		print_text(c->arguments);
		printf("\"\n");
		print_line("", c->summary, ".");
		manual_examples(c);
		manual_options(c->options);
		if (c->watch_options)
			print_line(".PP\n", help_watch_options, "");
	}
}

/* The manual page, defib(1), to stdout. */
static void print_manual(void)
{
	printf(".TH DEFIB 1 \"\" \"defib %s\" \"User Commands\"\n", defib_version());
	printf(".SH NAME\ndefib \\- keeps background work alive\n"
	       ".SH SYNOPSIS\n.B defib\n.I COMMAND\n[\\fIOPTION\\fR...]\n"
	       ".SH DESCRIPTION\n"
	       "Watches rows that are being worked on in any table of PostgreSQL or SQLite, notices\n"
	       "when the worker behind one is gone, chooses a remedy by a readable rule, acts in one\n"
	       "guarded transaction, and keeps the evidence.\n"
	       ".PP\n\\fBdefib help\\fR \\fICOMMAND\\fR shows one command with its examples.\n");
	for (int group = 0; group < GROUP_COUNT; group++)
		print_group((enum command_group)group);
	printf(".SH OPTIONS OF EVERY COMMAND\n");
	manual_options(global_options);
	print_line(".SH EXIT STATUS\n", help_exit_codes, ".");
	printf(".SH ENVIRONMENT\n");
	for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) {
		print_line(".TP\n.B ", environment[i].name, "");
		print_line("", environment[i].meaning, "");
	}
	printf(".SH FILES\n.TP\n.B ./defib.yaml\nthe configuration, where nothing else is named\n");
}

static int cmd_help(struct cli *c)
{
	if (cli_flag(c, "man")) {
		print_manual();
		return EXIT_CLEAN;
	}
	if (c->nwords > 1)
		return cli_usage("defib help takes one command");
	const struct command *command = c->nwords ? cli_command(c->words[0]) : NULL;
	if (c->nwords && !command)
		return cli_unknown_command(c->words[0]);
	cli_help(command);
	return EXIT_CLEAN;
}

COMMAND(help, cmd_help, "[COMMAND]", "all commands in groups, or one with its options and examples",
        .options = help_options,
        .examples = {{"defib help scan", "the same as defib scan --help"},
                     {"defib help --man | man -l -", "all of it, as the manual page"}});
