/* SPDX-License-Identifier: Apache-2.0
 * cmd_help.c: `defib help`, and what --help prints: the tables of commands and options laid
 * out for a terminal of 80 columns. The manual page is the same tables.
 */
#include "cli/cli.h"

#include <ctype.h>

#define HELP_COLUMNS 80
#define OPTION_COLUMN 24 /* where the help of an option begins */
#define NAME_COLUMN 18   /* where the summary of a command begins … */
#define FIRST_COLUMN 13  /* … and on the first screen, and in a group */

static const struct cli_option help_options[] = {
	{"all", NULL, "every command, in groups"},
	{"man", NULL, "print the manual page, defib(1)"},
	{NULL, NULL, NULL},
};

static const char help_exit_codes[] =
	"0 clean or done, 1 stuck jobs found and not recovered, 2 usage,\n"
	"3 configuration, 4 database, 5 refused, 6 partly done";

static const char help_watch_options[] =
	"A watch without a file: --table T --key K --running SQL --alive-at SQL --stuck-after 1h "
	"--requeue 'SET list' …: every key of a watch is an option (defib config docs lists them).";

static const char help_groups[] =
	"The word of a group may be left out: defib learn is defib tune learn.";

/* Commands whose output is also part of another one. */
static const char part_title[] = "Parts of show and status, in a form of their own";

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

static void help_print_options(const char *title, const struct cli_option *options)
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

static const struct listed_command *listing_of(const struct command *command)
{
	const struct listed_command *l = commands;
	while (l->command && l->command != command)
		l++;
	return l;
}

static void print_command(const struct command *command)
{
	AUTO_BUF words = BUF_INIT;
	const struct listed_command *l = listing_of(command);
	cli_command_words(l, &words);
	printf("Usage: defib %s%s%s\n\n", buf_text(&words), command->arguments[0] ? " " : "",
	       command->arguments);
	print_wrapped(command->summary, 0, 0);
	if (l->group->word)
		printf("\"defib %s\" is the same.\n", command->name);
	print_examples(command);
	help_print_options("Options:", command->options);
	if (command->watch_options) {
		printf("\n");
		print_wrapped(help_watch_options, 0, 2);
	}
}

static void help_print_group(const struct command_group *group)
{
	printf("Usage: defib %s COMMAND [OPTION…]\n\n%s\n\nCommands:\n", group->word, group->title);
	for (const struct listed_command *l = commands; l->command; l++)
		if (l->group == group)
			print_entry(l->command->name, FIRST_COLUMN, l->command->summary);
	printf("\ndefib help %s COMMAND shows its options, with examples.\n"
	       "The word \"%s\" may be left out.\n",
	       group->word, group->word);
}

/* What someone needs who was just woken, on a terminal of 24 lines. */
static void print_first_screen(void)
{
	printf("defib %s: keeps background work alive\n", defib_version());
	for (const struct command_group *g = command_groups; g < command_groups + GROUP_COUNT; g++) {
		bool begun = false;
		for (const struct listed_command *l = commands; l->command; l++) {
			if (l->group != g || l->place != PLACE_FIRST)
				continue;
			printf("%s", begun ? "" : "\n");
			begun = true;
			print_entry(l->command->name, FIRST_COLUMN, l->command->summary);
		}
	}
	printf("\nMore:\n");
	print_entry("defib help COMMAND", OPTION_COLUMN, "its options, with examples");
	print_entry("defib help --all", OPTION_COLUMN,
	            "every command, and the options and exit codes of all");
	for (const struct command_group *g = command_groups; g < command_groups + GROUP_COUNT; g++)
		if (g->word) {
			char left[64];
			snprintf(left, sizeof left, "defib %s", g->word);
			print_entry(left, OPTION_COLUMN, g->title);
		}
}

static bool is_part(const struct listed_command *l)
{
	return l->place == PLACE_PART;
}

static void help_print_all(void)
{
	printf("defib %s: keeps background work alive\n\nUsage: defib COMMAND [OPTION…]\n",
	       defib_version());
	for (const struct command_group *g = command_groups; g < command_groups + GROUP_COUNT; g++) {
		if (g->word)
			printf("\ndefib %s: %s\n", g->word, g->title);
		else
			printf("\n%s:\n", g->title);
		for (const struct listed_command *l = commands; l->command; l++) {
			AUTO_BUF words = BUF_INIT;
			cli_command_words(l, &words);
			if (l->group == g && !is_part(l))
				print_entry(buf_text(&words), NAME_COLUMN, l->command->summary);
		}
	}
	printf("\n%s:\n", part_title);
	for (const struct listed_command *l = commands; l->command; l++)
		if (is_part(l))
			print_entry(l->command->name, NAME_COLUMN, l->command->summary);
	printf("\n");
	print_wrapped(help_groups, 0, 0);
	printf("defib help COMMAND shows its options, with examples.\n");
}

static void print_everywhere(void)
{
	help_print_options("Everywhere:", global_options);
	printf("\nExit codes:\n  ");
	print_lines(help_exit_codes, 2);
}

void cli_help(const struct command_group *group, const struct command *command, bool all)
{
	if (command)
		print_command(command);
	else if (group)
		help_print_group(group);
	else if (all)
		help_print_all();
	else
		print_first_screen();
	if (command || all)
		print_everywhere();
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
static void help_print_text(const char *text)
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

static void help_print_line(const char *before, const char *text, const char *after)
{
	printf("%s", before);
	help_print_text(text);
	printf("%s\n", after);
}

static void manual_options(const struct cli_option *options)
{
	for (; options && options->name; options++) {
		printf(".TP\n\\fB\\-\\-");
		help_print_text(options->name);
		printf("\\fR");
		if (options->argument)
			help_print_line(" \\fI", options->argument, "\\fR");
		else
			printf("\n");
		help_print_line("", options->help, "");
	}
}

static void manual_examples(const struct command *c)
{
	printf(".PP\nExamples:\n");
	for (int i = 0; i < CLI_EXAMPLES_MAX && c->examples[i].line; i++) {
		help_print_line(".PP\n.RS 4\n.nf\n\\fB", c->examples[i].line, "\\fR");
		printf(".fi\n.RE\n.RS 8\n");
		help_print_line("", c->examples[i].why, "");
		printf(".RE\n");
	}
}

static void manual_title(const char *title)
{
	printf(".SH ");
	for (const char *p = title; *p; p++)
		putchar(toupper((unsigned char)*p));
	printf("\n");
}

static void manual_command(const struct listed_command *l)
{
	AUTO_BUF words = BUF_INIT;
	const struct command *c = l->command;
	cli_command_words(l, &words);
	printf(".SS \"defib %s ", buf_text(&words));
	help_print_text(c->arguments);
	printf("\"\n");
	help_print_line("", c->summary, ".");
	manual_examples(c);
	manual_options(c->options);
	if (c->watch_options)
		help_print_line(".PP\n", help_watch_options, "");
}

static void manual_group(const struct command_group *g)
{
	AUTO_BUF title = BUF_INIT;
	if (g->word)
		buf_addf(&title, "defib %s", g->word);
	manual_title(g->word ? buf_text(&title) : g->title);
	if (g->word)
		help_print_line("Commands to ", g->title, ".");
	for (const struct listed_command *l = commands; l->command; l++)
		if (l->group == g && !is_part(l))
			manual_command(l);
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
	help_print_line("", help_groups, "");
	for (const struct command_group *g = command_groups; g < command_groups + GROUP_COUNT; g++)
		manual_group(g);
	manual_title(part_title);
	for (const struct listed_command *l = commands; l->command; l++)
		if (is_part(l))
			manual_command(l);
	printf(".SH OPTIONS OF EVERY COMMAND\n");
	manual_options(global_options);
	help_print_line(".SH EXIT STATUS\n", help_exit_codes, ".");
	printf(".SH ENVIRONMENT\n");
	for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) {
		help_print_line(".TP\n.B ", environment[i].name, "");
		help_print_line("", environment[i].meaning, "");
	}
	printf(".SH FILES\n.TP\n.B ./defib.yaml\nthe configuration, where nothing else is named\n");
}

static int cmd_help(struct cli *c)
{
	if (cli_flag(c, "man")) {
		print_manual();
		return EXIT_CLEAN;
	}
	const struct command_group *group = c->nwords ? cli_group(c->words[0]) : NULL;
	const int named = group ? 1 : 0; /* which word names the command */
	const struct command *command = c->nwords > named ? cli_command(group, c->words[named]) : NULL;
	if (c->nwords > named + 1)
		return cli_usage("defib help takes one command");
	if (c->nwords > named && !command)
		return cli_unknown_command(group, c->words[named]);
	cli_help(group, command, cli_flag(c, "all"));
	return EXIT_CLEAN;
}

COMMAND(help, cmd_help, "[COMMAND]", "show the commands, or one with its options and examples",
        .options = help_options,
        .examples = {{"defib help scan", "the same as defib scan --help"},
                     {"defib help --all", "every command, in groups"},
                     {"defib help --man | man -l -", "all of it, as the manual page"}});
